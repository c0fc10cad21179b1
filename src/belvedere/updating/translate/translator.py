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

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

from belvedere.errors import Invalid
from belvedere.updating.request.view_rows import Coder, HiddenValue, SegmentOptions, ViewRow
from belvedere.updating.side_effects.in_memory import BaseChanges, Embedding, TableState, ViewEffect
from belvedere.updating.side_effects.on_spark import JoinEngine
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.translate.base_rows import (
    BrokenConstraint,
    check_constraints,
    complete_rows,
)
from belvedere.updating.translate.constraints import RowSource, TableRules
from belvedere.updating.translate.new_rows import (
    Literal,
    NewBaseRow,
    SolverChoice,
    keep_unspecified_columns,
    merge_rows,
)
from belvedere.updating.translate.options import Slot, meeting_slots, segment_options
from belvedere.updating.translate.trial import JudgedAttempt, Translation, Trial

ROUNDS = 300
MOST_EMBEDDINGS = 5_000
MOST_WEIGHED = 100
"""Rows that may go, or show a view row, up to which it matters what they leave behind."""
MOST_PAIRS = 500
"""Pairs of segments that may be one new row."""


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


@dataclass
class TranslationRequest:
    """View rows to delete and to insert, and who knows about the tables."""

    base: BaseTables
    rules: Mapping[str, TableRules]
    source: RowSource
    delete: Sequence[ViewRow] = ()
    insert: Sequence[ViewRow] = ()
    replaces: Mapping[int, int] = field(default_factory=dict)
    """For rows to insert that replace one: which of those to delete."""
    steps: int = 2_000_000
    engine: JoinEngine | None = None
    """Who joins what is too much for memory."""
    coder: Coder = field(init=False)

    def __post_init__(self) -> None:
        self.coder = Coder(self.base, self.source)


def search_translation(request: TranslationRequest) -> SearchResult:
    """A translation of a request that touches the fewest base rows, if there is one."""
    return _TranslationSearch(request).run()


def count_left_without_partner(
    base: BaseTables, key: Sequence[str] | None, p: int, number: int
) -> int:
    """How many rows a row leaves behind with no partner; those count twice that refer to its key."""
    count = 0
    for e in base.tree.around[p]:
        join_key = int(base.keys(p, e)[number])
        if len(base.matching(p, e, join_key)) == 1:
            refer = key is not None and set(key) <= set(base.tree.columns(p, e))
            count += (1 + refer) * len(base.matching(base.tree.edges[e].across(p), e, join_key))
    return count


class _TranslationSearch:
    def __init__(self, request: TranslationRequest) -> None:
        from ortools.sat.python import cp_model

        self.request, self.base, self.coder = request, request.base, request.coder
        self.model = cp_model.CpModel()
        self.solver = cp_model.CpSolver()
        self.solver.parameters.num_workers = 1
        self.solver.parameters.random_seed = 1
        self.literals: dict[Literal, Any] = {}
        self.cost: list[Any] = []
        self.ties: list[tuple[int, Any]] = []
        self.left_out: dict[str, None] = {}
        self.embeddings: list[list[Embedding]] = []
        self.inserts: list[list[SegmentOptions]] = []
        self.same: list[Literal] = []
        self.deleted = [self.coder.signature(r) for r in request.delete]
        self.inserted = [self.coder.signature(r) for r in request.insert]
        self.trial = Trial(self.base, request.engine, request.steps, self.deleted, self.inserted)
        self.least: JudgedAttempt | None = None
        self.broken = ""
        self._deletions()
        self._insertions()
        # What is preferred decides only among as few base rows.
        most = 1 + sum(weight for weight, _ in self.ties)
        self.model.minimize(most * sum(self.cost) + sum(w * literal for w, literal in self.ties))

    def _literal(self, literal: Literal) -> Any:
        if literal not in self.literals:
            self.literals[literal] = self.model.new_bool_var(str(literal))
        return self.literals[literal]

    def _deletions(self) -> None:
        for row, signature in zip(self.request.delete, self.deleted, strict=True):
            embeddings = list(islice(self.trial.old.embeddings_of(signature), MOST_EMBEDDINGS + 1))
            if not embeddings:
                raise Invalid(f"the view has no row {row.text()}", reason="NO_SUCH_ROW")
            if len(embeddings) > MOST_EMBEDDINGS:
                self.left_out["not all base rows that show a view row were tried"] = None
            self.embeddings.append(embeddings)
            for embedding in embeddings:
                self.model.add_bool_or([self._gone(p, n) for p, n in enumerate(embedding)])

    def _gone(self, p: int, number: int) -> Any:
        table = self.base.shape.positions[p].table
        literal = ("gone", table, number)
        if literal not in self.literals:
            count = int(self.base.tables[table].counts[number])
            self.cost.append(count * self._literal(literal))
            if len(self.literals) <= MOST_WEIGHED:
                weight = count_left_without_partner(
                    self.base, self.request.rules[table].key, p, number
                )
                self.ties.append((weight, self._literal(literal)))
        return self._literal(literal)

    def _insertions(self) -> None:
        rows = self.request.insert
        hidden = dict.fromkeys(h for p in self._places for h in self.coder.hidden_values(p))
        replaced_values = {(i, h): self._kept(i, h) for i in range(len(rows)) for h in hidden}
        self.inserts, left_out = segment_options(
            self.coder, rows, self.request.rules, self.request.source, replaced_values
        )
        self.left_out.update(dict.fromkeys(left_out))
        for i, options in enumerate(self.inserts):
            for h, values in {h: v for o in options for h, v in o.values.items()}.items():
                self.model.add_exactly_one([self._literal(("value", i, h, v)) for v in values])
                if replaced_values[i, h]:
                    new_values = [v for v in values if v not in replaced_values[i, h]]
                    self.ties += [(1, self._literal(("value", i, h, v))) for v in new_values]
            for p, o in enumerate(options):
                self._segment(i, p, o)
        self._pairs()

    @property
    def _places(self) -> range:
        return range(len(self.base.shape.positions))

    def _pairs(self) -> None:
        """Of two segments of which neither tells all that the other does: whether one row is both."""
        shape = self.coder.shape
        pairs: list[tuple[Slot, Slot]] = []
        for ones, others in meeting_slots(self.coder, self.inserts):
            mine, theirs = (
                {c for c, _ in shape.positions[some[0][1]].columns}
                for some in (ones, others or ones)
            )
            key = self.request.rules[shape.positions[ones[0][1]].table].key
            if mine <= theirs or theirs <= mine or (key is not None and {*key} <= mine & theirs):
                continue
            pairs += islice(product(ones, others), MOST_PAIRS + 1)
        if len(pairs) > MOST_PAIRS:
            self.left_out["not all segments that may be one row were tried as one"] = None
        for one, other in pairs[:MOST_PAIRS]:
            self._pair(*sorted((one, other)))
        self._stars()

    def _pair(self, one: Slot, other: Slot) -> None:
        """Two segments that may be one row: both new, with the same values where both have some."""
        literal = ("same", *one, *other)
        self.same.append(literal)
        same = self._literal(literal)
        self.cost.append(-same)
        for slot in (one, other):
            self.model.add_implication(same, self._literal(("make", *slot)))
        for c in self._hidden_columns(one).keys() | self._hidden_columns(other).keys():
            self._equal(same, c, one, other)

    def _hidden_columns(self, slot: Slot) -> dict[str, HiddenValue]:
        i, p = slot
        hidden = self.inserts[i][p].hidden
        return {c: h for h in hidden for c in self.coder.columns(p, h)}

    def _equal(self, same: Any, column: str, one: Slot, other: Slot) -> None:
        """Segments that are one row have one value in a column that both have and one hides."""
        values = []
        for i, p in (one, other):
            o, hidden = self.inserts[i][p], self._hidden_columns((i, p)).get(column)
            if hidden is not None:
                some = {v: self._literal(("value", i, hidden, v)) for v in o.values[hidden]}
            elif column in o.shown:
                some = {o.shown[column]: None}
            else:
                return
            values.append(some)
        for mine, theirs in (values, reversed(values)):
            for value, chosen in mine.items():
                clause = [same.Not(), *([] if chosen is None else [chosen.Not()])]
                if value not in theirs:
                    self.model.add_bool_or(clause)
                elif theirs[value] is not None:
                    self.model.add_bool_or([*clause, theirs[value]])

    def _stars(self) -> None:
        """A segment is one row with a single earlier one, which is one with none before it."""
        into: dict[Slot, list[Any]] = {}
        for literal in self.same:
            into.setdefault(literal[3:], []).append(self._literal(literal))
        for some in into.values():
            self.model.add_at_most_one(some)
        for literal in self.same:
            for earlier in into.get(literal[1:3], ()):
                self.model.add_bool_or([self._literal(literal).Not(), earlier.Not()])

    def _kept(self, i: int, h: HiddenValue) -> list[Any]:
        """A hidden value in the view row that a row to insert replaces."""
        old = self.request.replaces.get(i)
        some = [] if old is None else self.embeddings[old][:MOST_WEIGHED]
        places = [
            p for p in range(len(self.base.shape.positions)) if h in self.coder.hidden_values(p)
        ]
        return list(
            dict.fromkeys(
                v for e in some for p in places for v in self.coder.hidden_values_of_row(p, e[p], h)
            )
        )

    def _segment(self, i: int, p: int, o: SegmentOptions) -> None:
        """A segment is an existing row, which fixes what is hidden, or a new one."""
        make = self._literal(("make", i, p))
        self.cost.append(make)
        uses = []
        for number in o.existing:
            use = self._literal(("use", i, p, number))
            uses.append(use)
            table = self.base.shape.positions[p].table
            if ("gone", table, number) in self.literals:
                self.model.add_bool_or([use.Not(), self._gone(p, number).Not()])
            for h in o.hidden:
                value = self.coder.hidden_value_of_row(p, number, h)
                if value is not None:
                    self.model.add_implication(use, self._literal(("value", i, h, value)))
        self.model.add_exactly_one([make, *uses])

    def run(self) -> SearchResult:
        from ortools.sat.python import cp_model

        for _ in range(ROUNDS):
            status = self.solver.solve(self.model)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                if status != cp_model.INFEASIBLE:
                    self.left_out["not all ways were tried"] = None
                return self._none()
            chosen = frozenset(k for k, v in self.literals.items() if self.solver.value(v))
            translation = self._tried(chosen)
            if translation is not None:
                return SearchResult(translation, True)
        self.left_out["not all ways were tried"] = None
        return self._none()

    def _none(self) -> SearchResult:
        """That no translation was found, and whether there is none."""
        left_out = next(iter(self.left_out), "")
        return SearchResult(None, not self.left_out, self.least, self.broken, left_out)

    def _tried(self, chosen: frozenset[Literal]) -> Translation | None:
        """A choice tried out: a translation, or one clause more."""
        try:
            attempt, choice = self._attempt(chosen)
        except BrokenConstraint as broken:
            self.broken = str(broken)
            if not broken.certain:
                self.left_out[self.broken] = None
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
        choice = SolverChoice(chosen, gone, new_rows, self.inserts, self.coder)
        keep_unspecified_columns(self.request, choice, self.same)
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
        self.left_out[f"not every value of column {column!r} of {table!r} was tried"] = None

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
        for i, options in enumerate(self.inserts):
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
        return [] if old is None else list(dict.fromkeys(e[p] for e in self.embeddings[old]))

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
            self._forbid(chosen, [*dict.fromkeys(hit), *values], self.same)
            learned = True
        for signature in self.trial.unwanted():
            remaining = after.embedding_of(signature)
            if remaining is not None:
                self._never_together(remaining, choice)
                learned = True
        if not learned:
            self._forbid(chosen, list(chosen), self.same)

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
            for _, table, _ in (c for c in unless if c[0] == "gone" and c not in self.literals):
                # A row that no view row shows could go as well.
                self.left_out[f"rows of {table!r} that no such view row shows were left alone"] = (
                    None
                )
        heal = [c for c in unless if c in self.literals and c not in chosen]
        clause = [self._literal(c).Not() for c in dict.fromkeys(because) if c in chosen]
        self.model.add_bool_or([*clause, *(self._literal(c) for c in heal)])
