"""Statements on sketches.

    CREATE [OR REPLACE] SKETCH [IF NOT EXISTS] name ON query [PARTITION t BY column how …]
        how = [INTO n FRAGMENTS] [OF EQUAL WIDTH] | AT (bound, …)
    REFRESH SKETCH name [FULL]      DROP SKETCH [IF EXISTS] name
    SHOW SKETCHES                   DESCRIBE SKETCH name

The query ends where PARTITION stands outside parentheses and no BY follows: a window's PARTITION BY
is inside some.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from belvedere.sql.cursor import Cursor


@dataclass(frozen=True)
class Fragments:
    """How a table is to be cut: by which column, into how many, of equal width, or where."""

    table: str
    column: str
    count: int | None = None
    equal_width: bool = False
    bounds: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CreateSketch:
    """CREATE SKETCH; before its query, `lead` is as much blank space as text was."""

    name: str
    query: str
    fragments: tuple[Fragments, ...] = ()
    replace: bool = False
    if_not_exists: bool = False
    lead: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class RefreshSketch:
    """REFRESH SKETCH."""

    name: str
    full: bool = False


@dataclass(frozen=True)
class DropSketch:
    """DROP SKETCH."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class ShowSketches:
    """SHOW SKETCHES."""


@dataclass(frozen=True)
class DescribeSketch:
    """DESCRIBE SKETCH."""

    name: str


SketchStatement = CreateSketch | RefreshSketch | DropSketch | ShowSketches | DescribeSketch


def _create(c: Cursor, replace: bool = False) -> CreateSketch:
    if_not_exists = c.take("IF NOT EXISTS")
    if replace and if_not_exists:
        raise c.wrong("OR REPLACE and IF NOT EXISTS exclude each other", hint="keep one of them")
    name = c.name("the sketch's name")
    c.expect("ON")
    c.single()
    start = c.offset
    while not c.done and not _cuts(c):
        c.skip_parentheses()
    query = c.text[start : c.offset].strip()
    if not query:
        raise c.wrong("expected a query", hint="write CREATE SKETCH name ON SELECT … PARTITION …")
    fragments = []
    while not c.done:
        fragments.append(_fragments(c))
        c.take(",")
    lead = re.sub(r"\S", " ", c.text[:start])
    return CreateSketch(name, query, tuple(fragments), replace, if_not_exists, lead)


def _cuts(c: Cursor) -> bool:
    return c.word() == "PARTITION" and c.word(1) != "BY"


def _fragments(c: Cursor) -> Fragments:
    c.expect("PARTITION")
    table = c.name("the name of a table that the query reads")
    c.expect("BY")
    column = ".".join(c.parts("the column that the table is cut by"))
    if c.take("AT"):
        return Fragments(table, column, bounds=_bounds(c))
    count = None
    if c.take("INTO"):
        count = _count(c)
        c.expect("FRAGMENTS")
    return Fragments(table, column, count, equal_width=c.take("OF EQUAL WIDTH"))


def _count(c: Cursor) -> int:
    word = c.word()
    if not word.isdigit():
        raise c.wrong("expected how many fragments", hint="as in INTO 1000 FRAGMENTS")
    if int(word) == 0:
        raise c.wrong("a table is cut into at least one fragment")
    c.skip()
    return int(word)


def _bounds(c: Cursor) -> tuple[str, ...]:
    c.expect("(")
    found = []
    while not c.take(")"):
        found.append(_bound(c))
        if not c.take(",") and c.word() != ")":
            raise c.wrong("expected , or ) after a bound")
    if not found:
        raise c.wrong("expected bounds", hint="as in AT (100, 200) or AT ('2026-01-01')")
    return tuple(found)


def _bound(c: Cursor) -> str:
    for word in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        if c.word() == word:
            c.skip()
    if c.at_string():
        return c.string()
    sign = "-" if c.take("-") else ""
    word = c.word()
    if not word or not (word[0].isdigit() or word[0] == "."):
        raise c.wrong("expected a bound", hint="as in AT (100, 200) or AT ('2026-01-01')")
    c.skip()
    return sign + word


def _name(c: Cursor) -> str:
    name = c.name("a sketch's name")
    c.end()
    return name


def _refresh(c: Cursor) -> RefreshSketch:
    name = c.name("a sketch's name")
    full = c.take("FULL")
    c.end()
    return RefreshSketch(name, full)


def _drop(c: Cursor) -> DropSketch:
    if_exists = c.take("IF EXISTS")
    return DropSketch(_name(c), if_exists)


def _show(c: Cursor) -> ShowSketches:
    c.end()
    return ShowSketches()


def _describe(c: Cursor) -> DescribeSketch:
    return DescribeSketch(_name(c))


SKETCHES: dict[str, Callable[[Cursor], SketchStatement]] = {
    "CREATE SKETCH": _create,
    "CREATE OR REPLACE SKETCH": partial(_create, replace=True),
    "REFRESH SKETCH": _refresh,
    "DROP SKETCH": _drop,
    "SHOW SKETCHES": _show,
    "DESCRIBE SKETCH": _describe,
    "DESC SKETCH": _describe,
}
"""Behind which words each begins, and what reads it."""
