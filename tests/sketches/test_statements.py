"""Statements on sketches: what they mean, and what is told of mistakes."""

from __future__ import annotations

import random

import pytest

from belvedere.errors import Invalid
from belvedere.sketches.costs import Costs
from belvedere.sql.statements.derivations import Describe, Drop, Noun, Refresh, Show
from belvedere.sql.statements.parser import parse_statement
from belvedere.sql.statements.sketches import ClusterSketch, CreateSketch, Fragments

QUERY = "SELECT a, sum(b) OVER (PARTITION BY a) FROM t"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"create sketch s on {QUERY}", CreateSketch("s", QUERY)),
        (
            f"CREATE OR REPLACE SKETCH s ON {QUERY} PARTITION t BY a INTO 10 FRAGMENTS;",
            CreateSketch("s", QUERY, (Fragments("t", "a", 10),), replace=True),
        ),
        (
            f"CREATE SKETCH IF NOT EXISTS s ON {QUERY} PARTITION t BY a INTO 5 FRAGMENTS OF EQUAL WIDTH, "
            "PARTITION u BY `b c` AT (-1, 2.5, 'x', DATE '2026-01-01')",
            CreateSketch(
                "s",
                QUERY,
                (
                    Fragments("t", "a", 5, equal_width=True),
                    Fragments("u", "b c", bounds=("-1", "2.5", "x", "2026-01-01")),
                ),
                if_not_exists=True,
            ),
        ),
        (
            f"CREATE SKETCH s ON {QUERY} PARTITION t BY a BUFFER 64 VALUES KEPT LOOSELY",
            CreateSketch("s", QUERY, (Fragments("t", "a"),), buffer=64, loose=True),
        ),
        (f"CREATE SKETCH s ON {QUERY} BUFFER 2 VALUES", CreateSketch("s", QUERY, buffer=2)),
        (f"CREATE SKETCH s ON {QUERY} KEPT LOOSELY", CreateSketch("s", QUERY, loose=True)),
        (
            "CREATE SKETCH s ON SELECT kept FROM buffer kept",
            CreateSketch("s", "SELECT kept FROM buffer kept"),
        ),
        ("CLUSTER SKETCH s", ClusterSketch("s")),
        ("REFRESH SKETCH s FULL", Refresh(Noun.SKETCH, "s", full=True)),
        ("DROP SKETCH IF EXISTS s", Drop(Noun.SKETCH, "s", if_exists=True)),
        ("SHOW SKETCHES", Show(Noun.SKETCH)),
        ("DESC SKETCH s", Describe(Noun.SKETCH, "s")),
    ],
)
def test_a_statement_is_read(text: str, wanted: object) -> None:
    assert parse_statement(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE SKETCH s", "expected ON"),
        ("CREATE SKETCH s ON PARTITION t BY a", "expected a query"),
        ("CREATE SKETCH s ON SELECT 1 PARTITION t", "expected BY"),
        ("CREATE SKETCH s ON SELECT 1 PARTITION t BY a INTO 0 FRAGMENTS", "at least one"),
        ("CREATE SKETCH s ON SELECT 1 PARTITION t BY a INTO many FRAGMENTS", "how many"),
        ("CREATE SKETCH s ON SELECT 1 PARTITION t BY a AT ()", "expected bounds"),
        ("CREATE SKETCH s ON SELECT 1 PARTITION t BY a AT (x)", "expected a bound"),
        ("CREATE OR REPLACE SKETCH IF NOT EXISTS s ON SELECT 1", "exclude"),
        ("CREATE SKETCH s ON SELECT 1 BUFFER 0 VALUES", "a buffer of 0"),
        ("CREATE SKETCH s ON SELECT 1 PARTITION t BY a BUFFER x VALUES", "how many values"),
        ("DROP SKETCH a b", "expected the end"),
    ],
)
def test_a_mistake_is_told(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse_statement(text)


def test_costs_are_learnt_and_say_where_capture_wins() -> None:
    costs = Costs().captured(10.0).maintained(10, 1.0)
    assert costs.break_even is None
    assert not costs.capture_pays(10**9)
    costs = costs.maintained(100_000, 2.0)
    assert costs.break_even == pytest.approx(900_000, rel=1e-3)
    assert not costs.capture_pays(900_000)
    assert costs.capture_pays(2_000_000)
    assert Costs.of(costs.to_json()) == costs


def test_the_line_through_noisy_costs_is_near_the_true_one() -> None:
    draw, costs = random.Random(5), Costs().captured(10.0)
    for _ in range(60):
        rows = draw.choice([10, 1000, 20_000, 200_000])
        costs = costs.maintained(rows, (0.05 + 1e-5 * rows) * draw.uniform(0.8, 1.2))
    assert costs.break_even == pytest.approx(995_000, rel=0.15)


def test_a_sketch_pays_by_what_its_queries_save() -> None:
    costs = Costs().captured(3.0).unused(2.0)
    assert costs.saved is None
    for _ in range(4):
        costs = costs.used(0.5)
    assert costs.saved == pytest.approx(4 * 1.5 - 3.0)
