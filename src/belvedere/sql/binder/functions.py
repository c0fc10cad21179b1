"""Vocabulary: which of Spark's functions a maintained view may call, and why not the others.

A view must give the same rows whenever and wherever it is recomputed, so a value that depends on
the clock, on chance, on the session or on the order of rows is refused by name.
"""

from __future__ import annotations

from belvedere.sql.binder.builtins import (
    AGGREGATE_FUNCTIONS,
    GENERATOR_FUNCTIONS,
    NOT_REPEATABLE_SCALARS,
)

_CLOCK = "it depends on when it is evaluated"
_CHANCE = "it gives another value each time"
_SESSION = "it depends on who asks, or from where"
_LAYOUT = "it depends on how rows lie in files and partitions"
_FILES = "it depends on a file besides the tables"

NOT_REPEATABLE: dict[str, str] = {
    **dict.fromkeys(NOT_REPEATABLE_SCALARS, _CHANCE),
    **dict.fromkeys(
        "current_date current_timestamp current_time currentdate currenttimestamp now curdate "
        "localtimestamp localtime current_datetime unix_timestamp".split(),
        _CLOCK,
    ),
    **dict.fromkeys("rand randn random uuid shuffle randstr uniform".split(), _CHANCE),
    **dict.fromkeys(
        "current_user user session_user current_role current_catalog current_database "
        "current_schema current_path current_timezone version java_method reflect try_reflect "
        "is_account_group_member is_member".split(),
        _SESSION,
    ),
    **dict.fromkeys(
        "monotonically_increasing_id spark_partition_id input_file_name "
        "input_file_block_start input_file_block_length".split(),
        _LAYOUT,
    ),
    **dict.fromkeys("from_protobuf to_protobuf".split(), _FILES),
    "aes_encrypt": f"{_CHANCE}, but in mode ECB or with an initialization vector as a constant",
}

BARE_WORDS = frozenset(
    "current_date current_timestamp current_time localtimestamp localtime current_user user "
    "session_user".split()
)

AGGREGATES = frozenset(
    "any avg approx_count_distinct bit_and bit_or bit_xor bool_and bool_or corr count count_if "
    "covar_pop covar_samp every kurtosis max mean median min percentile percentile_cont "
    "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy "
    "skewness some std stddev stddev_pop stddev_samp sum try_avg try_sum var_pop var_samp "
    "variance".split()
)
COUNTS = frozenset("count count_if approx_count_distinct regr_count".split())

_ORDER = "its result depends on the order of rows, which a table does not have"
_TIES = "among equal rows it may pick any"
REFUSED_AGGREGATES: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        AGGREGATE_FUNCTIONS - AGGREGATES,
        ("it is not handled yet", "aggregate with sum, count, min or max"),
    ),
    **dict.fromkeys(
        "collect_list array_agg listagg string_agg group_concat try_collect_list".split(),
        (_ORDER, "aggregate with sum, count, min or max, or collect when reading the view"),
    ),
    "collect_set": (_ORDER, "use SELECT DISTINCT, or collect when reading the view"),
    **dict.fromkeys(
        "first first_value last last_value any_value nth_value".split(),
        (_ORDER, "use min or max, or a window function with ORDER BY"),
    ),
    **dict.fromkeys(
        "max_by min_by".split(),
        (_TIES, "use row_number() OVER (PARTITION BY … ORDER BY …) and keep row 1"),
    ),
    "mode": (_TIES, "count per value, then keep the largest with row_number()"),
    **dict.fromkeys(
        "percentile_approx approx_percentile approx_top_k histogram_numeric".split(),
        ("it is approximate and depends on the order of rows", "use percentile, which is exact"),
    ),
    "percentile_disc": ("it is not handled yet", "use percentile"),
    **dict.fromkeys(
        "count_min_sketch hll_sketch_agg hll_union_agg bitmap_construct_agg bitmap_or_agg "
        "theta_sketch_agg kll_sketch_agg_bigint kll_sketch_agg_float kll_sketch_agg_double "
        "schema_of_json_agg grouping_agg".split(),
        ("it builds a sketch, which is not handled yet", "use count(DISTINCT …) or percentile"),
    ),
}

GENERATORS = GENERATOR_FUNCTIONS | {"variant_explode", "variant_explode_outer"}
TIME_WINDOWS = frozenset("window session_window window_time".split())

RANKINGS = frozenset("rank dense_rank percent_rank cume_dist".split())
ROW_PICKERS = frozenset("first first_value last last_value nth_value any_value".split())
ROW_MOVERS = frozenset("row_number ntile lag lead".split())

UNIT_FIRST = frozenset(
    "timestampadd timestampdiff dateadd date_add datediff date_diff time_diff".split()
)
