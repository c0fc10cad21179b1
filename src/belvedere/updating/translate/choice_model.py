"""The choices of a translation as a CP-SAT model: one literal for each, clauses between them.

    gone     a row of a table goes
    make     a new row stands for a segment of a view row to insert
    use      an existing row stands for it
    value    a hidden value of a view row to insert is this one
    same     the new rows of two segments are one row

The objective is the number of base rows touched; among as few, rows that leave few others without a
partner go first, and hidden values of a replaced view row stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from typing import Any

from belvedere.errors import Invalid
from belvedere.updating.request.view_rows import HiddenValue, SegmentOptions
from belvedere.updating.side_effects.in_memory import Embedding
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.translate.new_rows import Literal
from belvedere.updating.translate.options import Slot, meeting_slots, segment_options
from belvedere.updating.translate.translation_request import TranslationRequest
from belvedere.updating.translate.trial import Trial

MOST_EMBEDDINGS = 5_000
MOST_WEIGHED = 100
"""Up to so many deletable rows, or embeddings of a view row, preferences are computed."""
MOST_PAIRS = 500
"""Pairs of segments that are considered as one new row."""


def count_left_without_partner(
    base: BaseTables, key: Sequence[str] | None, p: int, number: int
) -> int:
    """How many rows lose their last partner if a row is deleted; those that refer to its key count twice."""
    count = 0
    for e in base.tree.around[p]:
        join_key = int(base.keys(p, e)[number])
        if len(base.matching(p, e, join_key)) == 1:
            refer = key is not None and set(key) <= set(base.tree.columns(p, e))
            count += (1 + refer) * len(base.matching(base.tree.edges[e].across(p), e, join_key))
    return count


class ChoiceModel:
    """The model of one request; clauses are added as choices turn out wrong."""

    def __init__(self, request: TranslationRequest, trial: Trial) -> None:
        from ortools.sat.python import cp_model

        self.request, self.trial = request, trial
        self.base, self.coder = request.base, request.coder
        self.model = cp_model.CpModel()
        self.literals: dict[Literal, Any] = {}
        self.cost: list[Any] = []
        self.ties: list[tuple[int, Any]] = []
        self.left_out: dict[str, None] = {}
        """What is not tried, as sentences."""
        self.embeddings: list[list[Embedding]] = []
        """The embeddings of each view row to delete."""
        self.inserts: list[list[SegmentOptions]] = []
        """For each view row to insert, the options of each position."""
        self.same: list[Literal] = []
        """All choices of two segments to be one row."""
        self._add_deletions()
        self._add_insertions()
        # Preferences decide only between choices that touch equally many base rows.
        most = 1 + sum(weight for weight, _ in self.ties)
        self.model.minimize(most * sum(self.cost) + sum(w * literal for w, literal in self.ties))

    def literal(self, literal: Literal) -> Any:
        """The solver's variable of a choice."""
        if literal not in self.literals:
            self.literals[literal] = self.model.new_bool_var(str(literal))
        return self.literals[literal]

    def _add_deletions(self) -> None:
        for row, signature in zip(self.request.delete, self.trial.deleted, strict=True):
            embeddings = list(islice(self.trial.old.embeddings_of(signature), MOST_EMBEDDINGS + 1))
            if not embeddings:
                raise Invalid(f"the view has no row {row.text()}", reason="NO_SUCH_ROW")
            if len(embeddings) > MOST_EMBEDDINGS:
                self.left_out["not all base rows that show a view row were tried"] = None
            self.embeddings.append(embeddings)
            for embedding in embeddings:
                self.model.add_bool_or(
                    [self._deletion_literal(p, n) for p, n in enumerate(embedding)]
                )

    def _deletion_literal(self, p: int, number: int) -> Any:
        table = self.base.shape.positions[p].table
        literal = ("gone", table, number)
        if literal not in self.literals:
            count = int(self.base.tables[table].counts[number])
            self.cost.append(count * self.literal(literal))
            if len(self.literals) <= MOST_WEIGHED:
                weight = count_left_without_partner(
                    self.base, self.request.rules[table].key, p, number
                )
                self.ties.append((weight, self.literal(literal)))
        return self.literal(literal)

    def _add_insertions(self) -> None:
        rows = self.request.insert
        hidden = dict.fromkeys(h for p in self._positions for h in self.coder.hidden_values(p))
        replaced_values = {
            (i, h): self._replaced_values(i, h) for i in range(len(rows)) for h in hidden
        }
        self.inserts, left_out = segment_options(
            self.coder, rows, self.request.rules, self.request.source, replaced_values
        )
        self.left_out.update(dict.fromkeys(left_out))
        for i, options in enumerate(self.inserts):
            for h, values in {h: v for o in options for h, v in o.values.items()}.items():
                self.model.add_exactly_one([self.literal(("value", i, h, v)) for v in values])
                if replaced_values[i, h]:
                    new_values = [v for v in values if v not in replaced_values[i, h]]
                    self.ties += [(1, self.literal(("value", i, h, v))) for v in new_values]
            for p, o in enumerate(options):
                self._add_segment(i, p, o)
        self._add_pairs()

    @property
    def _positions(self) -> range:
        return range(len(self.base.shape.positions))

    def _add_pairs(self) -> None:
        """For two segments neither of which shows all that the other shows: whether one new row is both."""
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
            self._add_pair(*sorted((one, other)))
        self._allow_one_target()

    def _add_pair(self, one: Slot, other: Slot) -> None:
        """Two segments that may be one new row: both new, with equal values in common columns."""
        literal = ("same", *one, *other)
        self.same.append(literal)
        same = self.literal(literal)
        self.cost.append(-same)
        for slot in (one, other):
            self.model.add_implication(same, self.literal(("make", *slot)))
        for c in self._hidden_columns(one).keys() | self._hidden_columns(other).keys():
            self._require_equal(same, c, one, other)

    def _hidden_columns(self, slot: Slot) -> dict[str, HiddenValue]:
        i, p = slot
        hidden = self.inserts[i][p].hidden
        return {c: h for h in hidden for c in self.coder.columns(p, h)}

    def _require_equal(self, same: Any, column: str, one: Slot, other: Slot) -> None:
        """Segments that are one row have one value in a common column that one of them hides."""
        values = []
        for i, p in (one, other):
            o, hidden = self.inserts[i][p], self._hidden_columns((i, p)).get(column)
            if hidden is not None:
                some = {v: self.literal(("value", i, hidden, v)) for v in o.values[hidden]}
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

    def _allow_one_target(self) -> None:
        """A segment joins at most one earlier segment, which itself joins none."""
        into: dict[Slot, list[Any]] = {}
        for literal in self.same:
            into.setdefault(literal[3:], []).append(self.literal(literal))
        for some in into.values():
            self.model.add_at_most_one(some)
        for literal in self.same:
            for earlier in into.get(literal[1:3], ()):
                self.model.add_bool_or([self.literal(literal).Not(), earlier.Not()])

    def _replaced_values(self, i: int, h: HiddenValue) -> list[Any]:
        """The hidden values of the view row that a row to insert replaces."""
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

    def _add_segment(self, i: int, p: int, o: SegmentOptions) -> None:
        """A segment is an existing row, which fixes its hidden values, or a new row."""
        make = self.literal(("make", i, p))
        self.cost.append(make)
        uses = []
        for number in o.existing:
            use = self.literal(("use", i, p, number))
            uses.append(use)
            table = self.base.shape.positions[p].table
            if ("gone", table, number) in self.literals:
                self.model.add_bool_or([use.Not(), self._deletion_literal(p, number).Not()])
            for h in o.hidden:
                value = self.coder.hidden_value_of_row(p, number, h)
                if value is not None:
                    self.model.add_implication(use, self.literal(("value", i, h, value)))
        self.model.add_exactly_one([make, *uses])
