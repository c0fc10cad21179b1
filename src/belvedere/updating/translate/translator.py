"""The translator: base changes whose effect on the view is exactly what was asked for.

A deletion takes base rows away and an insertion puts some in; neither does the other, so that no
base row that the view does not show is lost for the sake of one that it shows. A replacement does
both. Within that, the search finds a translation that touches the fewest base rows, or that there
is none; where it leaves something out, it says what.

CP-SAT chooses (which rows of a view row's embeddings go; of each segment, an existing row or a new
one; of what the view does not show, a value; of two segments of a table, whether one new row is
both), and every choice is tried out exactly. What it did beyond the request, or against a
constraint, comes back as a clause that forbids it.

No other rows have to be looked at. Of rows whose coming makes exactly what is asked, those that
stand in one embedding of each view row make it too, as fewer rows show less; a column of them that
no position uses there may be NULL, which joins with nothing. What this does not cover is said to
be left out: a column that cannot be NULL, or that another position shows; a parent that is in no
view row.
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
    """What a search came to: a translation, or why there is none."""

    translation: Translation | None
    exhausted: bool
    """Whether every choice was tried or excluded."""
    least: JudgedAttempt | None = None
    """Of the choices that did more than was asked, the one that did least besides."""
    broken: str = ""
    """The constraint that the last choice broke."""
    left_out: str = ""
    """What was not tried, if something was not."""


def search_translation(request: TranslationRequest) -> SearchResult:
    """A translation of a request that touches the fewest base rows, if there is one."""
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
        """That no translation was found, and whether there is none."""
        left_out = next(iter(self.choices.left_out), "")
        return SearchResult(None, not self.choices.left_out, self.least, self.broken, left_out)

    def _tried(self, chosen: frozenset[Literal]) -> Translation | None:
        """A choice tried out: a translation, or one clause more."""
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
        """The base changes of a choice, and what each new row comes from."""
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
        """Note a used column that nobody tells, and that has one of several values all the same."""
        constrained = self.request.rules[new_row.table].constrained
        for c in self.coder.shape.used[new_row.table].keys() - new_row.given_columns:
            if c in new_row.kept_columns or c in constrained:
                self._leave_out(new_row.table, c)

    def _note_unseen(self, new_row: NewBaseRow, p: int) -> None:
        """Note a column of a row that a position shows, or selects by, where no view row tells it.

        The row is not meant for that position. With another value in such a column it would show
        another view row there, or none; in one that is joined alone, a new value or NULL is best.
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
        """The rows to make, those once that are chosen to be one."""
        into = {c[3:]: c for c in chosen if c[0] == "same"}
        rows = dict(self._rows_to_make(chosen))
        for slot, literal in into.items():
            rows[literal[1:3]].merge(rows.pop(slot))
            rows[literal[1:3]].causes.append(literal)
        yield from rows.values()

    def _rows_to_make(self, chosen: frozenset[Literal]) -> Iterator[tuple[Slot, NewBaseRow]]:
        """A row for each segment that is to be made."""
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
        """The rows at a position of the view row that a row to insert replaces."""
        old = self.request.replaces.get(i)
        return (
            [] if old is None else list(dict.fromkeys(e[p] for e in self.choices.embeddings[old]))
        )

    def _learn(self, choice: SolverChoice, changes: BaseChanges, effect: ViewEffect) -> None:
        """Clauses that exclude what a choice did wrong."""
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
        """The rows of an embedding do not all stay or come: one is not made, or one goes."""
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
        """One of some choices is not made, or one of some others is."""
        unless = list(unless)
        if not self.request.insert:
            for _, table, _ in (
                c for c in unless if c[0] == "gone" and c not in self.choices.literals
            ):
                # A row that no view row shows could go as well.
                self.choices.left_out[
                    f"rows of {table!r} that no such view row shows were left alone"
                ] = None
        heal = [c for c in unless if c in self.choices.literals and c not in chosen]
        clause = [self.choices.literal(c).Not() for c in dict.fromkeys(because) if c in chosen]
        self.choices.model.add_bool_or([*clause, *(self.choices.literal(c) for c in heal)])
