"""A position at work: for each row of its table whether it takes part, and the codes of its terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.algebra.scalars import Scalar
from belvedere.kernels.hashes.interning import Interner, grown
from belvedere.kernels.rows import at as rows_at
from belvedere.kernels.rows import chosen, mark, put
from belvedere.synopses.estimate.values import true, value
from belvedere.synopses.graph.references import ReferenceIndex
from belvedere.synopses.plan.synopsis_plan import JoinTerm, SynopsisPlan
from belvedere.synopses.plan.value_codes import BandCode, EqualityCode, codes, one_array, validity


class EncodedBatch:
    """A batch at a position: which rows take part, and the codes of the terms of those."""

    def __init__(
        self, take: Any, words: dict[JoinTerm, list[Any]], *, everyone: bool = False
    ) -> None:
        self.take = take
        self.words = words
        self.everyone = everyone

    def of(self, ids: Any) -> Any:
        """Of the numbers of a batch's rows those of the rows that take part."""
        return ids if self.everyone else chosen(ids, self.take)

    def matrix(self, terms: tuple[JoinTerm, ...]) -> Any:
        """The codes of some terms side by side."""
        columns = [w for t in terms for w in self.words[t]]
        if len(columns) == 1:
            return columns[0].reshape(-1, 1)
        return np.stack(columns, axis=1)


class EncodedPosition:
    """One position: its terms' codes by row, kept for when a row enters its node later."""

    def __init__(self, plan: SynopsisPlan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.position = plan.block.positions[number]
        self.filter = plan.block.positions[number].filter
        self.types = {f.name: f.type for f in self.position.fields}
        self.sources = {f.name: (f.source, f.type) for f in self.position.fields}
        self.part = np.zeros(64, dtype=bool)
        """Which rows take part: the filter holds and no term is NULL."""
        self.terms = self._terms()
        self.kept: dict[str, Any] = {}
        """Per edge the number of the key, if this position has all of it; else per term its words."""

    def _terms(self) -> list[JoinTerm]:
        found: dict[JoinTerm, None] = {}
        for reference in self.plan.references:
            for term in (*reference.own, *reference.key):
                found[term] = None
        for compared in self.plan.edge_terms:
            for pair in (*compared.equal, *([compared.band] if compared.band else [])):
                found |= dict.fromkeys(pair)
        return [t for t in found if t.position == self.number]

    def code(self, rows: pa.Table) -> EncodedBatch:
        """Which rows of a batch take part, and their codes; nothing is kept yet."""
        take: Any = None
        if self.filter is not None:
            take = true(self.filter, self._named(rows), self.types)
        words = {}
        for term in self.terms:
            array, kind = self._column(rows, term.scalar)
            if array.null_count:
                valid = validity(array)
                take = valid if take is None else take & valid
            words[term] = _words(array, kind, term.code)
        if take is None:
            return EncodedBatch(np.ones(rows.num_rows, dtype=bool), words, everyone=True)
        return EncodedBatch(take, {t: [chosen(w, take) for w in ws] for t, ws in words.items()})

    def _named(self, rows: pa.Table) -> pa.Table:
        names = {f.name: rows[f.source] for f in self.position.fields}
        return pa.table(names)

    def _column(self, rows: pa.Table, scalar: Scalar) -> tuple[pa.Array, str]:
        """A scalar's values over a batch, and their type."""
        if scalar.column is not None:
            source, kind = self.sources[scalar.column]
            return one_array(rows[source]), kind
        found = value(scalar, self._named(rows), self.types)
        return one_array(found.data), found.kind

    def keep(self, rows: Any, bound: int) -> None:
        """Rows take part from now on."""
        self.part = grown(self.part, bound)
        mark(self.part, rows, True)

    def name(self, term: JoinTerm, word: int = 0) -> str:
        """Under which name a word of a term's codes is kept."""
        return f"term {self.terms.index(term)}.{word}"

    def kept_for(self, name: str, rows: Any, values: Any, bound: int) -> None:
        """Values of rows under a name."""
        held = self.kept.get(name)
        if held is None:
            held = np.zeros(64, dtype=values.dtype)
        held = grown(held, bound)
        put(held, rows, values)
        self.kept[name] = held


def _words(array: pa.Array, kind: str, code: EqualityCode | BandCode) -> list[Any]:
    return [code.numbers(array, kind)] if isinstance(code, BandCode) else codes(array, kind, code)


class EdgeKeys:
    """The keys of an edge's equalities, numbered for both its nodes."""

    def __init__(self, plan: SynopsisPlan, edge: int) -> None:
        self.edge_terms = plan.edge_terms[edge]
        self.edge = edge
        words = sum(
            t.code.words for t, _ in self.edge_terms.equal if isinstance(t.code, EqualityCode)
        )
        self.names = Interner(words) if words else None
        self._homes: dict[int, int | None] = {}
        self._terms: dict[int, tuple[JoinTerm, ...]] = {}
        self.ends = (plan.tree.edges[edge].left, plan.tree.edges[edge].right)

    def terms(self, node: int) -> tuple[JoinTerm, ...]:
        """The equalities' terms of one node."""
        if node not in self._terms:
            at = self.ends.index(node)
            self._terms[node] = tuple(pair[at] for pair in self.edge_terms.equal)
        return self._terms[node]

    def value(self, node: int) -> JoinTerm | None:
        """The term of one node that the band compares."""
        within = self.edge_terms.band
        return within[self.ends.index(node)] if within else None

    def home(self, node: int) -> int | None:
        """The position of a node that has all of the edge's terms of it, if one has."""
        if node not in self._homes:
            homes = {t.position for t in self.terms(node)}
            self._homes[node] = homes.pop() if len(homes) == 1 else None
        return self._homes[node]


def number_at_home(
    place: EncodedPosition, keys: EdgeKeys, node: int, rows: Any, coded: EncodedBatch, bound: int
) -> None:
    """Keep what an edge needs of new rows of a position."""
    terms = keys.terms(node)
    if keys.names is not None and keys.home(node) == place.number:
        place.kept_for(f"edge {keys.edge}", rows, keys.names.ids(coded.matrix(terms)), bound)
    else:
        for term in terms:
            if term.position == place.number:
                for n, words in enumerate(coded.words[term]):
                    place.kept_for(place.name(term, n), rows, words, bound)
    within = keys.value(node)
    if within is not None and within.position == place.number:
        place.kept_for(place.name(within), rows, coded.words[within][0], bound)


def part_of(
    places: list[EncodedPosition], keys: EdgeKeys, node: int, at: dict[int, Any]
) -> tuple[Any, Any]:
    """For rows of a node, given by their rows at each position: the edge's key numbers and values."""
    terms = keys.terms(node)
    home = keys.home(node)
    count = len(next(iter(at.values())))
    if keys.names is None:
        found = np.zeros(count, dtype=np.int32)
    elif home is not None:
        found = rows_at(places[home].kept[f"edge {keys.edge}"], at[home])
    else:
        columns = [
            places[t.position].kept[places[t.position].name(t, n)][at[t.position]]
            for t in terms
            for n in range(t.code.words if isinstance(t.code, EqualityCode) else 1)
        ]
        found = keys.names.ids(np.stack(columns, axis=1))
    within = keys.value(node)
    if within is None:
        return found, None
    place = places[within.position]
    return found, rows_at(place.kept[place.name(within)], at[within.position])


def referring(plan: SynopsisPlan) -> list[ReferenceIndex]:
    """The references of a plan at work."""
    return [
        ReferenceIndex(sum(t.code.words for t in r.own if isinstance(t.code, EqualityCode)))
        for r in plan.references
    ]
