"""Δ: the change of a plan when some of its tables move from OLD to NEW.

Law: Q(NEW) = Q(OLD) + ΔQ, as bags with signed counts, for any choice of moving tables; a table
that does not move is the same in both states. NULL is a value like any other in keys and rows.

    D1  Δ(R)       = ΔR if R moves, else nothing
    D2  linear     Δ(f(Q))   = f(ΔQ)                              filter, project, UNION ALL
    D3  bilinear   Δ(L⋈R)    = ΔL⋈R₀ + L₁⋈ΔR                      one term per scan occurrence
    D4  halves     Δ(L⋉R)    = ΔL⋉R₀ + (M⋉R₁ − M⋉R₀)              M = L₁ ⋉θ supp ΔR
                   Δ(L▷R)    = ΔL▷R₀ + (M▷R₁ − M▷R₀)
    D5  padded     Δ(L⟕R)    = ΔL⟕R₀ + L₁⋈ΔR + pad(M▷R₁ − M▷R₀)
                   Δ(L⟗R)    = Δ(L⟕R) + pad(Δ(R▷L))
    D6  keyed      Δ(Q)      = Q₁|K − Q₀|K,  K = keys of supp ΔQ's input
                   aggregate on its group, window on its partition,
                   DISTINCT, INTERSECT and EXCEPT [ALL] on the whole row
    D7  all        Δ(Q)      = Q₁ − Q₀   top-k; aggregates and windows without a key

₀ is OLD, ₁ is NEW. D4 and D5 hold for every condition θ: with the right side still, each is
linear in its left side; then, with the left side already NEW, only the left rows M that match a
changed right row can gain or lose a partner. So no key is needed, inequalities and NULL keys are
no special case, and NOT IN (bound as two anti joins) falls under D4.

Where Q has each row once (aggregates, DISTINCT), Net drops the rows that did not change after
all: a group recomputed to the same values, a scalar subquery whose answer stood still.

The keyed rule subtracts values it computes again from OLD: exact for every type but floating
point, whose sums depend on order (`analyses/floats.py` finds the plans where that matters).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    At,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Keys,
    Negate,
    Net,
    Output,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    TopK,
    Union,
    Unsigned,
    Window,
)
from belvedere.algebra.scalars import Scalar, col, lit
from belvedere.algebra.walks import at, tables
from belvedere.errors import Internal
from belvedere.rules.restrict import push


class Delta:
    """The change of plans for one choice of moving tables; shared subplans stay shared."""

    def __init__(self, moving: Collection[str], types: Mapping[str, str] | None = None) -> None:
        self._moving = frozenset(moving)
        self._types = types or {}
        self._memo: dict[tuple[int, str], Rel] = {}
        self._alive: list[Rel] = []

    def of(self, q: Rel) -> Rel:
        """ΔQ, a signed plan over OLD and NEW states and changes of tables."""
        return self._once(q, "Δ", self._of)

    def keys(self, q: Rel, key: tuple[str, ...]) -> Rel:
        """The distinct values of `key` among the rows of supp ΔQ."""
        return touched(self.of(q), key)

    def moves(self, q: Rel) -> bool:
        """Whether any table of the plan moves."""
        return not self._moving.isdisjoint(tables(q))

    def _of(self, q: Rel) -> Rel:
        if not self.moves(q):
            return Empty(q.columns)
        match q:
            # D1  Δ(R) = ΔR
            case Scan():
                return Change(q.table, q.fields)
            # D2  Δ(f(Q)) = f(ΔQ)
            case Filter() | Project():
                return replace(q, child=self.of(q.child))
            case Union():
                return union([self.of(c) for c in q.children], q.columns)
            # D3  Δ(L⋈R) = ΔL⋈R₀ + L₁⋈ΔR
            case Join(kind=JoinKind.INNER):
                return union([self._left(q), self._right(q)], q.columns)
            # D4  Δ(L⋉R) = ΔL⋉R₀ + (M⋉R₁ − M⋉R₀), likewise ▷
            case Join(kind=JoinKind.SEMI | JoinKind.ANTI):
                return union([self._left(q), self._flips(q)], q.columns)
            # D5  Δ(L⟕R) = ΔL⟕R₀ + L₁⋈ΔR + pad(M▷R₁ − M▷R₀)
            case Join(kind=JoinKind.LEFT):
                matched = self._right(replace(q, kind=JoinKind.INNER))
                lonely = self._flips(replace(q, kind=JoinKind.ANTI))
                return union([self._left(q), matched, self._pad(lonely, q.columns)], q.columns)
            # D5  Δ(L⟗R) = Δ(L⟕R) + pad(Δ(R▷L))
            case Join(kind=JoinKind.FULL):
                lonely = Join(q.right, q.left, JoinKind.ANTI, q.on)
                half = self.of(replace(q, kind=JoinKind.LEFT))
                return union([half, self._pad(self.of(lonely), q.columns)], q.columns)
            # D6  Δ(Q) = Q₁|K − Q₀|K
            case Aggregate(keys=key) if key:
                return Net(self._on_keys(q, key))
            case Distinct():
                return Net(self._on_keys(q, q.columns))
            case Window(partition=key) if key:
                return self._on_keys(q, key)
            case Except() | Intersect():
                return self._on_rows(q)
            # D7  Δ(Q) = Q₁ − Q₀
            case Aggregate():
                return Net(union([self.new(q), Negate(self.old(q))], q.columns))
            case Window() | TopK():
                return union([self.new(q), Negate(self.old(q))], q.columns)
            case Empty():
                return q
            case Change() | Negate() | Net() | Support() | Unsigned() | Restrict():
                raise Internal(f"{type(q).__name__} has no place in a definition")
            case Join():
                raise Internal(f"a join of kind {q.kind}")
            case _:
                assert_never(q)

    def old(self, q: Rel) -> Rel:
        """Q₀: the plan over the recorded versions."""
        return self._once(q, "0", lambda p: at(p, At.OLD))

    def new(self, q: Rel) -> Rel:
        """Q₁: the plan over the pinned targets."""
        return self._once(q, "1", lambda p: at(p, At.NEW))

    def _left(self, q: Join) -> Rel:
        """ΔL ∘ R₀"""
        change = self.of(q.left)
        if isinstance(change, Empty):
            return Empty(q.columns)
        return replace(q, left=change, right=self.old(q.right))

    def _right(self, q: Join) -> Rel:
        """L₁ ∘ ΔR"""
        change = self.of(q.right)
        if isinstance(change, Empty):
            return Empty(q.columns)
        return replace(q, left=self.new(q.left), right=change)

    def _flips(self, q: Join) -> Rel:
        """M∘R₁ − M∘R₀ with M = L₁ ⋉θ supp ΔR"""
        change = self.of(q.right)
        if isinstance(change, Empty):
            return Empty(q.columns)
        m = Join(self.new(q.left), Support(change), JoinKind.SEMI, q.on)
        after = replace(q, left=m, right=self.new(q.right))
        before = replace(q, left=m, right=self.old(q.right))
        return union([after, Negate(before)], q.columns)

    def _pad(self, q: Rel, columns: tuple[str, ...]) -> Rel:
        """The rows of q under the given columns, NULL where q has none."""
        if isinstance(q, Empty):
            return Empty(columns)
        have = set(q.columns)
        return Project(q, tuple(Output(c, col(c) if c in have else self._null(c)) for c in columns))

    def _null(self, column: str) -> Scalar:
        if column not in self._types:
            return lit(None)
        return Scalar(exp.cast(exp.null(), self._types[column], dialect="spark"))

    def _on_keys(self, q: Aggregate | Window | Distinct, key: tuple[str, ...]) -> Rel:
        """Q₁|K − Q₀|K with the restriction on the input's key"""
        change = self.of(q.child)
        if isinstance(change, Empty):
            return Empty(q.columns)
        by = Keys(touched(change, key))
        after = replace(q, child=push(Restrict(self.new(q.child), key, by)))
        before = replace(q, child=push(Restrict(self.old(q.child), key, by)))
        return union([after, Negate(before)], q.columns)

    def _on_rows(self, q: Except | Intersect) -> Rel:
        """Q₁|K − Q₀|K, K = supp ΔL ∪ supp ΔR"""
        changes = [self.of(q.left), self.of(q.right)]
        supports = [Support(c) for c in changes if not isinstance(c, Empty)]
        if not supports:
            return Empty(q.columns)
        by = Keys(Distinct(Union(tuple(supports), q.columns)))

        def on(state: Callable[[Rel], Rel]) -> Rel:
            sides = (Restrict(state(s), s.columns, by) for s in (q.left, q.right))
            left, right = (push(side) for side in sides)
            return replace(q, left=left, right=right)

        return union([on(self.new), Negate(on(self.old))], q.columns)

    def _once(self, q: Rel, what: str, f: Callable[[Rel], Rel]) -> Rel:
        if (id(q), what) not in self._memo:
            self._alive.append(q)  # an id is only good while its object lives
            self._memo[id(q), what] = f(q)
        return self._memo[id(q), what]


def delta(
    q: Rel, moving: Collection[str] | None = None, types: Mapping[str, str] | None = None
) -> Rel:
    """The change of `q` when its tables (or only those given) move from OLD to NEW."""
    return Delta(tables(q) if moving is None else moving, types).of(q)


def touched(change: Rel, key: tuple[str, ...]) -> Rel:
    """The distinct values of `key` among the rows of a change, whatever their sign."""
    if isinstance(change, Empty):
        return Empty(key)
    if key == change.columns:
        return Support(change)
    return Distinct(Project(Support(change), tuple(Output(k, col(k)) for k in key)))


def union(parts: list[Rel], columns: tuple[str, ...]) -> Rel:
    """The sum of plans, without the empty ones."""
    some = tuple(p for p in parts if not isinstance(p, Empty))
    if not some:
        return Empty(columns)
    if len(some) == 1 and some[0].columns == columns:
        return some[0]
    return Union(some, columns)
