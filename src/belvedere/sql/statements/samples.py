"""Statements on samples of views, and questions that are answered from them.

CREATE [OR REPLACE] SAMPLE ON view RATIO p PERCENT [SEED n] [BY (column, …)]
    [OUTLIERS ON table.column {TOP k | ABOVE x | BELOW x | BEYOND c DEVIATIONS} [TWO SIDED]
    | OUTLIERS AUTO [TOP k]] [WITH STORED LEAVES]
CLEAN SAMPLE ON view
DROP SAMPLE [IF EXISTS] ON view
ESTIMATE [CONFIDENCE p PERCENT] [METHOD AUTO | AQP | CORR] [WITHOUT CLEANING] SELECT …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from belvedere.sql.statements.cursor import Cursor, dotted
from belvedere.sql.statements.derivations import Noun, Verb, only_name, verbs


@dataclass(frozen=True)
class Index:
    """Which records are outliers: a table's column and a rule, or AUTO with the view's own rows."""

    rule: str
    amount: float
    table: str = ""
    column: str = ""
    two_sided: bool = False

    def __str__(self) -> str:
        where = f"ON {self.table}.{self.column} " if self.table else "AUTO "
        rule = "" if self.rule == "AUTO" else f"{self.rule} "
        after = " DEVIATIONS" if self.rule == "BEYOND" else ""
        lead = "TOP " if self.rule == "AUTO" else rule
        return f"{where}{lead}{self.amount:g}{after}{' TWO SIDED' if self.two_sided else ''}"


@dataclass(frozen=True)
class CreateSample:
    """CREATE SAMPLE."""

    view: str
    ratio: float
    seed: int = 0
    by: tuple[str, ...] = ()
    outliers: Index | None = None
    leaves: bool = False
    replace: bool = False


@dataclass(frozen=True)
class CleanSample:
    """CLEAN SAMPLE."""

    view: str


@dataclass(frozen=True)
class Estimate:
    """ESTIMATE."""

    query: str
    confidence: float = 0.95
    method: str = "AUTO"
    clean: bool = True


SampleStatement = CreateSample | CleanSample | Estimate | Verb

AUTO_ROWS = 100
"""How many of a view's own rows are outliers by themselves."""


def _create(c: Cursor, replace: bool = False) -> CreateSample:
    c.expect("ON")
    view = c.name("a view's name")
    c.expect("RATIO")
    ratio = c.number("a percentage") / 100
    c.expect("PERCENT")
    seed, by, outliers, leaves = 0, tuple[str, ...](), None, False
    while not c.done:
        if c.take("SEED"):
            seed = int(c.number("a whole number"))
        elif not by and c.take("BY ("):
            by = _columns(c)
        elif outliers is None and c.take("OUTLIERS"):
            outliers = _index(c)
        elif not leaves and c.take("WITH STORED LEAVES"):
            leaves = True
        else:
            raise c.wrong("expected SEED, BY (…), OUTLIERS, WITH STORED LEAVES or the end")
    c.end()
    return CreateSample(view, ratio, seed, by, outliers, leaves, replace)


def _columns(c: Cursor) -> tuple[str, ...]:
    names = [c.name("a column")]
    while c.take(","):
        names.append(c.name("a column"))
    c.expect(")")
    return tuple(names)


def _index(c: Cursor) -> Index:
    if c.take("AUTO"):
        return Index("AUTO", c.number("a count") if c.take("TOP") else AUTO_ROWS)
    c.expect("ON")
    *table, column = c.parts("a table's column, as in log.bytes")
    if not table:
        raise c.wrong(
            "expected table.column before this", hint="as in OUTLIERS ON log.bytes TOP 100"
        )
    rule = next((r for r in ("TOP", "ABOVE", "BELOW", "BEYOND") if c.take(r)), None)
    if rule is None:
        raise c.wrong("expected TOP k, ABOVE x, BELOW x or BEYOND c DEVIATIONS")
    amount = c.number("a number")
    if rule == "BEYOND":
        c.expect("DEVIATIONS")
    sides = rule in ("TOP", "BEYOND") and c.take("TWO SIDED")
    return Index(rule, amount, dotted(table), column, sides)


def _clean(c: Cursor) -> CleanSample:
    c.expect("ON")
    return CleanSample(only_name(c, "a view's name"))


def _estimate(c: Cursor) -> Estimate:
    confidence, method, clean = 0.95, "AUTO", True
    while not (c.sees("SELECT") or c.sees("WITH") or c.sees("(")):
        if c.take("CONFIDENCE"):
            confidence = c.number("a percentage") / 100
            c.expect("PERCENT")
        elif c.take("METHOD"):
            method = next((m for m in ("AUTO", "AQP", "CORR") if c.take(m)), "")
            if not method:
                raise c.wrong("expected a method", hint="the methods are AUTO, AQP and CORR")
        elif c.take("WITHOUT CLEANING"):
            clean = False
        else:
            raise c.wrong("expected CONFIDENCE, METHOD, WITHOUT CLEANING or a SELECT")
    query, _ = c.rest("a query")
    return Estimate(query, confidence, method, clean)


SAMPLES: dict[str, Callable[[Cursor], SampleStatement]] = {
    "CREATE SAMPLE": _create,
    "CREATE OR REPLACE SAMPLE": partial(_create, replace=True),
    "CLEAN SAMPLE": _clean,
    **verbs(Noun.SAMPLE),
    "ESTIMATE": _estimate,
}
