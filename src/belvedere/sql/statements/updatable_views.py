"""Statements on updatable views; writes through one are Spark's statements with our target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from belvedere.sql.statements.cursor import Cursor
from belvedere.sql.statements.derivations import ExplainCreate, Noun, Verb, lead, verbs
from belvedere.sql.statements.spark import Write, WriteKind


@dataclass(frozen=True)
class CreateUpdatable:
    """CREATE UPDATABLE VIEW; `lead` is blank space as long as the text before its query."""

    noun: ClassVar[Noun] = Noun.UPDATABLE_VIEW
    name: str
    query: str
    root: str | None = None
    percent: float = 0.0
    candidates: int | None = None
    """Partial view rows whose base rows are candidates, where they are counted."""
    lookups: str | None = None
    """MEMORY or TABLES: where rows are looked up."""
    summary: bool = False
    """Whether the summary is kept in tables too, where rows are looked up there."""
    lead: str = field(default="", compare=False, repr=False)

    @property
    def may_exist(self) -> bool:
        """Whether a derivation of the noun may have the name already."""
        return False


@dataclass(frozen=True)
class ExplainWrite:
    """EXPLAIN of a write: ours if it goes through an updatable view, else Spark's."""

    write: Write
    text: str


UpdatableViewStatement = CreateUpdatable | ExplainCreate[CreateUpdatable] | Verb


def _create(c: Cursor) -> CreateUpdatable:
    name = c.name("the view's name")
    root, share, lookups, summary = None, None, None, False
    while not c.take("AS"):
        if root is None and c.take("ROOT"):
            root = c.name("a table of the view")
        elif share is None and c.take("CANDIDATES"):
            share = _candidates(c)
        elif lookups is None and c.take("LOOKUPS IN"):
            lookups = next((w for w in ("MEMORY", "TABLES") if c.take(w)), None)
            if lookups is None:
                raise c.wrong("expected MEMORY or TABLES")
            summary = lookups == "TABLES" and c.take("WITH SUMMARY")
        else:
            hint = (
                "write CREATE UPDATABLE VIEW name [ROOT table] [CANDIDATES n [PERCENT]]"
                " [LOOKUPS IN MEMORY | TABLES [WITH SUMMARY]] AS query"
            )
            raise c.wrong("expected AS and a query, or ROOT, CANDIDATES, LOOKUPS IN", hint)
    query, offset = c.rest("a query")
    percent, count = share or (0.0, None)
    space = lead(c, offset)
    return CreateUpdatable(name, query, root, percent, count, lookups, summary, space)


def _explain_create(c: Cursor) -> ExplainCreate[CreateUpdatable]:
    return ExplainCreate(_create(c))


def _candidates(c: Cursor) -> tuple[float, int | None]:
    """A share of the rows in percent, or a number of partial view rows."""
    word = c.word()
    try:
        number = float(word)
    except ValueError:
        raise c.wrong("expected a number of candidates, or of percent") from None
    c.skip()
    if c.take("PERCENT"):
        if not 0 <= number <= 100:
            raise c.wrong("expected a number from 0 to 100 before PERCENT")
        return number, None
    if number < 0 or number != int(number):
        raise c.wrong("expected a whole number of candidates, or PERCENT")
    return 0.0, int(number)


def _explain(c: Cursor, kind: WriteKind) -> ExplainWrite:
    return ExplainWrite(Write(kind, (c.name(),)), c.statement(after=1))


def side_effects_allowed(text: str) -> tuple[str, bool]:
    """A write through a view without WITH SIDE EFFECTS ALLOWED at its end, and whether that is there.

    >>> side_effects_allowed("DELETE FROM v WITH SIDE EFFECTS ALLOWED;")
    ('DELETE FROM v', True)
    >>> side_effects_allowed("DELETE FROM v -- WITH SIDE EFFECTS ALLOWED")[1]
    False
    """
    c = Cursor(text)
    c.single()
    allowed = c.take_last("WITH SIDE EFFECTS ALLOWED")
    return c.statement(), allowed


UPDATING: dict[str, Callable[[Cursor], UpdatableViewStatement]] = {
    "CREATE UPDATABLE VIEW": _create,
    "EXPLAIN CREATE UPDATABLE VIEW": _explain_create,
    **verbs(Noun.UPDATABLE_VIEW),
}

EXPLAINED: dict[str, Callable[[Cursor], ExplainWrite]] = {
    "EXPLAIN INSERT INTO": partial(_explain, kind=WriteKind.INSERT),
    "EXPLAIN UPDATE": partial(_explain, kind=WriteKind.UPDATE),
    "EXPLAIN DELETE FROM": partial(_explain, kind=WriteKind.DELETE),
}
