"""The text of a query over its sketch, and the files that it skips.

Each table of the query is read at the sketch's version of it; partitioned tables only in the ranges of the
fragments that the sketch has. The ranges are ordinary predicates, so that Delta skips files and Parquet
skips row groups. The rest of the text stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from belvedere.delta.files import File, files
from belvedere.delta.statistics import column_facts
from belvedere.errors import Unsupported
from belvedere.joins.partitions import Bitmap, Partition, coarser
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.table import Table
from belvedere.sketches.definition import Version
from belvedere.sql.names import parts, quote
from belvedere.sql.parse import parse_query
from belvedere.views.catalog import canonical_name

MOST_KEPT = 0.5
"""With a greater share of fragments, a query runs as it is."""
MOST_RANGES = 64
"""The most ranges in a predicate; of more, the nearest ones are merged."""


@dataclass(frozen=True)
class SkippedFiles:
    """The files and bytes of a table that a query does not read."""

    table: str
    files: int
    of_files: int
    bytes: int
    of_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.table}: {self.files} of {self.of_files} files, "
            f"{self.bytes:,} of {self.of_bytes:,} bytes skipped"
        )


@dataclass(frozen=True)
class SketchAnswer:
    """How a query is answered: the sketch that it uses, or why it uses none."""

    sql: str
    sketch: str | None = None
    vector: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    kept: int = 0
    fragments: int = 0
    skipped: tuple[SkippedFiles, ...] = ()
    upkeep: str = ""
    refused: tuple[tuple[str, str], ...] = ()
    """The sketches that are not used, and why."""

    def __str__(self) -> str:
        lines = []
        if self.sketch is None:
            lines.append(f"no sketch: {self.why}" if self.why else "no sketch")
        else:
            at = ", ".join(f"{t} {v}" for t, v in self.vector.items())
            share = 100 * self.kept / max(self.fragments, 1)
            lines += [
                f"sketch {self.sketch} at {at}",
                f"safe: {self.why}",
                f"fragments: {self.kept} of {self.fragments} kept ({share:.1f} %)",
                *map(str, self.skipped),
            ]
            if self.upkeep:
                lines.append(f"brought up to date: {self.upkeep}")
        lines += [f"not {name}: {why}" for name, why in self.refused]
        return "\n".join([*lines, "", self.sql])


@dataclass(frozen=True)
class Reading:
    """A query, and the versions and fragments of its tables that it reads."""

    text: str
    version: Version
    cuts: Mapping[str, tuple[Partition, Bitmap]]
    tables: Mapping[str, Table]

    @staticmethod
    def through(
        text: str,
        version: Version,
        partitions: Sequence[Partition],
        tables: Mapping[str, Table],
    ) -> Reading:
        """A query through a sketch, with few enough ranges to compare with every row."""
        both = zip(partitions, version.bitmaps, strict=True)
        cuts = {p.table: (p, coarser(b, MOST_RANGES)) for p, b in both}
        return Reading(text, version, cuts, tables)

    def at(self, name: str) -> int:
        """The version of a table that is read."""
        return self.version.vector[name].version

    def needs(self, name: str) -> Callable[[File], bool] | None:
        """Whether a file of a table may have rows that are read; None if every file may."""
        if name not in self.cuts:
            return None
        return partial(_needed, self.tables[name], *self.cuts[name])

    @property
    def skipped(self) -> tuple[SkippedFiles, ...]:
        """The files of partitioned tables that are not read, where the logs tell them."""
        by_table = (skipped_files(self.tables[t], self.at(t), *cut) for t, cut in self.cuts.items())
        return tuple(s for s in by_table if s is not None)


def fragment_share(partition: Partition, bitmap: Bitmap) -> float:
    """The share of a partition's fragments that a sketch has, NULL's fragment excluded."""
    return float(bitmap[: partition.null].sum()) / max(partition.null, 1)


def rewrite_query(
    lake: ReadableLake, reading: Reading, opened: Mapping[str, str] | None = None
) -> str:
    """The text over what it reads; `opened` has the names of tables that are opened already."""
    text = reading.text
    tree = parse_query(text)
    hidden = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    places: list[tuple[int, int, str]] = []
    for node in tree.find_all(exp.Table):
        if len(node.parts) == 1 and node.name.lower() in hidden:
            continue
        name = canonical_name(lake, _dotted(node))
        if name not in reading.tables:
            raise _not_rewritten(f"{node.name!r} is not a table of the sketch")
        places.append(_place(node, name, reading, opened or {}))
    if any(n in hidden for n in (parts(t)[-1].lower() for t in reading.tables)):
        raise _not_rewritten("a WITH clause has the name of one of the tables")
    if any(len(c.parts) > 2 for c in tree.find_all(exp.Column)):
        raise _not_rewritten("a column is written with more than its table's name")
    for start, end, new in sorted(places, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _place(
    node: exp.Table, name: str, reading: Reading, opened: Mapping[str, str]
) -> tuple[int, int, str]:
    """The place of a table in the text, and its replacement."""
    arguments = {k for k, v in node.args.items() if v not in (None, [], False)}
    ends = [p.meta.get(k) for p in node.parts for k in ("start", "end")]
    if arguments - {"this", "db", "catalog", "alias"} or None in ends:
        raise _not_rewritten(f"{node.name!r} is written with more than its name")
    where = ""
    if name in reading.cuts:
        partition, bitmap = reading.cuts[name]
        where = f" WHERE {partition.predicate(bitmap).sql()}"
    alias = "" if node.alias else f" AS {quote(node.name)}"
    source = opened.get(name) or reading.tables[name].at(reading.at(name))
    new = f"(SELECT * FROM {source}{where}){alias}"
    return node.parts[0].meta["start"], node.parts[-1].meta["end"] + 1, new


def _dotted(node: exp.Table) -> str:
    return ".".join(quote(p.name) for p in node.parts)


def _not_rewritten(why: str) -> Unsupported:
    return Unsupported(why, reason="SKETCH_TEXT")


def skipped_files(
    table: Table, version: int, partition: Partition, bitmap: Bitmap
) -> SkippedFiles | None:
    """The files of a table that a query does not read; None if its log does not tell."""
    every = files(table.store, version)
    if every is None:
        return None
    unneeded = [f for f in every if not _needed(table, partition, bitmap, f)]
    return SkippedFiles(
        table.name,
        len(unneeded),
        len(every),
        sum(f.size for f in unneeded),
        sum(f.size for f in every),
    )


def _needed(table: Table, partition: Partition, bitmap: Bitmap, file: File) -> bool:
    """Whether a file may have rows of the kept fragments, by the statistics in the log."""
    facts = column_facts(table, file, partition.column)
    if bitmap[partition.null] and facts.may_have_nulls:
        return True
    if facts.bounds is None or not facts.may_have_values:
        return facts.may_have_values
    first, last = map(partition.fragment, facts.bounds)
    return bool(bitmap[first : last + 1].any())
