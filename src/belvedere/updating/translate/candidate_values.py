"""Values that a hidden one may take: those of rows, those that conditions and foreign keys leave, new ones.

A list is *complete* if no value that is left out could do what none in it does:

    listed      a condition leaves a finite number of values
    parents     a foreign key to a table outside the view leaves those of its rows
    free        of values that meet all conditions and that no row has, there are as many as may be
                needed; which of them it is makes no difference to what joins

Where it is neither of these, or a condition cannot be decided of one value alone, a search that
finds nothing has not shown that there is nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.scalars import Scalar
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import value as computed
from belvedere.updating.summary.base_tables import Mask
from belvedere.updating.summary.domains import Domain, NormalValue, denormalize, normalize
from belvedere.updating.translate.condition_constants import listed_values, mentioned_values
from belvedere.updating.translate.constraints import RowSource, TableRules
from belvedere.updating.translate.fresh_values import FreshValues, fits_types

if TYPE_CHECKING:
    from belvedere.updating.request.view_rows import Coder, HiddenValue, SegmentOptions

MOST_EXISTING = 200


@dataclass(frozen=True)
class HiddenColumn:
    """A position with a hidden value: the columns that have it, what is known of the others."""

    table: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    known: Mapping[str, NormalValue]
    selected: tuple[Scalar, ...]
    """What must be true of the columns."""
    checked: tuple[Scalar, ...]
    """What must not be false of them."""
    hidden_elsewhere: frozenset[str] = frozenset()
    """Columns with other hidden values."""

    @property
    def kind(self) -> str:
        """The type of the hidden value here."""
        return self.types[self.columns[0]]

    @property
    def conditions(self) -> tuple[Scalar, ...]:
        """All that speaks of the columns."""
        return self.selected + self.checked

    def mentioned(self) -> Iterator[NormalValue]:
        """The values that conditions speak of, or compare with."""
        for condition in self.conditions:
            yield from mentioned_values(condition, self.kind)
            yield from (
                self.known[c]
                for c in condition.columns & self.known.keys()
                if self.types[c] == self.kind
            )


@dataclass
class ParentValues:
    """Values that foreign keys leave."""

    values: list[NormalValue] = field(default_factory=list)
    is_truncated: bool = False
    """Whether there are more."""
    is_exclusive: bool = False
    """Whether nothing else is left, whatever rows come."""


@dataclass
class CandidateValues:
    """The values that a hidden one may take."""

    values: list[NormalValue]
    complete: bool
    """Whether no value that is left out could do what none of these does."""
    restricted: bool
    """Whether that is so because conditions or foreign keys leave no others."""
    domain: Domain | None
    """The values that rows have, if they are known."""


def candidate_values(
    coder: Coder,
    h: HiddenValue,
    options: Sequence[SegmentOptions],
    rules: Mapping[str, TableRules],
    source: RowSource,
    most: int,
    shown: Sequence[NormalValue],
    requested: Collection[NormalValue],
) -> CandidateValues:
    """The values that a hidden value may take: so many new ones, and told ones that it may have to equal.

    New are values that neither rows have nor any view row is asked to show.
    """
    columns = _hidden_columns(coder, h, options, rules)
    existing_values = dict.fromkeys(
        coder.hidden_value_of_row(p, n, h)
        for p, o in enumerate(options)
        if h in o.hidden
        for n in o.existing
    )
    types = list(dict.fromkeys(spot.kind for spot in columns))
    domain = coder.base.domains.get((columns[0].table, columns[0].columns[0]))
    unused = FreshValues(types, domain, requested)
    needed = 1 if domain is None else most
    listed = _listed_by_conditions(columns)
    parents = _parent_values(coder, columns, rules, source)
    elsewhere = _constants_of_other_positions(coder, columns)
    new = unused.values([*(v for s in columns for v in s.mentioned()), *elsewhere], needed)
    required = [*parents.values, *shown]
    pool = [v for v in [*(new if listed is None else listed), *required] if fits_types(v, types)]
    pool += [None] if h[0] == "place" else []
    meeting, sure = values_meeting_conditions(columns, list(dict.fromkeys(pool)))
    free = [v for v in meeting if unused.is_free(v)]
    restricted = listed is not None or (not parents.is_truncated and parents.is_exclusive)
    complete = restricted or (not parents.is_truncated and sure and len(free) >= needed)
    all_alike = sure and listed is None and not elsewhere
    left_out = set(free[needed:] if all_alike else ()) - set(required)
    values = dict.fromkeys(v for v in [*existing_values, *meeting] if v not in left_out)
    if h[0] == "class" or (len(values) > 1 and None not in meeting):
        values.pop(None, None)
    # What nothing fits still has a value to choose, which joins with nothing and meets no WHERE.
    return CandidateValues(list(values) or [None], complete, restricted, domain)


def _constants_of_other_positions(
    coder: Coder, columns: Sequence[HiddenColumn]
) -> list[NormalValue]:
    """Constants of what other positions of a table select by: on them depends where else a row stands."""
    return [
        v
        for column in columns
        for q in coder.shape.at(column.table)
        for part in coder.shape.positions[q].selection.conjuncts
        if part.columns & set(column.columns) and part not in column.selected
        for v in mentioned_values(part, column.kind)
    ]


def admissible_values(
    coder: Coder,
    h: HiddenValue,
    options: Sequence[SegmentOptions],
    rules: Mapping[str, TableRules],
    values: Sequence[NormalValue],
) -> list[NormalValue]:
    """Those of some values that are of a hidden value's types and meet all conditions on it."""
    columns = _hidden_columns(coder, h, options, rules)
    types = list(dict.fromkeys(column.kind for column in columns))
    fitting = [v for v in values if fits_types(v, types)]
    return values_meeting_conditions(columns, fitting)[0] if fitting else []


def _hidden_columns(
    coder: Coder, h: HiddenValue, options: Sequence[SegmentOptions], rules: Mapping[str, TableRules]
) -> list[HiddenColumn]:
    """The positions with a hidden value."""
    return [hidden_column(coder, p, h, o, rules) for p, o in enumerate(options) if h in o.hidden]


def hidden_column(
    coder: Coder, p: int, h: HiddenValue, o: SegmentOptions, rules: Mapping[str, TableRules]
) -> HiddenColumn:
    """A position as a hidden value of it sees it."""
    position, columns = coder.shape.positions[p], tuple(coder.columns(p, h))
    own_columns = set(columns)
    checks = (part for check in rules[position.table].checks.values() for part in check.conjuncts)
    return HiddenColumn(
        position.table,
        columns,
        {**rules[position.table].columns, **position.types},
        o.shown,
        tuple(part for part in position.selection.conjuncts if part.columns & own_columns),
        tuple(part for part in checks if part.columns & own_columns),
        frozenset(position.types) - own_columns - o.shown.keys(),
    )


def _listed_by_conditions(columns: Sequence[HiddenColumn]) -> list[NormalValue] | None:
    """The values that conditions list, of a type that has two those; None if they list none."""
    lists_or_none = (
        listed_values(condition, column.columns, column.kind)
        for column in columns
        for condition in column.conditions
    )
    lists = [values for values in lists_or_none if values is not None]
    if not lists:
        two = [normalize(truth, "boolean") for truth in (True, False)]
        return two if columns[0].kind == "boolean" else None
    return [v for v in lists[0] if all(v in values for values in lists[1:])]


def values_meeting_conditions(
    columns: Sequence[HiddenColumn], values: Sequence[NormalValue]
) -> tuple[list[NormalValue], bool]:
    """Which values meet all conditions that can be decided of them, and whether all can."""
    mask, sure = np.ones(len(values), dtype=bool), True
    for column in columns:
        available = column.known.keys() | set(column.columns)
        # Of NULL a selection is not true, and a CHECK not false.
        for conditions, null in ((column.selected, False), (column.checked, True)):
            for condition in conditions:
                if not condition.columns <= available:
                    sure = False
                    continue
                met, decided = _evaluate(column, condition, values, null=null)
                mask, sure = mask & met, sure and decided
    return [v for v, keep in zip(values, mask.tolist(), strict=True) if keep], sure


def _evaluate(
    column: HiddenColumn, condition: Scalar, values: Sequence[NormalValue], *, null: bool
) -> tuple[Mask, bool]:
    """Which values meet a condition, and whether that could be computed of all of them."""
    one = {c: v for c, v in column.known.items() if c in condition.columns}
    column_values = {
        c: values if c in column.columns else [one[c]] * len(values) for c in condition.columns
    }
    rows = pa.table(
        {
            c: pa.array(
                [denormalize(v, column.types[c]) for v in values_here], kinds.arrow(column.types[c])
            )
            for c, values_here in column_values.items()
        }
    )
    try:
        truth = computed(condition, rows, column.types).data
        met: Mask = pc.fill_null(truth, null).to_numpy(zero_copy_only=False).astype(bool)
        return met, True
    except Declined:
        return np.ones(len(values), dtype=bool), False
    except pa.ArrowInvalid:
        # Some value is too large to compute with.
        if len(values) == 1:
            return np.zeros(1, dtype=bool), False
        alone = [_evaluate(column, condition, [v], null=null)[0] for v in values]
        return np.concatenate(alone), False


def _parent_values(
    coder: Coder,
    columns: Sequence[HiddenColumn],
    rules: Mapping[str, TableRules],
    source: RowSource,
) -> ParentValues:
    """The values that foreign keys of a hidden value's columns leave, the first of them."""
    parents = ParentValues()
    for column in columns:
        for key in rules[column.table].foreign:
            pairs = dict(zip(key.columns, key.parent_columns, strict=True))
            other_columns = pairs.keys() - set(column.columns)
            # A key with NULL in it refers to nothing: so does one with a column that nobody fills.
            if other_columns == pairs.keys() or any(
                column.known.get(c) is None and c not in column.hidden_elsewhere
                for c in other_columns
            ):
                continue
            referenced = _referenced_values(column, pairs, source, key.parent)
            parents.values += [normalize(v, column.kind) for v in referenced[:MOST_EXISTING]]
            parents.is_truncated |= len(referenced) > MOST_EXISTING or bool(
                other_columns & column.hidden_elsewhere
            )
            parents.is_exclusive |= key.parent not in coder.shape.tables
    return parents


def _referenced_values(
    hidden: HiddenColumn, pairs: Mapping[str, str], source: RowSource, parent: str
) -> list[Any]:
    """What rows of a parent have where the hidden value is to be, one more than are taken."""
    column = next(pairs[c] for c in hidden.columns if c in pairs)
    equal = {
        pairs[c]: denormalize(hidden.known[c], hidden.types[c]) for c in pairs if c in hidden.known
    }
    if not equal:
        return source.first(parent, column, MOST_EXISTING + 1)
    values = dict.fromkeys(r[column] for r in source.where(parent, equal))
    return [v for v in values if v is not None][: MOST_EXISTING + 1]
