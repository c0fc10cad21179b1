"""Statements on synopses: samples of joins."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from belvedere.sql.cursor import Cursor

_SAMPLE = "write SAMPLE 10000 ROWS, SAMPLE 10000 ROWS WITH REPLACEMENT or SAMPLE 0.1 PERCENT"


@dataclass(frozen=True)
class CreateSynopsis:
    """CREATE SYNOPSIS … SAMPLE … AS SELECT …; a sample of rows or of a share of the join."""

    name: str
    query: str
    rows: int | None = None
    rate: float | None = None
    replacement: bool = False
    replace: bool = False
    if_not_exists: bool = False
    lead: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class RefreshSynopsis:
    """REFRESH SYNOPSIS."""

    name: str
    full: bool = False


@dataclass(frozen=True)
class ExplainSynopsis:
    """EXPLAIN SYNOPSIS."""

    name: str


@dataclass(frozen=True)
class DescribeSynopsis:
    """DESCRIBE SYNOPSIS."""

    name: str


@dataclass(frozen=True)
class ShowSynopses:
    """SHOW SYNOPSES."""


@dataclass(frozen=True)
class DropSynopsis:
    """DROP SYNOPSIS."""

    name: str
    if_exists: bool = False


SynopsisStatement = (
    CreateSynopsis
    | RefreshSynopsis
    | ExplainSynopsis
    | DescribeSynopsis
    | ShowSynopses
    | DropSynopsis
)


def _create(c: Cursor, replace: bool = False) -> CreateSynopsis:
    if_not_exists = c.take("IF NOT EXISTS")
    if replace and if_not_exists:
        raise c.wrong("OR REPLACE and IF NOT EXISTS exclude each other", hint="keep one of them")
    name = c.name("the synopsis' name")
    c.expect("SAMPLE")
    number = _number(c)
    rows, rate, replacement = None, None, False
    if c.take("PERCENT"):
        rate = number / 100
    elif c.take("ROWS") or c.take("ROW"):
        if number != int(number):
            raise c.wrong(f"a sample of {number:g} rows", hint=_SAMPLE)
        rows = int(number)
        replacement = c.take("WITH REPLACEMENT")
    else:
        raise c.wrong("expected ROWS or PERCENT", hint=_SAMPLE)
    c.expect("AS")
    query, offset = c.rest("a query")
    lead = re.sub(r"\S", " ", c.text[:offset])
    return CreateSynopsis(name, query, rows, rate, replacement, replace, if_not_exists, lead)


def _number(c: Cursor) -> float:
    try:
        number = float(c.word())
    except ValueError:
        raise c.wrong("expected a number", hint=_SAMPLE) from None
    c.skip()
    return number


def _refresh(c: Cursor) -> RefreshSynopsis:
    name = c.name("a synopsis' name")
    full = c.take("FULL")
    c.end()
    return RefreshSynopsis(name, full)


def _name(c: Cursor) -> str:
    name = c.name("a synopsis' name")
    c.end()
    return name


def _show(c: Cursor) -> ShowSynopses:
    c.end()
    return ShowSynopses()


def _drop(c: Cursor) -> DropSynopsis:
    if_exists = c.take("IF EXISTS")
    return DropSynopsis(_name(c), if_exists)


SYNOPSES: dict[str, Callable[[Cursor], SynopsisStatement]] = {
    "CREATE SYNOPSIS": _create,
    "CREATE OR REPLACE SYNOPSIS": partial(_create, replace=True),
    "REFRESH SYNOPSIS": _refresh,
    "EXPLAIN SYNOPSIS": lambda c: ExplainSynopsis(_name(c)),
    "DESCRIBE SYNOPSIS": lambda c: DescribeSynopsis(_name(c)),
    "DESC SYNOPSIS": lambda c: DescribeSynopsis(_name(c)),
    "SHOW SYNOPSES": _show,
    "DROP SYNOPSIS": _drop,
}
