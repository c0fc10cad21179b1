"""Statistics of files, and literals, taken for more than they say."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import strategies as st

from belvedere.delta import files, statistics
from belvedere.joins import partitions
from belvedere.sketches.use import implied_conditions
from tests.mutants.hunt import Hunt, Mutants, Patch
from tests.reference.constants import seeds, what_is_implied_holds
from tests.reference.recorded import recorded_values_are_bounds, written, written_of

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by

bounds = Hunt("bounds of recorded values", recorded_values_are_bounds, st.tuples(written))
numbers = Hunt(
    "bounds of floating point numbers",
    recorded_values_are_bounds,
    st.tuples(written_of("float", "double")),
)
implied = Hunt("implied conditions", what_is_implied_holds, st.tuples(seeds), enough=3)


@caught_by(bounds)
def recorded_times_are_exact(patch: Patch) -> None:
    patch.setattr(statistics, "_rounded", lambda _at: datetime.timedelta(0))


@caught_by(bounds)
def recorded_decimals_are_exact(patch: Patch) -> None:
    patch.setattr(statistics, "EXACT_IN_A_DOUBLE", 38)


@caught_by(bounds)
def decimals_are_read_as_floats(patch: Patch) -> None:
    def rounded(text: str) -> Any:
        import json

        return json.loads(text or "{}", parse_float=lambda t: statistics.Decimal(str(float(t))))

    patch.setattr(statistics, "EXACT_IN_A_DOUBLE", 38)
    patch.setattr(files, "parsed_stats", rounded)


@caught_by(bounds, start=4)
def recorded_texts_are_whole(patch: Patch) -> None:
    right = statistics._texts

    def wrong(kind: str, low: Any, high: Any) -> Any:
        ends = right(kind, low, high)
        return ends and (ends[0], ends[1][:-1])

    patch.setitem(statistics._READ, statistics.STRING, wrong)  # type: ignore[arg-type]


@caught_by(numbers, start=5)
def not_a_number_is_recorded(patch: Patch) -> None:
    patch.setitem(
        statistics._READ, statistics.DOUBLE, lambda _k, low, high: (float(low), float(high))
    )  # type: ignore[arg-type]


@caught_by(numbers, start=15)
def floats_are_recorded_as_doubles(patch: Patch) -> None:
    right = statistics._floats
    patch.setitem(
        statistics._READ, statistics.FLOAT, lambda _k, low, high: right("double", low, high)
    )  # type: ignore[arg-type]


@caught_by(bounds)
def texts_are_in_the_order_of_utf_16(patch: Patch) -> None:
    right = partitions._key
    patch.setattr(
        partitions,
        "_key",
        lambda b: (
            b.decode("utf-8", "replace").encode("utf-16-be", "surrogatepass")
            if isinstance(b, bytes)
            else right(b)
        ),
    )


@caught_by(implied)
def numbers_with_an_exponent_are_exact(patch: Patch) -> None:
    right = implied_conditions._number
    patch.setattr(
        implied_conditions,
        "_number",
        lambda text: right(format(implied_conditions.Decimal(text), "f")),
    )


@caught_by(implied)
def constants_of_all_types_are_compared_alike(patch: Patch) -> None:
    patch.setattr(implied_conditions.Constant, "comparison_type", lambda _c, _plain: "number")


@caught_by(implied)
def texts_are_compared_like_numbers(patch: Patch) -> None:
    patch.setattr(implied_conditions, "_is_plain_number", lambda _e, _types: True)


@caught_by(implied, start=6)
def constants_stay_apart(patch: Patch) -> None:
    patch.setattr(implied_conditions.Constant, "is_exact", True)
