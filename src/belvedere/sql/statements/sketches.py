"""Statements on sketches.

    CREATE [OR REPLACE] SKETCH [IF NOT EXISTS] name ON query [PARTITION t BY column how …]
        [BUFFER m VALUES] [KEPT LOOSELY];  how = [INTO n FRAGMENTS] [OF EQUAL WIDTH] | AT (bound, …)
    REFRESH SKETCH name [FULL]      DROP SKETCH [IF EXISTS] name
    SHOW SKETCHES                   DESCRIBE SKETCH name
    CLUSTER SKETCH name

The query ends where PARTITION stands outside parentheses and no BY follows (a window's PARTITION BY
is inside some), or before BUFFER with a number or KEPT LOOSELY, which are no SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from belvedere.sql.statements.cursor import Cursor
from belvedere.sql.statements.derivations import Noun, Verb, creation, lead, only_name, verbs

MOST_HELD = 4096
"""How many values of a group a buffer may be asked to hold."""


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
    """CREATE SKETCH; `lead` is blank space as long as the text before its query."""

    noun: ClassVar[Noun] = Noun.SKETCH
    name: str
    query: str
    fragments: tuple[Fragments, ...] = ()
    replace: bool = False
    if_not_exists: bool = False
    buffer: int | None = None
    """How many least or greatest values of a group are held."""
    loose: bool = False
    lead: str = field(default="", compare=False, repr=False)

    @property
    def may_exist(self) -> bool:
        """Whether a derivation of the noun may have the name already."""
        return self.replace or self.if_not_exists


@dataclass(frozen=True)
class ClusterSketch:
    """CLUSTER SKETCH."""

    name: str


SketchStatement = CreateSketch | ClusterSketch | Verb


def _create(c: Cursor, replace: bool = False) -> CreateSketch:
    name, if_not_exists = creation(c, "the sketch's name", replace=replace)
    c.expect("ON")
    c.single()
    start = c.offset
    while not c.done and not _cuts(c) and not _buffers(c) and not c.sees("KEPT LOOSELY"):
        c.skip_parentheses()
    query = c.text[start : c.offset].strip()
    if not query:
        raise c.wrong("expected a query", hint="write CREATE SKETCH name ON SELECT … PARTITION …")
    fragments = []
    while _cuts(c):
        fragments.append(_fragments(c))
        c.take(",")
    buffer = _buffer(c) if c.take("BUFFER") else None
    loose = c.take("KEPT LOOSELY")
    c.end()
    return CreateSketch(
        name, query, tuple(fragments), replace, if_not_exists, buffer, loose, lead(c, start)
    )


def _cuts(c: Cursor) -> bool:
    return c.word() == "PARTITION" and c.word(1) != "BY"


def _buffers(c: Cursor) -> bool:
    return c.word() == "BUFFER" and c.word(1).isdigit()


def _buffer(c: Cursor) -> int:
    count = _whole(c, "expected how many values are held", hint="as in BUFFER 64 VALUES")
    if not 1 <= count <= MOST_HELD:
        raise c.wrong(f"a buffer of {count} values", hint=f"hold 1 to {MOST_HELD}")
    c.expect("VALUES")
    return count


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
    count = _whole(c, "expected how many fragments", hint="as in INTO 1000 FRAGMENTS")
    if count == 0:
        raise c.wrong("a table is cut into at least one fragment")
    return count


def _whole(c: Cursor, missing: str, hint: str) -> int:
    word = c.word()
    if not word.isdigit():
        raise c.wrong(missing, hint=hint)
    c.skip()
    return int(word)


def _bounds(c: Cursor) -> tuple[str, ...]:
    c.expect("(")
    bounds = []
    while not c.take(")"):
        bounds.append(_bound(c))
        if not c.take(",") and c.word() != ")":
            raise c.wrong("expected , or ) after a bound")
    if not bounds:
        raise c.wrong("expected bounds", hint="as in AT (100, 200) or AT ('2026-01-01')")
    return tuple(bounds)


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


SKETCHES: dict[str, Callable[[Cursor], SketchStatement]] = {
    "CREATE SKETCH": _create,
    "CREATE OR REPLACE SKETCH": partial(_create, replace=True),
    **verbs(Noun.SKETCH),
    "CLUSTER SKETCH": lambda c: ClusterSketch(only_name(c, "a sketch's name")),
}
"""The leading keywords of each statement, and its parser."""
