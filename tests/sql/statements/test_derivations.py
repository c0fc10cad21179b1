"""REFRESH, EXPLAIN, SHOW, DESCRIBE and DROP are the same statements for every noun that has them."""

from __future__ import annotations

import pytest

from belvedere.errors import Invalid
from belvedere.sql.statements.derivations import (
    Describe,
    Drop,
    Explain,
    Noun,
    Refresh,
    Show,
    Verb,
)
from belvedere.sql.statements.parser import Other, parse_statement

STATEMENTS: list[tuple[Noun, str, Verb]] = [
    (noun, text.replace("NOUNS", plural).replace("NOUN", noun.value), statement)
    for noun, plural in [
        (Noun.VIEW, "MATERIALIZED VIEWS"),
        (Noun.SYNOPSIS, "SYNOPSES"),
        (Noun.SKETCH, "SKETCHES"),
        (Noun.UPDATABLE_VIEW, "UPDATABLE VIEWS"),
    ]
    for text, statement in [
        ("REFRESH NOUN a.`b c` FULL;", Refresh(noun, "a.`b c`", full=True)),
        ("refresh NOUN d", Refresh(noun, "d")),
        ("EXPLAIN NOUN d", Explain(noun, "d")),
        ("SHOW NOUNS", Show(noun)),
        ("DESCRIBE NOUN d", Describe(noun, "d")),
        ("desc NOUN d", Describe(noun, "d")),
        ("DROP NOUN IF EXISTS d", Drop(noun, "d", if_exists=True)),
        ("drop NOUN d -- once", Drop(noun, "d")),
    ]
]
MISSING = {
    Noun.SKETCH: {Explain},
    Noun.UPDATABLE_VIEW: {Refresh, Explain, Show, Describe},
}


@pytest.mark.parametrize(("noun", "text", "statement"), STATEMENTS)
def test_a_statement_is_the_same_for_every_noun_that_has_it(
    noun: Noun, text: str, statement: Verb
) -> None:
    if type(statement) in MISSING.get(noun, set()):
        assert parse_statement(text) == Other(text)
    else:
        assert parse_statement(text) == statement


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DROP SYNOPSIS", "expected a synopsis' name, found the end"),
        ("DROP SKETCH IF EXISTS", "expected a sketch's name, found the end"),
        ("DROP UPDATABLE VIEW u v", "expected the end of the statement, found 'v'"),
        ("SHOW SKETCHES s", "expected the end of the statement, found 's'"),
        ("REFRESH SYNOPSIS s FULLY", "expected the end of the statement, found 'FULLY'"),
        ("DESCRIBE MATERIALIZED VIEW", "expected a view's name, found the end"),
        ("DROP SAMPLE v", "expected ON, found 'v'"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(Invalid) as error:
        parse_statement(text)
    assert error.value.message == message
