"""Places: where in the user's text a construct stands, for messages."""

from __future__ import annotations

from sqlglot import exp

from belvedere.sql.statements.cursor import position, tokenize


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
    tokens = tokenize(text)[0] if word else []
    same = (t.start for t in tokens if text[t.start : t.end + 1].upper() == word.upper())
    offset = next(same, None)
    return "position unknown" if offset is None else at_offset(text, offset)


def at_offset(text: str, offset: int) -> str:
    """`line L, column C` of a character, both from 1."""
    line, column = position(text, offset)
    return f"line {line}, column {column}"
