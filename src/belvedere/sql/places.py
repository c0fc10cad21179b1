"""Places: where in the user's text a construct stands, for messages."""

from __future__ import annotations

import re

from sqlglot import exp

from belvedere.sql.cursor import position


def place(text: str, node: exp.Expr, word: str = "") -> str:
    """`line L, column C` of a node, or of a word where the parser kept no position.

    >>> from sqlglot import parse_one
    >>> sql = "SELECT a,\\n  b FROM t"
    >>> place(sql, parse_one(sql).selects[1])
    'line 2, column 3'
    """
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    if starts:
        return at_offset(text, min(starts))
    found = re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) if word else None
    return at_offset(text, found.start()) if found else "position unknown"


def at_offset(text: str, offset: int) -> str:
    """`line L, column C` of a character, both from 1."""
    line, column = position(text, offset)
    return f"line {line}, column {column}"
