"""Statements on synopses: samples of joins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from belvedere.sql.statements.cursor import Cursor
from belvedere.sql.statements.derivations import Noun, Verb, creation, lead, verbs

_SAMPLE = "write SAMPLE 10000 ROWS, SAMPLE 10000 ROWS WITH REPLACEMENT or SAMPLE 0.1 PERCENT"


@dataclass(frozen=True)
class CreateSynopsis:
    """CREATE SYNOPSIS … SAMPLE … AS SELECT …; a sample of rows or of a share of the join."""

    noun: ClassVar[Noun] = Noun.SYNOPSIS
    name: str
    query: str
    rows: int | None = None
    rate: float | None = None
    replacement: bool = False
    replace: bool = False
    if_not_exists: bool = False
    lead: str = field(default="", compare=False, repr=False)

    @property
    def may_exist(self) -> bool:
        """Whether a derivation of the noun may have the name already."""
        return self.replace or self.if_not_exists


SynopsisStatement = CreateSynopsis | Verb


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


SYNOPSES: dict[str, Callable[[Cursor], SynopsisStatement]] = {
    "CREATE SYNOPSIS": _create,
    "CREATE OR REPLACE SYNOPSIS": partial(_create, replace=True),
    **verbs(Noun.SYNOPSIS),
}
