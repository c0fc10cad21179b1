"""Random plans over the whole algebra, and random tables with random changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from sqlglot import exp, parse_one

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Distinct,
    Except,
    Field,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Order,
    Output,
    Project,
    Rel,
    Scan,
    TopK,
    Union,
    Window,
)
from belvedere.algebra.scalars import Scalar, col, equal, every
from belvedere.algebra.walks import tables
from tests.reference.interpreter import Bag, Database, Row

TABLES = {"r": ("a", "b"), "s": ("a", "b", "c"), "t": ("x",)}

EXACT = ("sum", "count", "min", "max")

values = st.sampled_from([None, 0, 0, 1, 1, 2])


@st.composite
def bags(draw: st.DrawFn, width: int, least: int = 0, most: int = 5) -> Bag:
    """A few rows, often equal, often NULL."""
    return Counter(draw(st.lists(st.tuples(*[values] * width), min_size=least, max_size=most)))


NUDGES = ("nudge", "nudge", "nudge", "grow")
MOVES = (*NUDGES, "same", "empty", "other")


@st.composite
def moved(draw: st.DrawFn, before: Bag, width: int, moves: Sequence[str] = MOVES) -> Bag:
    """Another state of a table: nudged, grown, the same, emptied or unrelated."""
    match draw(st.sampled_from(moves)):
        case "same":
            return before
        case "empty":
            return Counter()
        case "other":
            return draw(bags(width))
        case "grow":
            return before + draw(bags(width, least=1, most=3))
        case _:
            held = sorted(before, key=str)
            gone = draw(st.lists(st.sampled_from(held), max_size=2)) if held else []
            return before - Counter(gone) + draw(bags(width, most=2))


@st.composite
def databases(draw: st.DrawFn, used: Iterable[str] = tuple(TABLES), least: int = 0) -> Database:
    """Two states of each table used."""
    old: dict[str, Bag] = {t: Counter() for t in TABLES}
    old |= {t: draw(bags(len(TABLES[t]), least)) for t in used}
    return Database(TABLES, old, {**old, **{t: draw(moved(old[t], len(TABLES[t]))) for t in used}})


@st.composite
def histories(
    draw: st.DrawFn,
    used: Sequence[str],
    rounds: int = 3,
    least: int = 0,
    moves: Sequence[str] = MOVES,
) -> list[tuple[Database, set[str]]]:
    """Rounds of changes, each from where the one before ended, with the tables that move in it."""
    states: dict[str, Bag] = {t: Counter() for t in TABLES}
    states |= {t: draw(bags(len(TABLES[t]), least)) for t in used}
    out = []
    for _ in range(draw(st.integers(1, rounds))):
        moving = draw(st.sets(st.sampled_from(used), min_size=1))
        later = {t: draw(moved(states[t], len(TABLES[t]), moves)) for t in sorted(moving)}
        out.append((Database(TABLES, states, {**states, **later}), moving))
        states = {**states, **later}
    return out


@dataclass
class _Plans:
    """Draws plans with column names of their own."""

    draw: st.DrawFn
    count: int = 0
    scans: int = 0

    def name(self) -> str:
        self.count += 1
        return f"c{self.count}"

    def plan(self, depth: int) -> Rel:
        if depth == 0 or self.scans >= 5:
            return self.scan()
        makers = [self.filter, self.project, self.join, self.join, self.aggregate]
        makers += [self.distinct, self.set_operation, self.window, self.top]
        return self.draw(st.sampled_from(makers))(depth - 1)

    def scan(self, of: Sequence[str] = tuple(TABLES)) -> Rel:
        self.scans += 1
        table = self.draw(st.sampled_from(of))
        fields = tuple(Field(self.name(), c, "int") for c in TABLES[table])
        return Scan(table, fields)

    def column(self, q: Rel) -> str:
        return self.draw(st.sampled_from(q.columns))

    def some(self, q: Rel, least: int, most: int) -> tuple[str, ...]:
        chosen = self.draw(
            st.lists(st.sampled_from(q.columns), unique=True, min_size=least, max_size=most)
        )
        return tuple(chosen)

    def compare(self, left: Rel, right: Rel) -> Scalar:
        op = self.draw(
            st.sampled_from([exp.EQ, exp.EQ, exp.EQ, exp.LT, exp.GTE, exp.NEQ, exp.NullSafeEQ])
        )
        a, b = col(self.column(left)), col(self.column(right))
        return Scalar(op(this=a.expr, expression=b.expr))

    def filter(self, depth: int) -> Rel:
        child = self.plan(depth)
        a = self.column(child)
        texts = [f"`{a}` > 0", f"`{a}` IS NULL", f"`{a}` = 1 OR `{a}` IS NULL", f"NOT `{a}` = 0"]
        predicate = Scalar(parse_one(self.draw(st.sampled_from(texts)), dialect="spark"))
        return Filter(child, self.draw(st.sampled_from([predicate, self.compare(child, child)])))

    def project(self, depth: int) -> Rel:
        return self.narrow(self.plan(depth), self.draw(st.integers(1, 3)))

    def narrow(self, child: Rel, width: int) -> Rel:
        outputs = []
        for _ in range(width):
            a, b = self.column(child), self.column(child)
            texts = [f"`{a}`", f"`{a}`", f"`{a}` + `{b}`", f"COALESCE(`{a}`, 0)"]
            texts.append(f"CASE WHEN `{a}` = 1 THEN `{b}` ELSE 0 END")
            text = self.draw(st.sampled_from(texts))
            outputs.append(Output(self.name(), Scalar(parse_one(text, dialect="spark"))))
        return Project(child, tuple(outputs))

    def join(self, depth: int, kinds: Sequence[JoinKind] = tuple(JoinKind)) -> Rel:
        left, right = self.plan(depth), self.plan(self.draw(st.integers(0, depth)))
        kind = self.draw(st.sampled_from(kinds))
        conditions = [self.compare(left, right) for _ in range(self.draw(st.integers(0, 2)))]
        joined = Join(left, right, kind, every(conditions))
        if len(joined.columns) <= 4:
            return joined
        kept = self.some(joined, 1, 3)
        return Project(joined, tuple(Output(c, col(c)) for c in kept))

    def aggregate(self, depth: int, functions: Sequence[str] = EXACT) -> Rel:
        child = self.plan(depth)
        keys = self.some(child, 0, 2)
        aggs = [Agg(self.name(), "count")]
        for _ in range(self.draw(st.integers(0, 2))):
            function = self.draw(st.sampled_from(functions))
            distinct = self.draw(st.sampled_from([False, False, function in ("sum", "count")]))
            aggs.append(Agg(self.name(), function, (col(self.column(child)),), distinct))
        return Aggregate(child, keys, tuple(aggs))

    def distinct(self, depth: int) -> Rel:
        return Distinct(self.plan(depth))

    def set_operation(self, depth: int) -> Rel:
        left, right = self.plan(depth), self.plan(self.draw(st.integers(0, depth)))
        width = min(len(left.columns), len(right.columns), 2)
        left, right = self.narrow(left, width), self.narrow(right, width)
        columns = tuple(self.name() for _ in range(width))
        match self.draw(st.sampled_from(["union", "except", "intersect"])):
            case "union":
                return Union((left, right), columns)
            case "except":
                return Except(left, right, columns, all=self.draw(st.booleans()))
            case _:
                return Intersect(left, right, columns, all=self.draw(st.booleans()))

    def window(self, depth: int) -> Rel:
        child = self.plan(depth)
        partition = self.some(child, 0, 2)
        functions = [self.windowed(child, partition) for _ in range(self.draw(st.integers(1, 2)))]
        return Window(child, partition, tuple(functions))

    def windowed(self, child: Rel, partition: tuple[str, ...]) -> Output:
        a, o = self.column(child), self.column(child)
        by = ", ".join(f"`{p}`" for p in partition)
        by = f"PARTITION BY {by} " if by else ""
        every_column = ", ".join(f"`{c}` NULLS FIRST" for c in child.columns)
        texts = [
            f"SUM(`{a}`) OVER ({by})",
            f"COUNT(`{a}`) OVER ({by}ORDER BY `{o}` NULLS FIRST)",
            f"MAX(`{a}`) OVER ({by}ORDER BY `{o}` DESC NULLS LAST)",
            f"RANK() OVER ({by}ORDER BY `{o}` NULLS FIRST)",
            f"DENSE_RANK() OVER ({by}ORDER BY `{o}` DESC NULLS LAST)",
            f"ROW_NUMBER() OVER ({by}ORDER BY {every_column})",
            f"LAG(`{a}`) OVER ({by}ORDER BY {every_column})",
        ]
        text = self.draw(st.sampled_from(texts))
        return Output(self.name(), Scalar(parse_one(text, dialect="spark")))

    def top(self, depth: int) -> Rel:
        return self.topped(self.plan(depth))

    def topped(self, child: Rel) -> Rel:
        descending = self.draw(st.booleans())
        order = tuple(Order(c, descending, not descending) for c in self.some(child, 1, 2))
        return TopK(child, order, self.draw(st.integers(1, 3)), self.draw(st.integers(0, 1)))

    def view(self, depth: int) -> Rel:
        """Groups or distinct rows under what a view applies when it is read."""
        core = self.draw(st.sampled_from([self.aggregate, self.aggregate, self.distinct]))
        q = core(depth, (*EXACT, "avg")) if core == self.aggregate else core(depth)
        match self.draw(st.sampled_from(["", "", "having", "project", "top"])):
            case "having":
                return self.having(q)
            case "project":
                return Project(q, tuple(Output(self.name(), col(c)) for c in self.some(q, 1, 3)))
            case "top":
                return self.topped(q)
            case _:
                return q

    def groups(self, functions: Sequence[str]) -> Aggregate:
        """One table by one column, each function over another."""
        child = self.scan(["s"])
        key, argument = self.some(child, 2, 2)
        aggs = [Agg(self.name(), f, (col(argument),)) for f in functions]
        return Aggregate(child, (key,), (Agg(self.name(), "count"), *aggs))

    def pairs(self, kind: JoinKind) -> Rel:
        """Two tables that meet on one column each."""
        return self.paired(self.scan(), kind)

    def paired(self, left: Rel, kind: JoinKind) -> Rel:
        right = self.scan(["r", "t"])
        return Join(left, right, kind, equal(col(self.column(left)), col(self.column(right))))

    def chain(self) -> Rel:
        """Three or four tables joined, perhaps halved by another or grouped first."""
        q = self.draw(st.sampled_from([self.scan, lambda: self.groups(["count"])]))()
        for _ in range(self.draw(st.integers(2, 3))):
            right = self.scan(["r", "t"])
            q = Join(q, right, JoinKind.INNER, every(self.compare(q, right) for _ in range(2)))
            if self.draw(st.booleans()):
                q = self.having(q)
        return self.paired(
            q, self.draw(st.sampled_from([JoinKind.INNER, JoinKind.SEMI, JoinKind.ANTI]))
        )

    def groups_of_anti_joins(self, functions: Sequence[str]) -> Rel:
        """All rows of one table without a partner in another, aggregated."""
        q = self.groups(functions)
        return replace(q, keys=(), child=self.paired(q.child, JoinKind.ANTI))

    def compared(self) -> Rel:
        """Two columns less or within one another."""
        operator = self.draw(st.sampled_from([Except, Intersect]))
        sides = self.one_column(), self.one_column()
        return operator(*sides, (self.name(),), all=self.draw(st.booleans()))

    def one_column(self) -> Rel:
        """Rows of which many are equal."""
        child = self.scan(["r", "s"])
        return Project(child, (Output(self.name(), col(self.column(child))),))

    def filtered_groups(self) -> Rel:
        return self.having(self.groups(["sum"]))

    def having(self, q: Rel) -> Rel:
        text = f"`{self.column(q)}` > 1"
        return Filter(q, Scalar(parse_one(text, dialect="spark")))


@st.composite
def plans(draw: st.DrawFn, most_depth: int = 5) -> Rel:
    """A plan of any operators, self joins included."""
    return _Plans(draw).plan(draw(st.integers(1, most_depth)))


@st.composite
def views(draw: st.DrawFn, most_depth: int = 3) -> Rel:
    """A plan that is stored as groups: an aggregate or DISTINCT, and what is applied at read."""
    return _Plans(draw).view(draw(st.integers(0, most_depth)))


@st.composite
def rooted(draw: st.DrawFn, operator: str, *args: Any, **how: Any) -> Rel:
    """A plan whose root is the operator of that name."""
    return getattr(_Plans(draw), operator)(*args, **how)


@st.composite
def restrictions(
    draw: st.DrawFn, q: Rel, most: int = 2, least: int = 0
) -> tuple[tuple[str, ...], set[Row]]:
    """Some columns of a plan, and values of them to keep."""
    key = draw(st.lists(st.sampled_from(q.columns), min_size=1, max_size=most, unique=True))
    value = st.sampled_from([None, 0, 1, 2, 3])
    wanted = st.sets(st.tuples(*[value] * len(key)), min_size=least, max_size=3)
    return tuple(key), draw(wanted)


@st.composite
def changes(
    draw: st.DrawFn, of: st.SearchStrategy[Rel], least: int = 0
) -> tuple[Rel, Database, set[str]]:
    """A plan, two states of its tables, and those of them that move."""
    q = draw(of)
    used = tables(q)
    return q, draw(databases(used, least)), draw(st.sets(st.sampled_from(used), min_size=1))


@st.composite
def maintained(
    draw: st.DrawFn, of: st.SearchStrategy[Rel], **how: Any
) -> tuple[Rel, list[tuple[Database, set[str]]]]:
    """A definition and rounds of changes of its tables."""
    q = draw(of)
    return q, draw(histories(tables(q), **how))
