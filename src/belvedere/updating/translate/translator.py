"""The translator: find base changes whose effect on the view is exactly the request.

A deletion only deletes base rows and an insertion only inserts them, so that no base row is lost that
the view does not show. A replacement does both. Within that, the search finds a translation that
touches the fewest base rows, or finds that there is none; if it leaves something out, it says what.

CP-SAT makes the choices: which rows of a view row's embeddings are deleted; for each segment, an
existing row or a new one; for each hidden value, a value; for two segments of a table, whether one new
row is both. Each choice is tried out exactly. A side effect or a broken constraint becomes a clause
that forbids it.

No other base rows need to be considered. Of rows whose insertion has exactly the requested effect,
those in one embedding of each view row have it too, since fewer rows show fewer view rows; and a column
that no position uses may be NULL, which joins with nothing. The cases that this argument does not
cover are reported as left out: a column that cannot be NULL or that another position shows, and a
parent that is in no view row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Any

from belvedere.updating.request.view_rows import HiddenValue
from belvedere.updating.side_effects.in_memory import BaseChanges, Embedding, TableState, ViewEffect
from belvedere.updating.translate.base_rows import (
    BrokenConstraint,
    check_constraints,
    complete_rows,
)
from belvedere.updating.translate.choice_model import ChoiceModel
from belvedere.updating.translate.new_rows import (
    Literal,
    NewBaseRow,
    SolverChoice,
    keep_unspecified_columns,
    merge_rows,
)
from belvedere.updating.translate.options import Slot
from belvedere.updating.translate.translation_request import TranslationRequest
from belvedere.updating.translate.trial import JudgedAttempt, Translation, Trial

ROUNDS = 300


@dataclass(frozen=True)
class SearchResult:
    """The result of a search: a translation, or why there is none."""

    translation: Translation | None
    exhausted: bool
    """Whether every choice was tried or excluded."""
    least: JudgedAttempt | None = None
    """Of the choices with side effects, the one with the fewest."""
    broken: str = ""
    """The constraint that the last choice broke."""
    left_out: str = ""
    """What was not tried, if anything."""


def search_translation(request: TranslationRequest) -> SearchResult:
    """A translation that touches the fewest base rows, if there is one."""
    return _TranslationSearch(request).run()


class _TranslationSearch:
    def __init__(self, request: TranslationRequest) -> None:
        from ortools.sat.python import cp_model

        self.request, self.base, self.coder = request, request.base, request.coder
        self.solver = cp_model.CpSolver()
        self.solver.parameters.num_workers = 1
        self.solver.parameters.random_seed = 1
        deleted = [self.coder.signature(r) for r in request.delete]
        self.inserted = [self.coder.signature(r) for r in request.insert]
        self.trial = Trial(self.base, request.engine, request.steps, deleted, self.inserted)
        self.choices = ChoiceModel(request, self.trial)
        self.least: JudgedAttempt | None = None
        self.broken = ""

    def run(self) -> SearchResult:
        from ortools.sat.python import cp_model

        for _ in range(ROUNDS):
            status = self.solver.solve(self.choices.model)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                if status != cp_model.INFEASIBLE:
                    self.choices.left_out["not all ways were tried"] = None
                return self._none()
            chosen = frozenset(k for k, v in self.choices.literals.items() if self.solver.value(v))
            translation = self._tried(chosen)
            if translation is not None:
                return SearchResult(translation, True)
        self.choices.left_out["not all ways were tried"] = None
        return self._none()

    def _none(self) -> SearchResult:
        """The result without a translation."""
        left_out = next(iter(self.choices.left_out), "")
        return SearchResult(None, not self.choices.left_out, self.least, self.broken, left_out)

    def _tried(self, chosen: frozenset[Literal]) -> Translation | None:
        """Try a choice: return its translation, or add a clause that excludes it."""
        try:
            attempt, choice = self._attempt(chosen)
        except BrokenConstraint as broken:
            self.broken = str(broken)
            if not broken.certain:
                self.choices.left_out[self.broken] = None
            for unless in broken.unless:
                self._forbid(chosen, broken.because, unless)
            return None
        self.broken = ""
        effect = self.trial.effect(attempt)
        if self.trial.does_exactly(effect):
            return attempt
        judged = self.trial.judged(attempt, effect, self.least)
        self.least = min(filter(None, (self.least, judged)), key=lambda t: t.harm)
        self._learn(choice, attempt.changes, effect)
        return None

    def _attempt(self, chosen: frozenset[Literal]) -> tuple[Translation, SolverChoice]:
        """The base changes of a choice, and the origin of each new row."""
        gone_by_table: dict[str, set[int]] = {}
        for kind, *rest in chosen:
            if kind == "gone":
                gone_by_table.setdefault(rest[0], set()).add(rest[1])
        gone = {t: frozenset(n) for t, n in gone_by_table.items()}
        new_rows = merge_rows(self._joined(chosen), self.request.rules)
        choice = SolverChoice(chosen, gone, new_rows, self.choices.inserts, self.coder)
        keep_unspecified_columns(self.request, choice, self.choices.same)
        full = complete_rows(self.request, choice)
        new = {t: tuple(self.coder.encode(t, row) for row in rows) for t, rows in full.items()}
        changes = BaseChanges(gone, new)
        for new_row in (
            new_row for rows_of_table in new_rows.values() for new_row in rows_of_table
        ):
            self._note_made_up(new_row)
        check_constraints(self.request, changes, choice, full)
        return Translation(changes, full), choice

    def _note_made_up(self, new_row: NewBaseRow) -> None:
        """Record that a used, unspecified column got one of several possible values."""
        constrained = self.request.rules[new_row.table].constrained
        for c in self.coder.shape.used[new_row.table].keys() - new_row.given_columns:
            if c in new_row.kept_columns or c in constrained:
                self._leave_out(new_row.table, c)

    def _note_unseen(self, new_row: NewBaseRow, p: int) -> None:
        """Record an unspecified column that another position shows or selects by.

        The row is not made for that position. With another value in the column it would show another view row
        there, or none. For a column that is only joined on, a fresh value or NULL is best.
        """
        shape = self.coder.shape
        selected = {c for part in shape.positions[p].selection.conjuncts for c in part.columns}
        for c, _ in shape.positions[p].columns if p not in new_row.causes_by_position else ():
            shown = any((q, c) in shape.output_of for q in new_row.causes_by_position)
            if not shown and ((p, c) not in shape.class_of or c in selected):
                self._leave_out(new_row.table, c)

    def _leave_out(self, table: str, column: str) -> None:
        self.choices.left_out[f"not every value of column {column!r} of {table!r} was tried"] = None

    def _joined(self, chosen: frozenset[Literal]) -> Iterator[NewBaseRow]:
        """The new rows; segments chosen to be one row are merged."""
        into = {c[3:]: c for c in chosen if c[0] == "same"}
        rows = dict(self._rows_to_make(chosen))
        for slot, literal in into.items():
            rows[literal[1:3]].merge(rows.pop(slot))
            rows[literal[1:3]].causes.append(literal)
        yield from rows.values()

    def _rows_to_make(self, chosen: frozenset[Literal]) -> Iterator[tuple[Slot, NewBaseRow]]:
        """A new row for each segment chosen to be made."""
        values_by_row: dict[int, dict[HiddenValue, Any]] = {}
        for kind, i, *rest in chosen:
            if kind == "value":
                values_by_row.setdefault(i, {})[rest[0]] = rest[1]
        for i, options in enumerate(self.choices.inserts):
            values = values_by_row.get(i, {})
            for p, o in enumerate(options):
                if ("make", i, p) not in chosen:
                    continue
                why: list[Literal] = [
                    ("make", i, p),
                    *(("value", i, h, values[h]) for h in o.hidden),
                ]
                table = self.base.shape.positions[p].table
                shown_values = self.coder.new_base_row(p, o, values)
                yield (
                    (i, p),
                    NewBaseRow(table, shown_values, [*why], {p: why}, self._replaced(i, p)),
                )

    def _replaced(self, i: int, p: int) -> list[int]:
        """The rows at a position of the replaced view row."""
        old = self.request.replaces.get(i)
        return (
            [] if old is None else list(dict.fromkeys(e[p] for e in self.choices.embeddings[old]))
        )

    def _learn(self, choice: SolverChoice, changes: BaseChanges, effect: ViewEffect) -> None:
        """Add clauses that exclude what a choice did wrong."""
        learned, chosen = False, choice.chosen
        inserted, after = set(self.inserted), TableState(self.base, changes, [self.request.steps])
        for signature, embedding in effect.added.items():
            if signature not in inserted:
                self._never_together(embedding, choice)
                learned = True
        values = [c for c in chosen if c[0] in ("value", "make", "use", "same")]
        for signature in effect.removed.keys() - self.trial.unwanted():
            hit = [
                ("gone", self.base.shape.positions[p].table, n)
                for e in self.trial.old.embeddings_of(signature)
                for p, n in enumerate(e)
                if n in changes.gone.get(self.base.shape.positions[p].table, ())
            ]
            self._forbid(chosen, [*dict.fromkeys(hit), *values], self.choices.same)
            learned = True
        for signature in self.trial.unwanted():
            remaining = after.embedding_of(signature)
            if remaining is not None:
                self._never_together(remaining, choice)
                learned = True
        if not learned:
            self._forbid(chosen, list(chosen), self.choices.same)

    def _never_together(self, embedding: Embedding, choice: SolverChoice) -> None:
        """Exclude an embedding: one of its new rows is not made, or one of its rows is deleted."""
        because: list[Literal] = []
        unless: list[Literal] = []
        for p, number in enumerate(embedding):
            table = self.base.shape.positions[p].table
            if number < 0:
                new_row = choice.new_rows[table][-1 - number]
                self._note_unseen(new_row, p)
                because += new_row.causes
                unless += new_row.unless
            else:
                unless.append(("gone", table, number))
        self._forbid(choice.chosen, because, unless)

    def _forbid(
        self, chosen: Set[Literal], because: Iterable[Literal], unless: Iterable[Literal] = ()
    ) -> None:
        """Add a clause: one of the causes does not hold, or one of the alternatives does."""
        unless = list(unless)
        if not self.request.insert:
            for _, table, _ in (
                c for c in unless if c[0] == "gone" and c not in self.choices.literals
            ):
                # Deleting a row outside the request could resolve it.
                self.choices.left_out[
                    f"rows of {table!r} that no such view row shows were left alone"
                ] = None
        heal = [c for c in unless if c in self.choices.literals and c not in chosen]
        clause = [self.choices.literal(c).Not() for c in dict.fromkeys(because) if c in chosen]
        self.choices.model.add_bool_or([*clause, *(self.choices.literal(c) for c in heal)])
