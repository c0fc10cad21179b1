"""Operators in memory, broken."""

from __future__ import annotations

from typing import Any

import numpy as np

from belvedere.memory import equality, plans
from tests.mutants import hunts
from tests.mutants.hunt import Mutants, Patch

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by


@caught_by(hunts.in_memory)
def null_meets_null(patch: Patch) -> None:
    patch.setattr(plans, "_null", lambda data: np.zeros(len(data), dtype=bool))


@caught_by(hunts.in_memory, start=5)
def the_sign_of_one_side_is_lost(patch: Patch) -> None:
    right = plans._beside

    def beside(left: plans.Rows, other: plans.Rows, signs: Any) -> plans.Rows:
        return right(left, other, None if signs is None else left.signs)

    patch.setattr(plans, "_beside", beside)


@caught_by(hunts.in_memory)
def two_columns_have_one_number(patch: Patch) -> None:
    right = equality._codes
    patch.setattr(equality, "_codes", lambda parts: (right(parts)[0], 1))


@caught_by(hunts.groups_in_memory)
def rows_that_cancel_stay(patch: Patch) -> None:
    def kept(rows: plans.Rows, columns: tuple[str, ...]) -> Any:
        groups = plans.grouped(rows.columns(columns), rows.table.num_rows)
        return rows.take(groups.first), np.maximum(groups.total(rows.signs), 1)

    patch.setattr(plans, "netted", kept)


@caught_by(hunts.in_memory, start=9)
def sums_take_every_row_for_new(patch: Patch) -> None:
    right = plans._sum
    patch.setattr(plans, "_sum", lambda a, rows, groups: right(a, rows.with_signs(None), groups))
