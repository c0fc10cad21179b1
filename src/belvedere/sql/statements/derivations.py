"""What statements on derivations of any kind have in common: CREATE, REFRESH, DROP and the like."""

from __future__ import annotations

from belvedere.sql.statements.cursor import Cursor, blank


def creation(c: Cursor, what: str, *, replace: bool) -> tuple[str, bool]:
    """The name of what is created, and whether it may exist: after CREATE [OR REPLACE] …."""
    if_not_exists = c.take("IF NOT EXISTS")
    if replace and if_not_exists:
        raise c.wrong("OR REPLACE and IF NOT EXISTS exclude each other", hint="keep one of them")
    return c.name(what), if_not_exists


def only_name(c: Cursor, what: str) -> str:
    """A name, and then the end."""
    name = c.name(what)
    c.end()
    return name


def refreshed(c: Cursor, what: str) -> tuple[str, bool]:
    """REFRESH … name [FULL]."""
    name = c.name(what)
    full = c.take("FULL")
    c.end()
    return name, full


def dropped(c: Cursor, what: str) -> tuple[str, bool]:
    """DROP … [IF EXISTS] name."""
    if_exists = c.take("IF EXISTS")
    return only_name(c, what), if_exists


def lead(c: Cursor, start: int) -> str:
    """As much blank space as text is before a query, so that places in it stay what they are."""
    return blank(c.text[:start])
