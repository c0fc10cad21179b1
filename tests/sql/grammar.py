"""Random queries over three small tables of integers, all meaningful in Spark and in DuckDB."""

from __future__ import annotations

import random

TABLES = {"r": ("a", "b"), "s": ("a", "d"), "t": ("k", "x", "y")}
COMPARISONS = ("=", "<", ">", "<>", "<=")
JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ",")


class Grammar:
    """Writes queries; every column has a qualifier, every output a name."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._aliases = 0

    def query(self, depth: int = 2) -> tuple[str, int]:
        """A query and how many columns it has."""
        if depth > 0 and self._rng.random() < 0.15:
            operator = self._rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"])
            left, n = self.block(depth - 1, 2, [])
            right, _ = self.block(depth - 1, 2, [])
            return f"({left}) {operator} ({right})", n
        return self.block(depth, self._rng.randint(1, 3), [])

    def block(self, depth: int, width: int, outer: list[str]) -> tuple[str, int]:
        """A SELECT of that many columns, which may read the outer ones in WHERE."""
        source, columns = self._from(depth)
        where = self._where(columns, outer, depth)
        kind = self._rng.choice(["plain", "plain", "distinct", "group", "group", "window"])
        if outer and kind != "plain":
            kind = "plain"
        names = [f"c{i}" for i in range(width)]
        if kind == "group":
            return self._grouped(source, where, columns, names, depth), width
        values = [self._value(columns, depth) for _ in names]
        if kind == "window":
            part, order = self._rng.choice(columns), self._rng.choice(columns)
            values[-1] = (
                f"sum({self._rng.choice(columns)}) OVER (PARTITION BY {part} ORDER BY {order})"
            )
        items = ", ".join(f"{v} AS {n}" for v, n in zip(values, names, strict=True))
        return f"SELECT {'DISTINCT ' * (kind == 'distinct')}{items} FROM {source}{where}", width

    def _grouped(
        self, source: str, where: str, columns: list[str], names: list[str], depth: int
    ) -> str:
        keys = self._rng.sample(columns, min(len(names) - 1, len(columns)))
        function = self._rng.choice(
            ["count(*)", "sum({})", "min({})", "count({})", "count(DISTINCT {})"]
        )
        aggregate = function.format(self._rng.choice(columns))
        values = [*keys, *[aggregate] * (len(names) - len(keys))]
        items = ", ".join(f"{v} AS {n}" for v, n in zip(values, names, strict=True))
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = (
            f" HAVING {aggregate} > {self._constant(depth)}" if self._rng.random() < 0.3 else ""
        )
        return f"SELECT {items} FROM {source}{where}{group}{having}"

    def _constant(self, depth: int) -> str:
        if depth > 0 and self._rng.random() < 0.3:
            inner, columns = self._from(0)
            return f"(SELECT max({self._rng.choice(columns)}) FROM {inner})"
        return str(self._rng.randint(0, 3))

    def _from(self, depth: int) -> tuple[str, list[str]]:
        text, columns = self._relation(depth)
        for _ in range(self._rng.choice([0, 0, 1, 1, 2])):
            right, more = self._relation(depth - 1)
            join = self._rng.choice(JOINS)
            on = f"{self._rng.choice(columns)} = {self._rng.choice(more)}"
            if self._rng.random() < 0.3:
                extra = self._rng.choice(columns + more)
                on += f" AND {extra} {self._rng.choice(COMPARISONS)} {self._rng.randint(0, 3)}"
            if join in (",", "CROSS JOIN"):
                text = f"{text} {'CROSS JOIN' if ' ' in text and join == ',' else join} {right}"
            else:
                text = f"{text} {join} {right} ON {on}"
            columns = columns + more
        return text, columns

    def _relation(self, depth: int) -> tuple[str, list[str]]:
        self._aliases += 1
        alias = f"q{self._aliases}"
        if depth > 0 and self._rng.random() < 0.3:
            inner, width = self.block(depth - 1, 2, [])
            return f"({inner}) AS {alias}", [f"{alias}.c{i}" for i in range(width)]
        table = self._rng.choice(list(TABLES))
        return f"{table} AS {alias}", [f"{alias}.{c}" for c in TABLES[table]]

    def _where(self, columns: list[str], outer: list[str], depth: int) -> str:
        parts = [self._predicate(columns, depth) for _ in range(self._rng.choice([0, 1, 1, 2]))]
        if outer:
            parts.append(f"{self._rng.choice(columns)} = {self._rng.choice(outer)}")
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _predicate(self, columns: list[str], depth: int, nesting: int = 2) -> str:
        choice = self._rng.random()
        value = self._rng.choice(columns)
        if depth > 0 and choice < 0.45:
            return self._with_subquery(value, columns, depth)
        if nesting > 0 and 0.45 <= choice < 0.55:
            left = self._predicate(columns, depth, nesting - 1)
            return f"({left} OR {self._predicate(columns, depth, nesting - 1)})"
        if nesting > 0 and 0.55 <= choice < 0.62:
            return f"NOT ({self._predicate(columns, depth, nesting - 1)})"
        if 0.62 <= choice < 0.7:
            return f"{value} IS {self._rng.choice(['', 'NOT '])}NULL"
        if choice > 0.95:
            return self._rng.choice(["(TRUE AND NULL)", "(NULL OR FALSE)", "(NOT NULL)"])
        other = self._rng.choice([*columns, str(self._rng.randint(0, 3))])
        return f"{value} {self._rng.choice(COMPARISONS)} {other}"

    def _with_subquery(self, value: str, columns: list[str], depth: int) -> str:
        outer = columns if self._rng.random() < 0.6 else []
        inner, _ = self.block(depth - 1, 1, outer)
        if self._rng.random() < 0.3:
            self._aliases += 1
            inner = f"SELECT q{self._aliases}.c0 FROM ({inner}) AS q{self._aliases}"
        form = self._rng.choice(
            ["EXISTS ({q})", "NOT EXISTS ({q})", "{v} IN ({q})", "{v} NOT IN ({q})", "scalar"]
        )
        if form != "scalar":
            return form.format(v=value, q=inner)
        return f"{value} {self._rng.choice(COMPARISONS)} {self._aggregate(outer)}"

    def _value(self, columns: list[str], depth: int) -> str:
        choice, value = self._rng.random(), self._rng.choice(columns)
        if depth > 0 and choice < 0.1:
            return self._aggregate(columns)
        if depth > 0 and choice < 0.15:
            return f"CAST({self._with_subquery(value, columns, depth)} AS INT)"
        if choice < 0.3:
            return f"({value} + {self._rng.choice(columns)}) * 2"
        return value

    def _aggregate(self, outer: list[str]) -> str:
        source, columns = self._from(0)
        where = self._where(columns, outer, 0)
        value = self._rng.choice(columns)
        what = self._rng.choice(
            ["count(*)", "max({})", "sum({}) + 1", "coalesce(min({}), 7) + count(*)"]
        )
        if self._rng.random() < 0.3:
            inner = f"SELECT {value} AS v FROM {source}{where}"
            return f"(SELECT {what.format('v')} FROM ({inner}) AS derived)"
        return f"(SELECT {what.format(value)} FROM {source}{where})"
