"""Names that are keywords of Spark's: what stands unquoted binds as if it were quoted, or is refused.

Spark reserves no keyword, so that any may name a column, a table or an alias. `keywords.txt` has
all of them; what Spark takes for a literal or for another clause in some place is listed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlglot import TokenType

from belvedere.errors import BelvedereError, Invalid, Unsupported
from belvedere.sql.binder.bind import Bound
from belvedere.sql.statements.cursor import tokenize
from belvedere.views.create import _refuse_if_read_otherwise
from tests.sql.shop import bound

KEYWORDS = (Path(__file__).parent / "keywords.txt").read_text().split()
# The others are names for the tokenizer already.
SPECIAL = [w for w in KEYWORDS if tokenize(w)[0][0].token_type != TokenType.VAR]

INNER = "(SELECT a AS {quoted}, b, c FROM r)"
TEMPLATES = {
    "selected": "SELECT {w} FROM {inner}",
    "selected first": "SELECT {w}, b FROM {inner}",
    "selected last": "SELECT b, {w} FROM {inner}",
    "qualified": "SELECT t.{w} FROM {inner} t",
    "compared": "SELECT b FROM {inner} WHERE {w} = 1",
    "listed": "SELECT b FROM {inner} WHERE {w} IN (1, 2)",
    "added to": "SELECT {w} + 1 AS x FROM {inner}",
    "added": "SELECT 1 + {w} AS x FROM {inner}",
    "summed": "SELECT sum({w}) AS s FROM {inner}",
    "grouped": "SELECT {w}, count(*) AS n FROM {inner} GROUP BY {w}",
    "grouped first": "SELECT b, {w}, count(*) AS n FROM {inner} GROUP BY {w}, b",
    "grouped last": "SELECT b, {w}, count(*) AS n FROM {inner} GROUP BY b, {w}",
    "ordered": "SELECT b, {w} FROM {inner} ORDER BY {w} LIMIT 2",
    "aliased": "SELECT a {w} FROM r",
    "aliased with AS": "SELECT a AS {w} FROM r",
    "table alias": "SELECT {w}.a FROM r AS {w}",
    "bare table alias": "SELECT {w}.a FROM r {w}",
    "common table": "WITH {w} AS (SELECT a FROM r) SELECT a FROM {w}",
    "window": "SELECT sum(a) OVER {w} AS s FROM r WINDOW {w} AS (PARTITION BY b)",
    "joined": "SELECT x.b FROM {inner} x JOIN {inner} y USING ({w})",
}
LITERALS = {"true", "false", "null"}
SPARK_TAKES_FOR_MORE = {("all", "added to"), ("distinct", "added to"), ("not", "added to")}
"""ALL +1, DISTINCT +1 and NOT +1."""


def binding(template: str, word: str, written: str) -> Bound | BelvedereError:
    inner = INNER.format(quoted=f"`{word}`")
    try:
        return bound(template.format(w=written, inner=inner))
    except BelvedereError as error:
        return error


@pytest.mark.parametrize("place", TEMPLATES)
def test_a_keyword_as_a_name_binds_as_if_it_were_quoted_or_is_refused(place: str) -> None:
    """Each word in every third place."""
    binds_as_if_quoted_or_is_refused(place, SPECIAL[list(TEMPLATES).index(place) % 3 :: 3])


@pytest.mark.soak
@pytest.mark.parametrize("place", TEMPLATES)
def test_every_keyword_binds_in_every_place_or_is_refused(place: str) -> None:
    binds_as_if_quoted_or_is_refused(place, SPECIAL)


def binds_as_if_quoted_or_is_refused(place: str, words: Sequence[str]) -> None:
    for word in words:
        if word in LITERALS or (word, place) in SPARK_TAKES_FOR_MORE:
            continue
        unquoted = binding(TEMPLATES[place], word, word)
        if isinstance(unquoted, BelvedereError):
            assert isinstance(unquoted, Invalid | Unsupported), word
            continue
        quoted = binding(TEMPLATES[place], word, f"`{word}`")
        assert isinstance(quoted, Bound), word
        assert (unquoted.plan, unquoted.columns) == (quoted.plan, quoted.columns), word


GROUPS = [
    ("SELECT a, count(*) AS n FROM r GROUP BY ALL", "SELECT a, count(*) AS n FROM r GROUP BY a"),
    ("SELECT a, count(*) AS n FROM r GROUP BY `all`", "SELECT a, count(*) AS n FROM r GROUP BY a"),
    ("SELECT DISTINCT a FROM r UNION ALL SELECT ALL d FROM s", "(SELECT DISTINCT a FROM r) UNION ALL (SELECT d FROM s)"),
    ("SELECT sum(ALL a) AS n FROM r", "SELECT sum(a) AS n FROM r"),
    ("SELECT a FROM r WHERE a IS NOT DISTINCT FROM b", "SELECT a FROM r WHERE a <=> b"),
    ("SELECT a FROM r LIMIT ALL", "SELECT a FROM r"),
    ("SELECT interval + 1 AS x FROM (SELECT a AS interval FROM r)", "SELECT `interval` + 1 AS x FROM (SELECT a AS `interval` FROM r)"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), GROUPS)
def test_keywords_keep_their_own_meaning(written: str, meant: str) -> None:
    assert bound(written).plan == bound(meant).plan


def test_a_select_list_that_spark_reads_otherwise_is_refused_by_name() -> None:
    same = [("all", "int"), ("n", "bigint")]
    _refuse_if_read_otherwise(same, [("ALL", "a"), ("n", "n")])
    _refuse_if_read_otherwise([("count(1)", "bigint")], [("count(*)", "n")])
    for ours in ([("n", "n")], [("city", "c"), ("n", "n")]):
        with pytest.raises(Unsupported, match="two ways") as caught:
            _refuse_if_read_otherwise(same, ours)
        assert "Spark shows all, n" in caught.value.detail


DEEP = ["+".join(["a"] * 3000), "(" * 900 + "a" + ")" * 900, " OR ".join(["a = 1"] * 3000)]


@pytest.mark.parametrize("value", DEEP, ids=["sum", "parentheses", "conditions"])
def test_a_query_that_nests_too_deeply_is_refused(value: str) -> None:
    with pytest.raises(Unsupported, match="too deeply"):
        bound(f"SELECT {value} AS x FROM r")


CYCLES = ["w1 AS w2, w2 AS w1", "w1 AS w1", "w1 AS w2, w2 AS w3, w3 AS W2"]


@pytest.mark.parametrize("windows", CYCLES)
def test_cyclic_window(windows: str) -> None:
    with pytest.raises(Invalid, match="defined by itself"):
        bound(f"SELECT sum(a) OVER w1 AS s FROM r WINDOW {windows}")


@pytest.mark.spark
def test_the_keywords_are_all_of_sparks(spark: SparkSession) -> None:
    found = {row["keyword"].lower() for row in spark.sql("SELECT * FROM sql_keywords()").collect()}
    assert found <= set(KEYWORDS)
