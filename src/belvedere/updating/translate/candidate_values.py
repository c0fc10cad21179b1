"""Candidate values of hidden columns: values of existing rows, values that conditions and foreign keys
allow, and fresh values.

A list is *complete* if no omitted value could do what none of the listed values does:

    listed      the conditions allow a finite number of values
    parents     a foreign key to a table outside the view allows the values of its rows
    free        the list has as many values as may be needed that meet all conditions and that no row
                has; any other such value joins with the same rows, that is with none

Otherwise, or if a condition cannot be decided from one value alone, a search without result does not
prove that there is none.
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
    """A hidden value at one position: the columns that hold it, and the known values of the others."""

    table: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    known: Mapping[str, NormalValue]
    selected: tuple[Scalar, ...]
    """Conditions that must be true."""
    checked: tuple[Scalar, ...]
    """Conditions that must not be false."""
    hidden_elsewhere: frozenset[str] = frozenset()
    """Columns of the position that hold other hidden values."""

    @property
    def kind(self) -> str:
        """The type of the hidden value at this position."""
        return self.types[self.columns[0]]

    @property
    def conditions(self) -> tuple[Scalar, ...]:
        """All conditions on the columns."""
        return self.selected + self.checked

    def mentioned(self) -> Iterator[NormalValue]:
        """The constants in conditions, and the known values that the columns are compared with."""
        for condition in self.conditions:
            yield from mentioned_values(condition, self.kind)
            yield from (
                self.known[c]
                for c in condition.columns & self.known.keys()
                if self.types[c] == self.kind
            )


@dataclass
class ParentValues:
    """Values that foreign keys allow."""

    values: list[NormalValue] = field(default_factory=list)
    is_truncated: bool = False
    """Whether there are more values than listed."""
    is_exclusive: bool = False
    """Whether no other value is possible, whatever rows are inserted."""


@dataclass
class CandidateValues:
    """The candidate values of a hidden value."""

    values: list[NormalValue]
    complete: bool
    """Whether no omitted value could do what none of these does."""
    restricted: bool
    """Whether conditions or foreign keys exclude every other value."""
    domain: Domain | None
    """The values that rows have; None if they are not held in memory."""


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
    """The candidate values of a hidden value: existing, allowed and fresh ones, and values it may have to equal.

    A fresh value is one that no row has and no view row of the request shows.
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
    # With no candidate left, NULL stands for all: it joins with nothing and satisfies no WHERE.
    return CandidateValues(list(values) or [None], complete, restricted, domain)


def _constants_of_other_positions(
    coder: Coder, columns: Sequence[HiddenColumn]
) -> list[NormalValue]:
    """Constants in the selections of other positions of a table: they decide where else a row appears."""
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
    """Those of some values that fit the types of a hidden value and meet all conditions on it."""
    columns = _hidden_columns(coder, h, options, rules)
    types = list(dict.fromkeys(column.kind for column in columns))
    fitting = [v for v in values if fits_types(v, types)]
    return values_meeting_conditions(columns, fitting)[0] if fitting else []


def _hidden_columns(
    coder: Coder, h: HiddenValue, options: Sequence[SegmentOptions], rules: Mapping[str, TableRules]
) -> list[HiddenColumn]:
    """A hidden value at each position that has it."""
    return [hidden_column(coder, p, h, o, rules) for p, o in enumerate(options) if h in o.hidden]


def hidden_column(
    coder: Coder, p: int, h: HiddenValue, o: SegmentOptions, rules: Mapping[str, TableRules]
) -> HiddenColumn:
    """A hidden value at one position."""
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
    """The values that conditions list, or both values of a boolean; None if they list none."""
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
    """Which values meet all conditions that can be decided from them, and whether all can be decided."""
    mask, sure = np.ones(len(values), dtype=bool), True
    for column in columns:
        available = column.known.keys() | set(column.columns)
        # On NULL, a selection counts as not true and a CHECK as not false.
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
    """Which values meet a condition, and whether it could be computed for all of them."""
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
        # Some value is too large to compute with: evaluate each alone.
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
    """The values that foreign keys of a hidden value's columns allow, as many as are considered."""
    parents = ParentValues()
    for column in columns:
        for key in rules[column.table].foreign:
            pairs = dict(zip(key.columns, key.parent_columns, strict=True))
            other_columns = pairs.keys() - set(column.columns)
            # A key with NULL refers to nothing, and so does a key with an unspecified column.
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
    """The values that parent rows have for the hidden value, one more than are considered."""
    column = next(pairs[c] for c in hidden.columns if c in pairs)
    equal = {
        pairs[c]: denormalize(hidden.known[c], hidden.types[c]) for c in pairs if c in hidden.known
    }
    if not equal:
        return source.first(parent, column, MOST_EXISTING + 1)
    values = dict.fromkeys(r[column] for r in source.where(parent, equal))
    return [v for v in values if v is not None][: MOST_EXISTING + 1]
