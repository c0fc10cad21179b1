"""Scopes: which columns a name may mean, without regard to case.

A dotted name is tried as qualifier and column first, then as a column and fields inside it; the
innermost query that knows the name wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from belvedere.errors import Invalid
from belvedere.sql.binder.naming import did_you_mean


@dataclass(frozen=True)
class Visible:
    """A column as a name can reach it; one that is not shown needs its qualifier (after USING)."""

    name: str
    column: str
    qualifier: tuple[str, ...] = ()
    shown: bool = True

    def under(self, qualifier: tuple[str, ...]) -> bool:
        """Whether a written qualifier means this column's relation: `t` or `db.t` for `db.t`."""
        tail = tuple(q.lower() for q in qualifier)
        return bool(tail) and self.qualifier[-len(tail) :] == tail


@dataclass(frozen=True)
class Scope:
    """The columns of one FROM clause, in order, and the query around it."""

    columns: tuple[Visible, ...] = ()
    outer: Scope | None = None

    def find(self, parts: tuple[str, ...]) -> tuple[Visible, tuple[str, ...]] | None:
        """The column a dotted name means here, and the fields that remain; None if none."""
        for k in range(len(parts) - 1, -1, -1):
            hits = self._matches(parts[:k], parts[k])
            if len({h.column for h in hits}) > 1:
                raise _ambiguous(".".join(parts), hits)
            if hits:
                return hits[0], parts[k + 1 :]
        return None

    def _matches(self, qualifier: tuple[str, ...], name: str) -> list[Visible]:
        named = [v for v in self.columns if v.name.lower() == name.lower()]
        if qualifier:
            return [v for v in named if v.under(qualifier)]
        return [v for v in named if v.shown]

    def star(self, qualifier: tuple[str, ...] = ()) -> tuple[Visible, ...]:
        """The columns `*` or `t.*` stands for."""
        if qualifier:
            return tuple(v for v in self.columns if v.under(qualifier))
        return tuple(v for v in self.columns if v.shown)

    def unknown(self, parts: tuple[str, ...], where: str) -> Invalid:
        """The error for an unknown name."""
        name = ".".join(parts)
        if len(parts) > 1:
            relation = self.star(parts[:-1])
            known = [v.name for v in relation] or [".".join(v.qualifier) for v in self.columns]
            hint = did_you_mean(parts[-1] if relation else parts[-2], [k for k in known if k])
        else:
            hint = did_you_mean(name, [v.name for v in self.columns if v.shown])
        return Invalid(f"no column {name!r} ({where})", hint=hint, reason="NO_SUCH_COLUMN")

    def renamed(self, qualifier: tuple[str, ...]) -> Scope:
        """The shown columns under one alias."""
        lower = tuple(q.lower() for q in qualifier)
        return Scope(tuple(replace(v, qualifier=lower) for v in self.columns if v.shown))


def _ambiguous(name: str, hits: list[Visible]) -> Invalid:
    where = [".".join(h.qualifier) or "a joined relation" for h in hits]
    if len(set(where)) == 1:
        return Invalid(
            f"column {name!r} is ambiguous",
            detail=f"{where[0]} has several columns of this name",
            reason="AMBIGUOUS_COLUMN",
        )
    return Invalid(
        f"column {name!r} is ambiguous",
        detail="it could be of " + " or ".join(where),
        hint="write " + " or ".join(f"{w}.{name.split('.')[-1]}" for w in where),
        reason="AMBIGUOUS_COLUMN",
    )
