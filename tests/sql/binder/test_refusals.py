"""What a view cannot be is refused by name, with its place in the text and what to write instead."""

from __future__ import annotations

import pytest

from belvedere.errors import BelvedereError, Invalid, Unsupported
from tests.sql.shop import bound

UNSUPPORTED = [
    ("SELECT a FROM r LATERAL VIEW explode(array(1)) z AS q", "LATERAL VIEW"),
    ("SELECT * FROM r, LATERAL (SELECT r.a)", "LATERAL"),
    ("SELECT * FROM r PIVOT (sum(b) FOR c IN ('x', 'y'))", "PIVOT"),
    ("SELECT a FROM r TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
    ("SELECT a FROM r VERSION AS OF 3", "time travel"),
    ("SELECT a FROM r TIMESTAMP AS OF '2024-01-01'", "time travel"),
    ("SELECT * FROM range(10)", "table function range"),
    ("SELECT * FROM VALUES (1, 2) AS v(a, b)", "VALUES"),
    ("SELECT 1 AS one", "SELECT without FROM"),
    ("WITH RECURSIVE q AS (SELECT 1) SELECT * FROM q", "RECURSIVE"),
    ("SELECT explode(tags) FROM odd", "explode()"),
    ("SELECT window(day, '1 day') FROM log", "window()"),
    ("SELECT info.* FROM odd", "star over a struct"),
    ("SELECT count(r.*) FROM r", "star inside"),
    ("SELECT DISTINCT ON (a) b FROM r", "DISTINCT ON"),
    ("SELECT a FROM r LIMIT 3", "LIMIT without ORDER BY"),
    ("SELECT a FROM r ORDER BY a OFFSET 3", "OFFSET without LIMIT"),
    ("SELECT a FROM r ORDER BY a LIMIT 1 + 1", "not a whole number"),
    ("SELECT a FROM r WHERE a = ANY (SELECT k FROM t)", "ANY"),
    ("SELECT a FROM r WHERE b > (SELECT max(d) FROM s WHERE s.a > r.a)", "other than an equality"),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE d IN (SELECT k FROM t WHERE x = r.b))",
        "more than one level out",
    ),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a UNION SELECT 1 FROM t)",
        "correlated set operation",
    ),
    (
        "SELECT a, (SELECT d FROM s WHERE s.a = r.a ORDER BY d LIMIT 1) AS d FROM r",
        "LIMIT in a correlated",
    ),
    ("SELECT a, (SELECT d + r.b FROM s WHERE s.a = r.a) AS d FROM r", "an outer column"),
    ("SELECT a, (SELECT sum(d + r.b) FROM s WHERE s.a = r.a) AS d FROM r", "an outer column"),
    (
        "SELECT r.a FROM r LEFT JOIN s ON r.a IN (SELECT k FROM t WHERE t.x = s.d)",
        "a subquery in ON that reads both sides",
    ),
    (
        "SELECT r.a FROM r LEFT ANTI JOIN s ON EXISTS (SELECT 1 FROM t WHERE k = d AND x = b)",
        "a subquery in ON that reads both sides",
    ),
    (
        "SELECT a, (SELECT count(*) + (SELECT max(k) FROM t) FROM s WHERE s.a = r.a) AS n FROM r",
        "combined with another subquery",
    ),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s JOIN t ON s.d = k LEFT JOIN r q ON q.a = r.b)",
        "enclosing query in ON",
    ),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM t LEFT JOIN (SELECT d FROM s WHERE s.a = r.a) ON d = k)",
        "enclosing query in ON",
    ),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM (SELECT count(*) AS n FROM s WHERE s.a = r.a) WHERE n = 0)",
        "a correlated aggregate in FROM",
    ),
    (
        "SELECT a FROM r WHERE EXISTS (SELECT 1 FROM (SELECT d + r.b AS z FROM s) AS q WHERE z > 1)",
        "an outer column in the SELECT list of a subquery in FROM",
    ),
    ("SELECT a FROM r UNION BY NAME SELECT d FROM s", "BY NAME"),
    ("SELECT sum(b) OVER (ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES) AS s FROM r", "EXCLUDE"),
    ("FROM r |> TABLESAMPLE (10 PERCENT)", "a pipe"),
    ("FROM r |> AS q |> SELECT q.a", "a pipe"),
    ("FROM r |> DROP c", "a pipe"),
    ("SELECT a >>> 1 AS z FROM r", "operator >>>"),
    ("SELECT * FROM (SELECT a FROM r) TABLESAMPLE (10 PERCENT) q", "TABLESAMPLE"),
    ("VALUES (1, 2)", "VALUES"),
    ("SELECT IDENTIFIER('a') FROM r", "IDENTIFIER"),
    ("SELECT a FROM IDENTIFIER('r')", "IDENTIFIER"),
    ("SELECT * EXCEPT (info.city) FROM odd", "EXCEPT of a field"),
    ("SELECT _metadata.file_path FROM r", "_metadata"),
    ("SELECT window.start FROM log GROUP BY window(day, '1 hour')", "window() over time"),
    ("SELECT count(*) AS n FROM log GROUP BY session_window(day, '1 hour')", "session_window()"),
    ("SELECT `__n` FROM odd", "starts with '__'"),
    ("SELECT sum(sum(b) OVER ()) OVER () AS s FROM r", "a window function inside another"),
]

NOT_REPEATABLE = [
    "rand()", "randn(3)", "random()", "uuid()", "current_timestamp", "current_timestamp()", "current_date", "current_date()",
    "now()", "localtimestamp", "localtimestamp()", "unix_timestamp()", "current_user", "current_user()", "user()", "session_user()",
    "monotonically_increasing_id()", "input_file_name()", "spark_partition_id()", "shuffle(array(1, 2))", "current_timezone()",
    "current_database()", "collect_list(a)", "collect_set(a)", "array_agg(a)", "first(a)", "last(a)", "any_value(a)", "max_by(a, b)",
    "min_by(a, b)", "mode(a)", "percentile_approx(a, 0.5)", "approx_percentile(a, 0.5)", "listagg(c)", "string_agg(c, ',')",
    "last_value(a) OVER (ORDER BY b)", "nth_value(a, 2) OVER (ORDER BY b)", "collect_list(a) OVER (PARTITION BY b)",
    "first_value(a) IGNORE NULLS OVER (ORDER BY b)",
]  # fmt: skip

INVALID = [
    ("SELECT lgo.a FROM r", "no column 'lgo.a'"),
    ("SELECT bb FROM r", "no column 'bb'"),
    ("SELECT a FROM vidoe", "no table 'vidoe'"),
    ("SELECT x.* FROM r", "no relation 'x'"),
    ("SELECT * EXCEPT (zz) FROM r", "no column 'zz'"),
    ("SELECT r.a FROM r JOIN s USING (zz)", "no column 'zz'"),
    ("SELECT a FROM r JOIN s ON r.a = s.a", "column 'a' is ambiguous"),
    ("SELECT a, count(*) AS n FROM r", "neither grouped nor aggregated"),
    ("SELECT b FROM r GROUP BY a", "neither grouped nor aggregated"),
    ("SELECT a FROM r GROUP BY a HAVING b > 1", "neither grouped nor aggregated"),
    ("SELECT a FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM s WHERE d = r.b)", "not grouped"),
    ("SELECT a FROM r WHERE sum(b) > 1", "an aggregate in WHERE"),
    ("SELECT sum(count(*)) AS n FROM r", "an aggregate inside an aggregate"),
    ("SELECT sum(b) AS s FROM r GROUP BY sum(b)", "an aggregate in GROUP BY"),
    ("SELECT grouping(a) AS g FROM r GROUP BY a", "grouping() without ROLLUP"),
    ("SELECT a FROM r GROUP BY 3", "GROUP BY position 3"),
    ("SELECT a FROM r ORDER BY 3 LIMIT 1", "ORDER BY position 3"),
    ("SELECT DISTINCT a FROM r ORDER BY b LIMIT 1", "SELECT DISTINCT does not show"),
    ("SELECT a FROM r UNION SELECT a, b FROM r", "UNION of queries with 1 and 2 columns"),
    ("SELECT a FROM r WHERE a IN (SELECT a, d FROM s)", "IN compares 1 values with 2 columns"),
    ("SELECT (SELECT a, d FROM s) AS x FROM r", "has 2 columns"),
    ("SELECT a FROM r AS q(x)", "1 column aliases for 3 columns"),
    ("SELECT sum(b) OVER w AS s FROM r", "no window 'w'"),
    ("SELECT a FROM r WHERE b = :limit", "a parameter in a view"),
]

NO_PLACE = [
    ("SELECT a, a FROM r", "two columns are named 'a'"),
    ("SELECT a, b AS A FROM r", "two columns are named 'A'"),
    ("", "there is no query"),
    ("SELECT a FROM r; SELECT b FROM r", "2 statements"),
    ("INSERT INTO r VALUES (1)", "not a SELECT"),
    ("DROP TABLE r", "not a SELECT"),
]

SYNTAX = [
    "SELECT a FROM",
    "SELECT a FROM (SELECT b FROM r",
    "SELECT a b c FROM r",
    "SELECT FROM WHERE",
    "SELECT 'a FROM r",
]


@pytest.mark.parametrize(("text", "what"), UNSUPPORTED)
def test_what_is_not_handled_is_named_with_its_place_and_a_way_out(text: str, what: str) -> None:
    with pytest.raises(Unsupported) as error:
        bound(text)
    assert what in error.value.message
    assert "line 1, column" in error.value.message
    assert error.value.hint


@pytest.mark.parametrize("value", NOT_REPEATABLE)
def test_what_would_not_come_out_the_same_is_refused(value: str) -> None:
    with pytest.raises(Unsupported) as error:
        bound(f"SELECT\n  {value} AS v FROM r")
    assert error.value.reason == "NOT_REPEATABLE"
    assert value.split("(")[0].lower() in error.value.message
    assert "line 2, column 3" in error.value.message
    assert error.value.detail
    assert error.value.hint


@pytest.mark.parametrize(("text", "what"), INVALID)
def test_a_mistake_is_named_with_its_place(text: str, what: str) -> None:
    with pytest.raises(Invalid) as error:
        bound(text)
    assert what in error.value.message
    assert "line 1, column" in error.value.message or "in the SELECT list" in error.value.message


@pytest.mark.parametrize(("text", "what"), NO_PLACE)
def test_a_text_that_is_no_definition_is_refused(text: str, what: str) -> None:
    with pytest.raises(Invalid) as error:
        bound(text)
    assert what in error.value.message


@pytest.mark.parametrize("text", SYNTAX)
def test_a_syntax_error_says_where_and_shows_no_innards(text: str) -> None:
    with pytest.raises(Invalid) as error:
        bound(text)
    shown = str(error.value)
    assert "<" not in shown
    assert "Token" not in shown
    assert "\x1b" not in shown
    assert "line 1" in shown


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("SELECT vidoe_id FROM video", "did you mean 'video_id'?"),
        ("SELECT v.ownr FROM video v", "did you mean 'owner'?"),
        ("SELECT a FROM vidoe", "did you mean 'video'?"),
        ("SELECT a FROM r JOIN s ON r.a = s.a", "write r.a or s.a"),
        ("SELECT zzzz FROM r", "existing: a, b, c"),
    ],
)
def test_a_mistake_comes_with_what_would_have_worked(text: str, near: str) -> None:
    with pytest.raises(Invalid) as error:
        bound(text)
    assert near in error.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, props, row_number() OVER (ORDER BY id) AS n FROM odd",
        "SELECT id, props FROM odd ORDER BY id LIMIT 2",
    ],
)
def test_ties_are_not_broken_by_a_type_without_order(text: str) -> None:
    with pytest.raises(BelvedereError, match="breaking ties by column 'props'"):
        bound(text)
