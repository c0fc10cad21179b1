"""Comments, strings and quoted names never change what a statement is, does or names.

Every statement is written twice: its tokens with one space between them, and with random space and
comments, which hold keywords, quotes and semicolons. Strings and names are drawn, too.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.errors import BelvedereError, Invalid
from belvedere.sql.parse import parse_query
from belvedere.sql.places import place
from belvedere.sql.statements.cursor import tokenize, without_comments
from belvedere.sql.statements.parser import parse_statement, split_statements
from belvedere.sql.statements.updatable_views import ExplainWrite, side_effects_allowed

QUERY = "SELECT a , {s} AS {n} FROM t WHERE b = {s} AND {n} > 1"
STATEMENTS = [
    "CREATE MATERIALIZED VIEW {n} COMMENT {s} REFRESH POLICY INCREMENTAL STRICT AS " + QUERY,
    "CREATE OR REPLACE MATERIALIZED VIEW {n} TBLPROPERTIES ( {s} = {s} ) AS " + QUERY,
    "EXPLAIN CREATE MATERIALIZED VIEW {n} AS " + QUERY,
    "REFRESH MATERIALIZED VIEW {n} FULL",
    "REFRESH TABLE {n}",
    "REFRESH {n}",
    "EXPLAIN MATERIALIZED VIEW {n}",
    "SHOW MATERIALIZED VIEWS",
    "DESCRIBE MATERIALIZED VIEW {n}",
    "DROP MATERIALIZED VIEW IF EXISTS {n}",
    "ALTER MATERIALIZED VIEW {n} SET REFRESH POLICY FULL",
    "ALTER MATERIALIZED VIEW {n} SET RESPONSE LIMIT 5 SECONDS",
    "CREATE SAMPLE ON {n} RATIO 10 PERCENT SEED 3 BY ( {n} ) OUTLIERS ON {n} . {n} TOP 5",
    "CLEAN SAMPLE ON {n}",
    "DROP SAMPLE IF EXISTS ON {n}",
    "ESTIMATE CONFIDENCE 90 PERCENT METHOD AQP WITHOUT CLEANING " + QUERY,
    "CREATE SKETCH {n} ON " + QUERY + " PARTITION {n} BY {n} AT ( {s} , 5 ) BUFFER 64 VALUES",
    "REFRESH SKETCH {n} FULL",
    "DROP SKETCH {n}",
    "CREATE SYNOPSIS {n} SAMPLE 100 ROWS WITH REPLACEMENT AS " + QUERY,
    "EXPLAIN SYNOPSIS {n}",
    "CREATE UPDATABLE VIEW {n} ROOT {n} CANDIDATES 5 PERCENT LOOKUPS IN TABLES WITH SUMMARY AS "
    + QUERY,
    "DROP UPDATABLE VIEW IF EXISTS {n}",
    "EXPLAIN DELETE FROM {n} WHERE a = {s} WITH SIDE EFFECTS ALLOWED",
    "EXPLAIN INSERT INTO {n} VALUES ( {s} )",
    "EXPLAIN UPDATE {n} SET a = {s}",
    "DELETE FROM {n} WHERE a = {s} WITH SIDE EFFECTS ALLOWED",
    "UPDATE {n} SET {n} = {s}",
    "INSERT INTO TABLE {n} SELECT {s}",
    "MERGE INTO {n} USING u ON {n} = b WHEN MATCHED THEN DELETE",
    "WITH {n} AS ( SELECT {s} ) INSERT INTO {n} SELECT * FROM {n}",
    "FROM {n} INSERT INTO {n} SELECT {s} INSERT INTO {n} SELECT a",
    "CREATE TABLE IF NOT EXISTS {n} ( a INT )",
    "CREATE OR REPLACE TABLE {n} AS " + QUERY,
    "DROP TABLE IF EXISTS {n}",
    "DROP SCHEMA {n} CASCADE",
    "TRUNCATE TABLE {n}",
    "ALTER TABLE {n} DROP COLUMN ( {n} , {n} )",
    "ALTER TABLE {n} RENAME COLUMN {n} TO {n}",
    "ALTER TABLE {n} SET TBLPROPERTIES ( {s} = {s} )",
    QUERY,
]
WORDS = [
    *(
        "WITH SIDE EFFECTS ALLOWED",
        "EXPLAIN",
        ";",
        "'",
        '"',
        "`",
        "--",
        "DROP TABLE t",
        "AS SELECT 1",
    ),
    *(
        "BEGIN",
        "CASE",
        "belvedere.refreshes",
        "PARTITION t BY a",
        "BUFFER 5",
        "FULL",
        "it's",
        "/",
        "*",
    ),
]
inside = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)


def line_comment(text: str) -> str:
    return f"--{text}\n"


def continued_comment(text: str) -> str:
    return f"--{text} \\\n{text}\n"


def block_comment(text: str) -> str:
    return f"/* {text} */"


def nested_comment(text: str) -> str:
    return f"/*/* {text} */ {text}\n */"


COMMENTS = (line_comment, continued_comment, block_comment, nested_comment)
space = st.sampled_from([" ", "\n", "\t", " \r\n "])
comment = st.builds(lambda make, text: make(text), st.sampled_from(COMMENTS), inside)
gap = st.builds(
    lambda first, notes, last: first + "".join(notes) + last,
    space,
    st.lists(comment, max_size=2),
    space,
)
string = st.one_of(
    inside.map(lambda text: "'" + text.replace("'", "\\'") + "'"),
    inside.map(lambda text: "'" + text.replace("'", "''") + "'"),
    inside.map(lambda text: '"' + text.replace('"', '\\"') + '"'),
    inside.map(lambda text: "r'" + text.replace("'", "") + "\\'"),
)
name = st.one_of(
    st.sampled_from(["v", "t1", "größe", "full", "as_of", "explain"]),
    inside.map(lambda text: "`n" + text.replace("`", "``") + "`"),
)


@st.composite
def written_twice(draw: st.DrawFn, statements: list[str] = STATEMENTS) -> tuple[str, str]:
    """One statement plainly, and with comments between its tokens."""
    drawn = {"{n}": name, "{s}": string}
    tokens = [
        draw(drawn[token]) if token in drawn else token
        for token in draw(st.sampled_from(statements)).split()
    ]
    noisy = "".join(draw(gap) + token for token in tokens) + draw(gap)
    return " ".join(tokens), noisy


def meaning(value: Any) -> Any:
    """A statement with the tokens of its texts, since spaces and comments in these may differ."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}
        texts = {"query", "text"} & fields.keys()
        return type(value), {k: tokens(v) if k in texts else meaning(v) for k, v in fields.items()}
    return value


def tokens(text: str) -> list[tuple[Any, str]]:
    found, readable = tokenize(text)
    assert readable
    return [(t.token_type, t.text) for t in found]


@given(written_twice())
def test_comments_change_nothing(pair: tuple[str, str]) -> None:
    plain, noisy = pair
    parsed = parse_statement(noisy)
    assert meaning(parsed) == meaning(parse_statement(plain))
    lead = getattr(parsed, "lead", "")
    assert not lead.strip()
    assert noisy[len(lead) :].startswith(getattr(parsed, "query", "") if lead else "")


@given(written_twice(), st.booleans())
def test_only_the_words_at_the_end_allow_side_effects(
    pair: tuple[str, str], explained: bool
) -> None:
    plain, noisy = pair
    parsed = parse_statement(noisy)
    text = parsed.text if explained and isinstance(parsed, ExplainWrite) else noisy
    rest, allowed = side_effects_allowed(text)
    assert allowed == plain.endswith("WITH SIDE EFFECTS ALLOWED")
    assert tokens(text)[: -4 if allowed else None] == tokens(rest)


@given(st.lists(written_twice(), max_size=4))
def test_a_script_splits_where_its_statements_end(pairs: list[tuple[str, str]]) -> None:
    script = ";".join(noisy for _, noisy in pairs)
    assert list(map(tokens, split_statements(script))) == [tokens(plain) for plain, _ in pairs]


@given(written_twice([QUERY]))
def test_a_query_is_parsed_as_without_its_comments(pair: tuple[str, str]) -> None:
    plain, noisy = pair
    assert outcome(noisy) == outcome(plain)


def outcome(text: str) -> object:
    try:
        return parse_query(text)
    except BelvedereError as error:
        return error.message.partition(" at line")[0]


@given(written_twice())
def test_without_comments_every_token_keeps_its_place(pair: tuple[str, str]) -> None:
    _, noisy = pair
    blanked = without_comments(noisy)
    assert len(blanked) == len(noisy)
    assert all(a == b or b.isspace() for a, b in zip(noisy, blanked, strict=True))
    assert tokens(blanked) == tokens(noisy)


@pytest.mark.parametrize("text", ["SELECT 1 /* open", "SELECT 1 /*/* a */", "/* 'a' */ /* b"])
def test_an_open_comment_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not closed"):
        split_statements(text)


def test_a_place_is_never_in_a_comment_or_a_string() -> None:
    text = "-- LIMIT\nSELECT 'LIMIT', a /* LIMIT */ FROM t LIMIT ALL"
    [limit] = [node for node in parse_query(text).walk() if node.key == "limit"]
    for node in limit.walk():
        node.meta.clear()
    assert place(text, limit, "limit") == "line 2, column 38"
