"""Statements on materialized views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import ClassVar

from belvedere.errors import Invalid, Unsupported
from belvedere.sql.statements.cursor import Cursor, Properties, nearest
from belvedere.sql.statements.derivations import ExplainCreate, Noun, Verb, lead, verbs


class RefreshPolicy(Enum):
    """How a view wants to be refreshed."""

    AUTO = "AUTO"
    INCREMENTAL = "INCREMENTAL"
    STRICT = "INCREMENTAL STRICT"
    FULL = "FULL"


@dataclass(frozen=True)
class CreateView:
    """CREATE MATERIALIZED VIEW; `lead` is blank space as long as the text before its query."""

    noun: ClassVar[Noun] = Noun.VIEW
    name: str
    query: str
    policy: RefreshPolicy = RefreshPolicy.AUTO
    replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    properties: Properties = ()
    lead: str = field(default="", compare=False, repr=False)

    @property
    def may_exist(self) -> bool:
        """Whether a derivation of the noun may have the name already."""
        return self.replace or self.if_not_exists


@dataclass(frozen=True)
class AlterPolicy:
    """ALTER MATERIALIZED VIEW … SET REFRESH POLICY."""

    name: str
    policy: RefreshPolicy


@dataclass(frozen=True)
class AlterLimit:
    """ALTER MATERIALIZED VIEW … SET RESPONSE LIMIT; None is no limit."""

    name: str
    seconds: float | None


ViewStatement = CreateView | ExplainCreate[CreateView] | AlterPolicy | AlterLimit | Verb


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
        policy or RefreshPolicy.AUTO,
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


def _policy(c: Cursor) -> RefreshPolicy:
    for policy in (
        RefreshPolicy.STRICT,
        RefreshPolicy.INCREMENTAL,
        RefreshPolicy.AUTO,
        RefreshPolicy.FULL,
    ):
        if c.take(policy.value):
            return policy
    names = [policy.value for policy in RefreshPolicy]
    close = nearest(c.word(), names)
    hint = f"the policies are {', '.join(names)}" + (f"; did you mean {close}?" if close else "")
    raise c.wrong("expected a refresh policy", hint)


def _explain_create(c: Cursor, replace: bool = False) -> ExplainCreate[CreateView]:
    return ExplainCreate(_create_view(c, replace))


def _alter(c: Cursor) -> AlterPolicy | AlterLimit:
    name = c.name("a view's name")
    limited = c.take("SET RESPONSE LIMIT")
    if not limited and (other := _other_alteration(c)):
        raise other
    if not limited and not c.take("SET REFRESH POLICY"):
        raise c.wrong("expected SET REFRESH POLICY or SET RESPONSE LIMIT")
    statement = AlterLimit(name, _limit(c)) if limited else AlterPolicy(name, _policy(c))
    c.end()
    return statement


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

VIEWS: dict[str, Callable[[Cursor], ViewStatement]] = {
    "CREATE MATERIALIZED VIEW": _create_view,
    "CREATE OR REPLACE MATERIALIZED VIEW": partial(_create_view, replace=True),
    "EXPLAIN CREATE MATERIALIZED VIEW": _explain_create,
    "EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW": partial(_explain_create, replace=True),
    **verbs(Noun.VIEW),
    "ALTER MATERIALIZED VIEW": _alter,
}
"""The leading keywords of each statement, and its parser."""
