"""Naming: plan columns get names of their own, unique without regard to case."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from sqlglot import exp


class Namer:
    """Gives each column of a plan a name no other column of it has.

    >>> names = Namer()
    >>> names.fresh("a"), names.fresh("A"), names.fresh("__n")
    ('a', 'A_2', 'n')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}
        self._wanted: dict[str, str] = {}

    def fresh(self, wanted: str) -> str:
        """The name, with the next free number if it is taken; never one of our hidden `__` names."""
        base = wanted.lstrip("_") or "c" if wanted.startswith("__") else wanted or "c"
        name, n = base, self._last.get(base.lower(), 1)
        while name.lower() in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._last[base.lower()] = n
        self._taken.add(name.lower())
        self._wanted[name] = wanted
        return name

    def stands_for(self, name: str, wanted: str) -> bool:
        """Whether a plan column was named for this name of the user's."""
        return self._wanted.get(name, name).lower() == wanted.lower()


def suggested_name(node: exp.Expr) -> str:
    """A short readable name for the value of an expression.

    >>> from sqlglot import parse_one
    >>> suggested_name(parse_one("sum(a.x * 2)")), suggested_name(parse_one("1 + 2"))
    ('sum_x', 'value')
    """
    match node:
        case exp.Column() | exp.Identifier():
            return node.name
        case exp.Dot(expression=field):
            return str(field.name)
        case exp.Paren(this=inner) | exp.Cast(this=inner) | exp.Filter(this=inner):
            return suggested_name(inner)
        case exp.Window(this=inner) | exp.IgnoreNulls(this=inner) | exp.WithinGroup(this=inner):
            return suggested_name(inner)
        case exp.Case():
            return "value"
        case exp.Func():
            inside = next((suggested_name(c) for c in node.find_all(exp.Column)), "")
            return "_".join(part for part in (function_name(node), inside) if part)
        case _:
            return "value"


def function_name(node: exp.Expr) -> str:
    """A call's name as Spark knows it, in lower case."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else ""


def did_you_mean(wanted: str, existing: Iterable[str]) -> str:
    """A hint with the nearest of the existing names, or with all of them.

    >>> did_you_mean("lgo", ["log", "video"])
    "did you mean 'log'? existing: log, video"
    """
    names = list(dict.fromkeys(existing))
    by_lower = {n.lower(): n for n in names}
    near = get_close_matches(wanted.lower(), by_lower, n=1, cutoff=0.5)
    shown = ", ".join(names[:30]) + (", …" if len(names) > 30 else "")
    start = f"did you mean {by_lower[near[0]]!r}? " if near else ""
    return f"{start}existing: {shown}" if names else start.strip()
