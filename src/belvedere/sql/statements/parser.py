"""The parser of statements: Belvedere's own, and Spark's that a derivation must be asked about first.

`parse_statement` looks a statement's leading keywords up in two tables. In `_OURS`, whatever
follows must be right, or the error says where and what was expected. In `SPARKS`, the names are
read and the rest is Spark's to judge. Everything else is `Other` and goes to Spark untouched.

A new statement is a dataclass, a function of the cursor behind its keywords, and a line in the
table of its noun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from belvedere.errors import Invalid
from belvedere.sql.statements.cursor import Cursor, nearest, tokenize
from belvedere.sql.statements.samples import SAMPLES, SampleStatement
from belvedere.sql.statements.sketches import SKETCHES, SketchStatement
from belvedere.sql.statements.spark import SPARKS, SparkStatement
from belvedere.sql.statements.synopses import SYNOPSES, SynopsisStatement
from belvedere.sql.statements.updatable_views import (
    EXPLAINED,
    UPDATING,
    ExplainWrite,
    UpdatableViewStatement,
)
from belvedere.sql.statements.views import VIEWS, ViewStatement


@dataclass(frozen=True)
class Other:
    """Anything else, for Spark."""

    text: str


Statement = (
    ViewStatement
    | SampleStatement
    | SketchStatement
    | SynopsisStatement
    | UpdatableViewStatement
    | ExplainWrite
    | SparkStatement
    | Other
)


def parse_statement(text: str) -> Statement:
    """The statement that `text` is; a mistake in one of our own is Invalid, with its position.

    >>> parse_statement("refresh materialized view visits full")
    Refresh(noun=<Noun.VIEW: 'MATERIALIZED VIEW'>, name='visits', full=True)
    >>> parse_statement("SELECT 1")
    Other(text='SELECT 1')
    """
    cursor = Cursor(text)
    for phrase, parse in _OURS.items():
        if cursor.take(phrase):
            return parse(cursor)
    for phrase, read in (SPARKS | EXPLAINED).items():
        if cursor.take(phrase):
            statement = _if_understood(read, cursor)
            break
    else:
        statement = Other(text)
    if isinstance(statement, Other):
        _refuse_near_miss(Cursor(text))
    return statement


def split_statements(text: str) -> list[str]:
    """The statements of a script, split at semicolons outside quotes, comments and BEGIN … END.

    >>> split_statements("SELECT ';'; -- one; two\\nSHOW TABLES;")
    ["SELECT ';'", '-- one; two\\nSHOW TABLES']
    """
    tokens, readable = tokenize(text)
    if not readable:
        Cursor(text).single()
    pieces, start, depth, words = [], 0, 0, list[str]()
    for token in tokens:
        word = text[token.start : token.end + 1].upper()
        if word == ";" and depth == 0:
            pieces.append((start, token.start, words))
            start, words = token.end + 1, []
        else:
            words.append(word)
            depth += _block_step(words)
    pieces.append((start, len(text), words))
    return [text[begin:end].strip() for begin, end, words in pieces if words]


def _if_understood(parse: Callable[[Cursor], Statement], c: Cursor) -> Statement:
    """What `parse` makes of a statement of Spark's, which is not ours to refuse."""
    try:
        return parse(c)
    except Invalid:
        return Other(c.text)


def _refuse_near_miss(c: Cursor) -> None:
    """A statement about materialized views that none of ours matched gets our error, not Spark's."""
    for ahead in range(4):
        word, following = c.word(ahead), c.word(ahead + 1)
        if nearest(word, ["MATERIALIZED"]) and following and following != ".":
            hint = "write one of: " + ", ".join(
                f"{phrase} …" for phrase in _OURS if "MATERIALIZED" in phrase
            )
            raise c.wrong("not a statement on materialized views", hint)
        if word not in _LEADING:
            return


def _block_step(words: list[str]) -> int:
    """By how much a statement's last word opens (+1) or closes (-1) a BEGIN … END block."""
    if words[0] != "BEGIN":
        return 0
    word, before = words[-1], words[-2] if len(words) > 1 else ""
    if word == "END":
        return -1
    opens = {"IF", "WHILE", "LOOP", "REPEAT", "FOR"} if before == "END" else {"BEGIN", "CASE"}
    return 1 if word in opens else 0


_OURS: dict[str, Callable[[Cursor], Statement]] = {
    **VIEWS,
    **SAMPLES,
    **SKETCHES,
    **SYNOPSES,
    **UPDATING,
}

_LEADING = {word for phrase in _OURS for word in phrase.split()} - {"MATERIALIZED"}
