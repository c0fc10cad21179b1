"""Statements on samples: what is understood, and where a mistake is."""

from __future__ import annotations

import pytest

from belvedere.errors import Invalid
from belvedere.sql.statements.derivations import Drop, Noun
from belvedere.sql.statements.parser import Statement, parse_statement
from belvedere.sql.statements.samples import CleanSample, CreateSample, Estimate, Index


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("CREATE SAMPLE ON visits RATIO 10 PERCENT", CreateSample("visits", 0.1)),
        (
            "create or replace sample on v ratio 2.5 percent seed 7 by (a, b) with stored leaves",
            CreateSample("v", 0.025, 7, ("a", "b"), None, True, True),
        ),
        (
            "CREATE SAMPLE ON v RATIO 1 PERCENT OUTLIERS ON log.bytes TOP 100 TWO SIDED",
            CreateSample("v", 0.01, outliers=Index("TOP", 100, "log", "bytes", True)),
        ),
        (
            "CREATE SAMPLE ON v RATIO 1 PERCENT OUTLIERS ON log.bytes BELOW -5",
            CreateSample("v", 0.01, outliers=Index("BELOW", -5, "log", "bytes")),
        ),
        (
            "CREATE SAMPLE ON v RATIO 1 PERCENT OUTLIERS ON a.log.bytes BEYOND 3 DEVIATIONS",
            CreateSample("v", 0.01, outliers=Index("BEYOND", 3, "a.log", "bytes")),
        ),
        (
            "CREATE SAMPLE ON v RATIO 1 PERCENT OUTLIERS AUTO",
            CreateSample("v", 0.01, outliers=Index("AUTO", 100)),
        ),
        ("CLEAN SAMPLE ON v", CleanSample("v")),
        ("DROP SAMPLE IF EXISTS ON v", Drop(Noun.SAMPLE, "v", True)),
        ("ESTIMATE SELECT sum(x) FROM v", Estimate("SELECT sum(x) FROM v")),
        (
            "ESTIMATE CONFIDENCE 99 PERCENT METHOD corr WITHOUT CLEANING SELECT 1",
            Estimate("SELECT 1", 0.99, "CORR", False),
        ),
    ],
)
def test_a_statement_is_understood(text: str, meant: Statement) -> None:
    assert parse_statement(text) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE SAMPLE visits RATIO 10 PERCENT", "expected ON"),
        ("CREATE SAMPLE ON visits", "expected RATIO"),
        ("CREATE SAMPLE ON visits RATIO ten PERCENT", "expected a percentage"),
        ("CREATE SAMPLE ON visits RATIO 10", "expected PERCENT"),
        ("CREATE SAMPLE ON v RATIO 1 PERCENT OUTLIERS ON bytes TOP 1", "expected table.column"),
        ("CREATE SAMPLE ON v RATIO 1 PERCENT OUTLIERS ON l.b MOST 1", "expected TOP k"),
        ("CREATE SAMPLE ON v RATIO 1 PERCENT AND MORE", "expected SEED"),
        ("ESTIMATE METHOD BEST SELECT 1", "expected a method"),
        ("ESTIMATE FASTER SELECT 1", "expected CONFIDENCE"),
    ],
)
def test_a_mistake_is_told(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_statement(text)


@pytest.mark.parametrize(
    "text", ["ON log.bytes TOP 5 TWO SIDED", "ON log.bytes BEYOND 3 DEVIATIONS", "AUTO TOP 9"]
)
def test_an_index_prints_as_it_is_written(text: str) -> None:
    statement = parse_statement(f"CREATE SAMPLE ON v RATIO 1 PERCENT OUTLIERS {text}")
    assert isinstance(statement, CreateSample)
    assert str(statement.outliers) == text
