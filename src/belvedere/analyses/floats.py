"""Which values depend on the order of additions: a floating-point sum computed again may differ.

A keyed change subtracts values it computes again. For such a value the old row would not be
found, so a plan in which one lies below a keyed operator cannot be maintained by its change.
"""

from __future__ import annotations

from belvedere.algebra.relations import Agg, Aggregate, Rel, Window
from belvedere.algebra.types import parse
from belvedere.analyses.types import Types, argument

# computed in floating point whatever they are given, by updates that depend on the order
_ALWAYS = frozenset(
    "variance var_samp var_pop stddev std stddev_samp stddev_pop skewness kurtosis corr covar_pop "
    "covar_samp regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy".split()
)
# exact on integers and decimals
_ON_FLOATS = frozenset(("sum", "avg", "mean", "try_sum", "try_avg"))


def order_dependent(a: Agg, types: Types) -> bool:
    """Whether an aggregate's value depends on the order of its rows."""
    if a.function in _ALWAYS:
        return True
    return a.function in _ON_FLOATS and not parse(types[argument(a)]).is_exact


def unstable(q: Rel, types: Types) -> bool:
    """Whether a node computes values that may differ in their last bits when computed again."""
    if isinstance(q, Aggregate):
        return any(order_dependent(a, types) for a in q.aggregates)
    return isinstance(q, Window) and any(parse(types[f.name]).is_float for f in q.functions)
