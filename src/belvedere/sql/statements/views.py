"""Belvedere's own statements, and Spark's that a view must be asked about first.

`parse_statement` looks a statement's leading keywords up in two tables. In `_OURS`, whatever
follows must be right, or the error says where and what was expected. In `SPARKS`, the names are
read and the rest is Spark's to judge. Everything else is `Other` and goes to Spark untouched.

A new statement is a dataclass, a function of the cursor behind its keywords, and a line in `_OURS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from belvedere.errors import Invalid, Unsupported
from belvedere.sql.statements.cursor import (
    Cursor,
    Properties,
    dotted,
    name_parts,
    nearest,
    tokenize,
)
from belvedere.sql.statements.derivations import lead
from belvedere.sql.statements.samples import SAMPLES, SampleStatement
from belvedere.sql.statements.sketches import SKETCHES, SketchStatement
from belvedere.sql.statements.spark import (
    SPARKS,
    ChangeKind,
    CreateSchema,
    CreateTable,
    DropSchema,
    DropTable,
    RefreshTable,
    SparkStatement,
    TableChange,
    Write,
    WriteKind,
)
from belvedere.sql.statements.synopses import SYNOPSES, SynopsisStatement
from belvedere.sql.statements.updatable_views import (
    EXPLAINED,
    UPDATING,
    CreateUpdatable,
    DropUpdatable,
    ExplainUpdatable,
    ExplainWrite,
)

__all__ = [
    "AlterLimit",
    "AlterPolicy",
    "ChangeKind",
    "CreateSchema",
    "CreateTable",
    "CreateUpdatable",
    "CreateView",
    "DescribeView",
    "DropSchema",
    "DropTable",
    "DropUpdatable",
    "DropView",
    "ExplainCreate",
    "ExplainUpdatable",
    "ExplainView",
    "ExplainWrite",
    "Other",
    "Policy",
    "Refresh",
    "RefreshTable",
    "ShowViews",
    "Statement",
    "TableChange",
    "Write",
    "WriteKind",
    "dotted",
    "name_parts",
    "parse_statement",
    "split_statements",
]


class Policy(Enum):
    """How a view wants to be refreshed."""

    AUTO = "AUTO"
    INCREMENTAL = "INCREMENTAL"
    STRICT = "INCREMENTAL STRICT"
    FULL = "FULL"


@dataclass(frozen=True)
class CreateView:
    """CREATE MATERIALIZED VIEW; before its query, `lead` is as much blank space as text was."""

    name: str
    query: str
    policy: Policy = Policy.AUTO
    replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    properties: Properties = ()
    lead: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Refresh:
    """REFRESH MATERIALIZED VIEW."""

    name: str
    full: bool = False


@dataclass(frozen=True)
class ExplainCreate:
    """EXPLAIN of a view that does not exist yet."""

    create: CreateView


@dataclass(frozen=True)
class ExplainView:
    """EXPLAIN of an existing view."""

    name: str


@dataclass(frozen=True)
class ShowViews:
    """SHOW MATERIALIZED VIEWS."""


@dataclass(frozen=True)
class DescribeView:
    """DESCRIBE MATERIALIZED VIEW."""

    name: str


@dataclass(frozen=True)
class DropView:
    """DROP MATERIALIZED VIEW."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class AlterPolicy:
    """ALTER MATERIALIZED VIEW … SET REFRESH POLICY."""

    name: str
    policy: Policy


@dataclass(frozen=True)
class AlterLimit:
    """ALTER MATERIALIZED VIEW … SET RESPONSE LIMIT; None is no limit."""

    name: str
    seconds: float | None


@dataclass(frozen=True)
class Other:
    """Anything else, for Spark."""

    text: str


Statement = (
    CreateView
    | Refresh
    | ExplainCreate
    | ExplainView
    | ShowViews
    | DescribeView
    | DropView
    | AlterPolicy
    | SampleStatement
    | SketchStatement
    | AlterLimit
    | SynopsisStatement
    | CreateUpdatable
    | DropUpdatable
    | ExplainUpdatable
    | ExplainWrite
    | SparkStatement
    | Other
)


def parse_statement(text: str) -> Statement:
    """The statement that `text` is; a mistake in one of our own is Invalid, with its position.

    >>> parse_statement("refresh materialized view visits full")
    Refresh(name='visits', full=True)
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


def _create_view(c: Cursor, replace: bool = False) -> CreateView:
    if_not_exists = c.take("IF NOT EXISTS")
    if replace and if_not_exists:
        raise c.wrong("OR REPLACE and IF NOT EXISTS exclude each other", hint="keep one of them")
    if c.sees("AS"):
        raise c.wrong("expected the view's name")
    name = c.name("the view's name")
    comment, policy, properties = None, None, None
    while not c.take("AS"):
        if comment is None and c.take("COMMENT"):
            comment = c.string()
        elif policy is None and c.take("REFRESH POLICY"):
            policy = _policy(c)
        elif properties is None and c.take("TBLPROPERTIES"):
            properties = c.properties()
        else:
            raise _no_clause(c)
    query, offset = c.rest("a query")
    return CreateView(
        name,
        query,
        policy or Policy.AUTO,
        replace,
        if_not_exists,
        comment,
        properties or (),
        lead(c, offset),
    )


def _no_clause(c: Cursor) -> Invalid | Unsupported:
    # The tokenizer takes some pairs of words, as CLUSTER BY, for one.
    written = " ".join(f"{c.word()} {c.word(1)}".split())
    for phrase, hint in _OTHER_CLAUSES.items():
        if f"{written} ".startswith(f"{phrase} "):
            what = "a column list" if phrase == "(" else phrase
            message = f"{what} in CREATE MATERIALIZED VIEW is not supported"
            return Unsupported(message, detail=c.place(), hint=hint, reason="VIEW_CLAUSE")
    hint = "write CREATE MATERIALIZED VIEW name [COMMENT '…'] [REFRESH POLICY …] AS query"
    return c.wrong("expected AS and a query, or COMMENT, REFRESH POLICY, TBLPROPERTIES", hint)


def _policy(c: Cursor) -> Policy:
    for policy in (Policy.STRICT, Policy.INCREMENTAL, Policy.AUTO, Policy.FULL):
        if c.take(policy.value):
            return policy
    names = [policy.value for policy in Policy]
    close = nearest(c.word(), names)
    hint = f"the policies are {', '.join(names)}" + (f"; did you mean {close}?" if close else "")
    raise c.wrong("expected a refresh policy", hint)


def _refresh(c: Cursor) -> Refresh:
    name = c.name("a view's name")
    full = c.take("FULL")
    c.end()
    return Refresh(name, full)


def _explain_create(c: Cursor, replace: bool = False) -> ExplainCreate:
    return ExplainCreate(_create_view(c, replace))


def _show(c: Cursor) -> ShowViews:
    c.end()
    return ShowViews()


def _explain(c: Cursor) -> ExplainView:
    return ExplainView(_last_name(c))


def _describe(c: Cursor) -> DescribeView:
    return DescribeView(_last_name(c))


def _drop_view(c: Cursor) -> DropView:
    if_exists = c.take("IF EXISTS")
    return DropView(_last_name(c), if_exists)


def _last_name(c: Cursor) -> str:
    name = c.name("a view's name")
    c.end()
    return name


def _alter(c: Cursor) -> AlterPolicy | AlterLimit:
    name = c.name("a view's name")
    limited = c.take("SET RESPONSE LIMIT")
    if not limited and (other := _other_alteration(c)):
        raise other
    if not limited and not c.take("SET REFRESH POLICY"):
        raise c.wrong("expected SET REFRESH POLICY or SET RESPONSE LIMIT")
    made = AlterLimit(name, _limit(c)) if limited else AlterPolicy(name, _policy(c))
    c.end()
    return made


def _other_alteration(c: Cursor) -> Unsupported | None:
    """The error for an alteration that other systems know."""
    for phrase, hint in _NOT_ALTERED.items():
        if c.sees(phrase):
            message = f"ALTER MATERIALIZED VIEW … {phrase} is not supported"
            return Unsupported(message, detail=c.place(), hint=hint, reason="ALTER_VIEW")
    return None


def _limit(c: Cursor) -> float | None:
    """A time with its unit, or NONE."""
    if c.take("NONE"):
        return None
    hint = "write SET RESPONSE LIMIT 5 SECONDS, 500 MILLISECONDS, 2 MINUTES, or NONE"
    try:
        number = float(c.word())
    except ValueError:
        raise c.wrong("expected a number, or NONE", hint) from None
    if not 0 < number < float("inf"):
        raise c.wrong("a limit is longer than nothing", hint)
    c.skip()
    for unit, seconds in _UNITS.items():
        if c.take(unit) or c.take(f"{unit}S"):
            return number * seconds
    raise c.wrong("expected a unit of time", hint)


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
    "CREATE MATERIALIZED VIEW": _create_view,
    "CREATE OR REPLACE MATERIALIZED VIEW": partial(_create_view, replace=True),
    "REFRESH MATERIALIZED VIEW": _refresh,
    "EXPLAIN CREATE MATERIALIZED VIEW": _explain_create,
    "EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW": partial(_explain_create, replace=True),
    "EXPLAIN MATERIALIZED VIEW": _explain,
    "SHOW MATERIALIZED VIEWS": _show,
    "DESCRIBE MATERIALIZED VIEW": _describe,
    "DESC MATERIALIZED VIEW": _describe,
    "DROP MATERIALIZED VIEW": _drop_view,
    "ALTER MATERIALIZED VIEW": _alter,
    **SAMPLES,
    **SKETCHES,
    **SYNOPSES,
    **UPDATING,
}

_ANEW = "write CREATE OR REPLACE MATERIALIZED VIEW … {} AS query, which makes the view anew"
_NOT_ALTERED = {
    "SET TBLPROPERTIES": _ANEW.format("TBLPROPERTIES (…)"),
    "UNSET TBLPROPERTIES": _ANEW.format("TBLPROPERTIES (…)"),
    "SET COMMENT": _ANEW.format("COMMENT '…'"),
    "RENAME TO": "create a view of the new name, and drop this one",
    "AS": _ANEW.format("").replace("  ", " "),
}

_OTHER_CLAUSES = {
    "(": "name the columns in the query, as in SELECT count(*) AS n",
    "PARTITIONED BY": "leave it out: Belvedere lays out the stored table",
    "CLUSTER BY": "leave it out: Belvedere lays out the stored table",
    "USING": "leave it out: stored tables are Delta tables",
    "LOCATION": "leave it out: stored tables are in the lake's directory",
    "OPTIONS": "leave it out, or write TBLPROPERTIES",
    "SCHEDULE": "give the view a limit: ALTER MATERIALIZED VIEW … SET RESPONSE LIMIT 5 SECONDS",
}

_UNITS = {"MILLISECOND": 0.001, "SECOND": 1.0, "MINUTE": 60.0, "HOUR": 3600.0}

_LEADING = {word for phrase in _OURS for word in phrase.split()} - {"MATERIALIZED"}
