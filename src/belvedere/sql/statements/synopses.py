"""Statements on synopses: samples of joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from belvedere.sql.statements.cursor import Cursor
from belvedere.sql.statements.derivations import creation, dropped, lead, only_name, refreshed

_NAME = "a synopsis' name"
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
    name, if_not_exists = creation(c, "the synopsis' name", replace=replace)
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
    return CreateSynopsis(
        name, query, rows, rate, replacement, replace, if_not_exists, lead(c, offset)
    )


def _number(c: Cursor) -> float:
    try:
        number = float(c.word())
    except ValueError:
        raise c.wrong("expected a number", hint=_SAMPLE) from None
    c.skip()
    return number


def _show(c: Cursor) -> ShowSynopses:
    c.end()
    return ShowSynopses()


SYNOPSES: dict[str, Callable[[Cursor], SynopsisStatement]] = {
    "CREATE SYNOPSIS": _create,
    "CREATE OR REPLACE SYNOPSIS": partial(_create, replace=True),
    "REFRESH SYNOPSIS": lambda c: RefreshSynopsis(*refreshed(c, _NAME)),
    "EXPLAIN SYNOPSIS": lambda c: ExplainSynopsis(only_name(c, _NAME)),
    "DESCRIBE SYNOPSIS": lambda c: DescribeSynopsis(only_name(c, _NAME)),
    "DESC SYNOPSIS": lambda c: DescribeSynopsis(only_name(c, _NAME)),
    "SHOW SYNOPSES": _show,
    "DROP SYNOPSIS": lambda c: DropSynopsis(*dropped(c, _NAME)),
}
