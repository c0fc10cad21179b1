"""Whether an update through a view can be done as asked: FAST, EXACT, or AUTO.

FAST estimates from the summary; where there is no estimate, it answers as EXACT. EXACT searches for a
translation. AUTO tries the schema first, uses the estimate as a hint where it is cheaper, and then
answers as EXACT: it says yes only after trying a translation out, and no only with a side effect to
show or a constraint to name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from belvedere.errors import Invalid
from belvedere.joins.equijoin_tree import EquijoinTree, Keys
from belvedere.listing import table as listed
from belvedere.updating.request.cancel_unchanged import RequestedRows, cancel_unchanged
from belvedere.updating.request.fillings import FillingOrder
from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.fast_check import FastCheck, has_hidden_values
from belvedere.updating.side_effects.in_memory import (
    MOST_STEPS,
    BaseChanges,
    TableState,
    TooManyJoins,
    shown_held_columns,
    view_effect,
)
from belvedere.updating.side_effects.on_spark import JoinEngine
from belvedere.updating.summary.domains import denormalize
from belvedere.updating.summary.estimate import THETA, InsertionEstimate
from belvedere.updating.summary.filter import RowLookups, UpdateFilter
from belvedere.updating.translate.base_rows import BrokenConstraint
from belvedere.updating.translate.constraints import BaseRow, RowSource, TableRules
from belvedere.updating.translate.translation_request import TranslationRequest
from belvedere.updating.translate.translator import SearchResult, search_translation
from belvedere.updating.translate.trial import MOST_SHOWN, Translation

MOST_FILLINGS = 10
MOST_NEIGHBOURS = 2_000
"""Up to so many rows beside new segments, the exact check counts as cheaper than the estimate."""


class CheckMode(Enum):
    """How a check answers."""

    FAST = "FAST"
    EXACT = "EXACT"
    AUTO = "AUTO"


@dataclass(frozen=True)
class UpdateCheck:
    """Whether an update can be done as asked, its side effects otherwise, and why."""

    possible: str
    """yes, no or unknown"""
    extra_rows: float
    """The number of side effects: estimated, exact, or a lower bound if `at_least`."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """Some of the side effects."""
    which: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """The base rows that cause them."""
    how: str = ""
    reason: str = ""
    translation: Translation | None = field(default=None, repr=False)
    """Base changes that do it; for a refused update, those that do it with the fewest side effects."""
    gone: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Base rows that the translation deletes."""
    at_least: bool = False
    """Whether there may be more side effects than `extra_rows`."""
    asked: int = field(default=0, repr=False)
    """The number of view rows that change as asked."""

    def __str__(self) -> str:
        suffix = " or more" if self.at_least else ""
        lines = [
            f"possible: {self.possible} (found by {self.how})",
            f"extra rows: {self.extra_rows:g}{suffix}",
        ]
        if self.reason:
            lines.append(f"because: {self.reason}")
        if self.translation is not None:
            if self.possible != "yes":
                lines.append("with side effects allowed:")
            lines += [f"delete from {t}: {row_text(r)}" for t, r in self.gone]
            new = self.translation.new.items()
            lines += [f"insert into {t}: {row_text(r)}" for t, rows in new for r in rows]
        if self.rows:
            lines.append("side effects, some of them:")
            lines.append(listed(list(self.rows[0]), [list(r.values()) for r in self.rows]))
        lines += [f"through a row of {t}: {row_text(r)}" for t, r in self.which]
        return "\n".join(lines)


def row_text(row: Mapping[str, Any]) -> str:
    """A row as text: its columns with their values."""
    return ", ".join(f"{c}={v!r}" for c, v in row.items())


@dataclass
class UpdateChecker:
    """Checks updates of one view."""

    filter: RowLookups
    rules: Mapping[str, TableRules]
    source: RowSource
    theta: float = THETA
    fillings: int = MOST_FILLINGS
    order: FillingOrder = FillingOrder.GREEDY
    engine: JoinEngine | None = None
    """Joins what is too large for memory."""
    steps: int = MOST_STEPS

    def check(
        self,
        delete: Sequence[ViewRow],
        insert: Sequence[ViewRow],
        mode: CheckMode = CheckMode.AUTO,
        replaces: Mapping[int, int] | None = None,
    ) -> UpdateCheck:
        """Whether some rows can be deleted and some inserted, as one update.

        For inserted rows that replace one, `instead` gives the index of the deleted row.
        """
        self._refuse_duplicates(delete, insert, replaces or {})
        estimates = isinstance(self.filter, UpdateFilter) and self.filter.identifies_rows
        if mode is CheckMode.FAST and estimates and len(insert) == 1 and not delete:
            return self._fast(insert[0])
        hint = self._hint(delete, insert) if mode is CheckMode.AUTO else ""
        remaining = self._left(RequestedRows(delete, insert, replaces or {}))
        if not remaining.delete and not remaining.insert:
            return UpdateCheck(
                "yes", 0, how="the request", translation=Translation(BaseChanges(), {})
            )
        return self._exact(remaining, hint)

    def _left(self, requested: RequestedRows) -> RequestedRows:
        """The request without view rows that stay unchanged."""
        if not requested.delete:
            return requested
        coder = Coder(self.filter.base, self.source)
        old = TableState(self.filter.base, BaseChanges(), [self.steps])
        try:
            return cancel_unchanged(coder, old, requested)
        except TooManyJoins:
            return requested

    def _refuse_duplicates(
        self, delete: Sequence[ViewRow], insert: Sequence[ViewRow], instead: Mapping[int, int]
    ) -> None:
        """Refuse rows that the view has already, and rows named twice: a view is a set."""
        state = TableState(self.filter.base, BaseChanges())
        if len(insert) == 1 and not delete:
            # The columns held in memory rule most duplicates out without reading the tables.
            known_signature = Coder(self.filter.base).signature(insert[0])
            if state.embedding_of(known_signature) is None:
                return
        coder = Coder(self.filter.base, self.source)
        deleted = {coder.signature(r) for r in delete}
        first_with: dict[tuple[int, ...], int] = {}
        for i, row in enumerate(insert):
            signature = coder.signature(row)
            other = first_with.setdefault(signature, i)
            if other != i:
                raise (
                    _named_twice_error(row)
                    if {i, other}.isdisjoint(instead)
                    else _rows_become_one_error(row)
                )
            if signature not in deleted and state.embedding_of(signature) is not None:
                raise _becomes_existing_row_error(row) if i in instead else already_there_error(row)

    def _fast(self, row: ViewRow) -> UpdateCheck:
        """The answer of the tables' rules, then of the estimate, for one insertion."""
        assert isinstance(self.filter, UpdateFilter)
        request = TranslationRequest(self.filter.base, self.rules, self.source, (), (row,))
        quick = FastCheck(self.filter, request, self.theta, self.fillings, self.order)
        answer = quick.answer(row)
        if isinstance(answer, BrokenConstraint):
            return check_from_constraint(answer)
        return check_from_estimate(answer, self.theta)

    def _hint(self, delete: Sequence[ViewRow], insert: Sequence[ViewRow]) -> str:
        """The answer of the schema, or else of the estimate, for one insertion."""
        if delete or len(insert) != 1 or not self.filter.identifies_rows:
            return ""
        if has_hidden_values(Coder(self.filter.base)):
            return ""
        segments = self.filter.segments(insert[0].values)
        new = [p for p, s in enumerate(segments) if s.number is None]
        if is_decided_by_schema(self.filter.base.tree, self.filter.keys, new):
            return "schema"
        if not isinstance(self.filter, UpdateFilter):
            return ""
        base = self.filter.base
        neighbours = sum(
            len(base.index(base.tree.edges[e].across(p), e).rows(key))
            for p in new
            for e, key in segments[p].keys.items()
            if key is not None and key >= 0
        )
        if neighbours <= MOST_NEIGHBOURS:
            return "exact check"
        declared = self.filter.estimate(segments).declares(self.theta)
        return "estimate, then a side effect" if declared else "estimate, then the exact check"

    def _exact(self, requested: RequestedRows, hint: str) -> UpdateCheck:
        request = TranslationRequest(
            self.filter.base,
            self.rules,
            self.source,
            requested.delete,
            requested.insert,
            requested.replaces,
            self.steps,
            self.engine,
        )
        how = hint or "exact check"
        try:
            result = search_translation(request)
        except TooManyJoins as error:
            return UpdateCheck("unknown", 0, how=how, reason=error.message)
        if result.translation is not None:
            return self._possible(result.translation, how)
        return self._impossible(request, result, how)

    def extra(self, update: Translation, asked: int) -> int | None:
        """The number of side effects of base changes; None if counting them takes too many steps."""
        changes, base = update.changes, self.filter.base
        if base.truncated & {*changes.gone, *changes.new}:
            return None
        try:
            effect = view_effect(base, changes, steps=self.steps)
        except TooManyJoins:
            return None
        return len(effect.added) + len(effect.removed) - asked

    def _possible(self, translation: Translation, how: str) -> UpdateCheck:
        gone = self._gone(translation)
        return UpdateCheck("yes", 0, how=how, translation=translation, gone=gone)

    def _gone(self, translation: Translation) -> tuple[tuple[str, BaseRow], ...]:
        deletions = translation.changes.gone.items()
        return tuple((t, self._base_row(t, n)) for t, numbers in deletions for n in sorted(numbers))

    def _impossible(
        self, request: TranslationRequest, result: SearchResult, how: str
    ) -> UpdateCheck:
        possible, least = "no" if result.exhausted else "unknown", result.least
        if least is None or not least.extra:
            reason = result.broken or result.left_out or "no base rows make it so"
            return UpdateCheck(possible, 0, how=how, reason=reason)
        coder = request.coder
        inserted = {coder.signature(r) for r in request.insert}
        deleted = {coder.signature(r) for r in request.delete} - inserted
        added = {s: e for s, e in least.effect.added.items() if s not in inserted}
        removed = {s: e for s, e in least.effect.removed.items() if s not in deleted}
        state = TableState(self.filter.base, least.attempt.changes)
        rows = tuple(self._view_row(coder, state, e) for e in (*added.values(), *removed.values()))
        return UpdateCheck(
            possible,
            least.extra,
            rows[:MOST_SHOWN],
            self._causes(added, removed)[:MOST_SHOWN],
            how,
            result.broken or result.left_out,
            least.attempt if least.does else None,
            self._gone(least.attempt) if least.does else (),
            least.at_least,
            least.asked,
        )

    def _causes(
        self, added: Mapping[Any, Any], removed: Mapping[Any, Any]
    ) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Base rows in side effects that are no segments of the request."""
        causes: dict[tuple[str, int], None] = {}
        for embedding in (*added.values(), *removed.values()):
            for p, number in enumerate(embedding):
                if number >= 0:
                    causes[self.filter.shape.positions[p].table, number] = None
        return tuple((t, self._base_row(t, n)) for t, n in causes)

    def _base_row(self, table: str, number: int) -> BaseRow:
        base = self.filter.base
        types = base.shape.used[table]
        values = base.values(table, base.tables[table].row(number))
        return {c: denormalize(v, types[c]) for c, v in values.items()}

    def _view_row(
        self, coder: Coder, state: TableState, embedding: Sequence[int]
    ) -> dict[str, Any]:
        shape = self.filter.shape
        names = {place: n for n, place in reversed(shape.column_outputs)}
        shown = {}
        for p, c in shown_held_columns(self.filter.base):
            table = shape.positions[p].table
            value = coder.value(table, c, state.code(p, embedding[p], c))
            shown[names[p, c]] = denormalize(value, shape.used[table][c])
        return shown


def check_from_estimate(estimate: InsertionEstimate, theta: float = THETA) -> UpdateCheck:
    """The answer of an estimate."""
    declared = estimate.declares(theta)
    return UpdateCheck("no" if declared else "yes", max(estimate.rows - 1, 0.0), how="estimate")


def check_from_constraint(broken: BrokenConstraint) -> UpdateCheck:
    """The answer of a broken constraint."""
    possible = "no" if broken.certain else "unknown"
    return UpdateCheck(possible, 0, how="rules of the tables", reason=broken.message)


def already_there_error(row: ViewRow) -> Invalid:
    """The error for inserting a row that the view has."""
    return Invalid(
        f"the view has the row {row.text()} already",
        hint="a view is a set of rows: there is nothing to insert",
        reason="ALREADY_THERE",
    )


def _named_twice_error(row: ViewRow) -> Invalid:
    """The error for a request that inserts one row twice."""
    return Invalid(
        f"the row {row.text()} is to be inserted twice",
        detail="a view is a set of rows: it has a row once or not at all",
        hint="name each row once",
        reason="NAMED_TWICE",
    )


def _rows_become_one_error(row: ViewRow) -> Invalid:
    """The error for an update that gives two view rows the same values."""
    return Invalid(
        f"two rows would become one: {row.text()}",
        detail="a view is a set of rows: it has a row once or not at all",
        hint="change one of the rows and delete the others",
        reason="ROWS_BECOME_ONE",
    )


def _becomes_existing_row_error(row: ViewRow) -> Invalid:
    """The error for an update that gives a view row the values of another that stays."""
    return Invalid(
        f"two rows would become one: the view has the row {row.text()} already",
        detail="a view is a set of rows: it has a row once or not at all",
        hint="delete the row that would become equal to another",
        reason="ROWS_BECOME_ONE",
    )


def is_decided_by_schema(tree: EquijoinTree, keys: Keys, new: Sequence[int]) -> bool:
    """Whether new rows refer to existing rows by key only: then they make exactly one view row.

    From every position with a new row, every join leads to a key, so that the partner is unique. A table
    that the view lists twice is excluded: its new row would stand at two positions.
    """
    shape = tree.block
    for p in new:
        if len(shape.at(shape.positions[p].table)) > 1:
            return False
        todo, seen = [p], {p}
        while todo:
            position = todo.pop()
            for e in tree.around[position]:
                q = tree.edges[e].across(position)
                if q in seen:
                    continue
                key = keys.get(shape.positions[q].table)
                if key is None or not set(key) <= set(tree.columns(q, e)):
                    return False
                seen.add(q)
                todo.append(q)
    return True
