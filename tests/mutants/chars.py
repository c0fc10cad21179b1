"""Columns of CHAR, read or compared in a broken way."""

from __future__ import annotations

from hypothesis import strategies as st

from belvedere.sql.binder import char_columns, expressions
from belvedere.sql.binder.clauses import from_clause
from tests.mutants.hunt import Hunt, Mutants, Patch
from tests.reference.chars import CONDITIONS, ROWS, grouped_as_spark_groups, kept_as_spark_keeps

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by

kept = Hunt("rows with CHAR kept", kept_as_spark_keeps, st.tuples(ROWS, CONDITIONS), enough=40)
in_groups = Hunt(
    "rows with CHAR grouped",
    grouped_as_spark_groups,
    st.tuples(ROWS, st.sampled_from(["a", "b", "s"])),
    enough=40,
)


@caught_by(in_groups)
def values_are_read_as_they_are_stored(patch: Patch) -> None:
    patch.setattr(from_clause, "padded", lambda value, _length: value)


@caught_by(kept)
def constants_are_compared_as_they_are_written(patch: Patch) -> None:
    patch.setattr(expressions, "as_compared", lambda _ctx, node: node)


@caught_by(kept, start=12)
def the_column_is_not_padded_to_a_longer_constant(patch: Patch) -> None:
    right = char_columns._padded
    patch.setattr(
        char_columns,
        "_padded",
        lambda ctx, e, length: e if char_columns._declared(ctx, e) else right(ctx, e, length),
    )
