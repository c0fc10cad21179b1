"""Routing of queries: the sketch that answers a query, if one is safe, up to date, and worth its use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from belvedere.algebra.relations import Rel
from belvedere.algebra.walks import tables
from belvedere.analyses.stable import Cuts, Final, Subset, form, unsafe
from belvedere.errors import BelvedereError
from belvedere.lake.pins import Pins
from belvedere.sketches.definition import SketchDefinition, Version
from belvedere.sketches.safety.evidence import Evidence
from belvedere.sketches.safety.planning import cuts_of, session_settings
from belvedere.sketches.use.query_shapes import query_shape
from belvedere.sketches.use.reuse import refusal
from belvedere.sketches.use.rewrite import (
    MOST_KEPT,
    Reading,
    SketchAnswer,
    fragment_share,
    rewrite_query,
)
from belvedere.sql.binder.bind import bind
from belvedere.sql.names import parts
from belvedere.views.catalog import Names, canonical_name

if TYPE_CHECKING:
    from belvedere.sketches.service import Service


@dataclass(frozen=True)
class RoutedQuery:
    """How a query is answered, and what it reads through a sketch."""

    answer: SketchAnswer
    reading: Reading | None = None


class QueryRouter:
    """Finds the sketch for a query."""

    def __init__(self, sketches: Service) -> None:
        self._sketches = sketches
        self._door = sketches.door

    def find(self, text: str, versions: Mapping[str, int]) -> RoutedQuery:
        """The query through a sketch, or as it is with the reason."""
        try:
            return self._find(text, versions)
        except Exception as error:  # A query never fails because of a sketch.
            return _none(text, _first_line(error))

    def _find(self, text: str, versions: Mapping[str, int]) -> RoutedQuery:
        names = list(self._sketches.names())
        if not names:
            return _none(text, "there is none")
        try:
            q = bind(text, Names(self._door)).plan
        except BelvedereError as error:
            return _none(text, f"the query has no plan: {error.message}")
        refused: list[tuple[str, str]] = []
        with self._door.one_call(), Pins(self._door) as pins:
            for name in names:
                try:
                    routed = self._through(name, text, q, versions, pins)
                except Exception as error:
                    routed = _first_line(error)
                if isinstance(routed, RoutedQuery):
                    hidden = self._temporary() & {parts(t)[-1].lower() for t in tables(q)}
                    if hidden:
                        return _none(text, f"a temporary view hides {min(hidden)!r}")
                    return replace(routed, answer=replace(routed.answer, refused=tuple(refused)))
                refused.append((name, routed))
        return _none(text, "none answers this query", tuple(refused))

    def _temporary(self) -> set[str]:
        """The names of temporary views, which hide tables in this session."""
        rows = self._door.sql("SHOW VIEWS").collect()
        return {r["viewName"].lower() for r in rows if r["isTemporary"]}

    def _through(
        self, name: str, text: str, q: Rel, versions: Mapping[str, int], pins: Pins
    ) -> RoutedQuery | str:
        """The query through one sketch, or the reason against it."""
        definition = self._sketches.definition(name)
        if set(definition.reads) != set(tables(q)):
            return "it reads other tables"
        now = session_settings(self._door)
        if now != dict(definition.settings):
            return "the session's settings are others than the sketch's"
        cuts = cuts_of(definition.partitions, Evidence.relying_on(definition.watched))
        difference = refusal(self._sketches.shape(definition), query_shape(q), cuts)
        if difference:
            return difference
        why = unsafe(q, cuts)
        if why is not None:
            return f"it is not safe for this query: {why.message}"
        version, upkeep = self._version(name, versions, pins)
        if isinstance(version, str):
            return version
        return self._answer(name, definition, text, _why_safe(q, cuts), version, pins, upkeep)

    def _version(
        self, name: str, versions: Mapping[str, int], pins: Pins
    ) -> tuple[Version | str, str]:
        """The sketch at the requested versions, or refreshed to the newest."""
        if versions:
            wanted = {canonical_name(self._door, t): v for t, v in versions.items()}
            live = self._sketches.live(name)
            ids = {t: pins.table(t).id for t in live.vector}
            for each in (live.version, *live.definition.past):
                same = all(p.id == ids[t] for t, p in each.vector.items())
                if same and {t: p.version for t, p in each.vector.items()} == wanted:
                    return each, ""
            return "it is not kept at these versions", ""
        retired = self._sketches.live(name).definition.retired
        if retired:
            return f"it is retired: {retired}", ""
        live, done = self._sketches.refresh_in_call(name, pins)
        self._sketches.keep(name)
        if live.definition.retired:
            return f"it is retired: {live.definition.retired}", ""
        return live.version, "" if done.strategy == "nothing" else str(done)

    def _answer(
        self,
        name: str,
        definition: SketchDefinition,
        text: str,
        why: str,
        version: Version,
        pins: Pins,
        upkeep: str,
    ) -> RoutedQuery | str:
        both = list(zip(definition.partitions, version.bitmaps, strict=True))
        if all(fragment_share(p, b) > MOST_KEPT for p, b in both):
            return "it has more than half of the fragments"
        read = {t: pins.table(t) for t in definition.reads}
        reading = Reading.through(text, version, definition.partitions, read)
        answer = SketchAnswer(
            rewrite_query(self._door, reading),
            name,
            {t: p.version for t, p in version.vector.items()},
            why=why,
            kept=sum(int(b.sum()) for b in version.bitmaps),
            fragments=sum(p.count for p in definition.partitions),
            upkeep=upkeep,
        )
        return RoutedQuery(answer, reading)


def _none(text: str, why: str, refused: tuple[tuple[str, str], ...] = ()) -> RoutedQuery:
    return RoutedQuery(SketchAnswer(text, why=why, refused=refused))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _why_safe(q: Rel, cuts: Cuts) -> str:
    by = ", ".join(f"{t}.{c}" for t, c in cuts.by.items())
    why = form(q, cuts)
    if isinstance(why, Final):
        return f"who is not among the first, nor tied with the last, cannot come to be by losing rows by {by}"
    if isinstance(why, Subset):
        return f"every fragment by {by} holds rows of the answer whole, or none"
    return f"a group that loses rows with the fragments left out by {by} cannot enter the answer"
