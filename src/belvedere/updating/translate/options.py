"""The options of each segment of a view row to insert: existing rows, or new rows with hidden values.

Fresh values are interchangeable, unless a fresh value has to equal a certain other value:

    one row       a new row at two positions, or for two view rows, has one value in each column, also
                  where one segment hides the column and the other shows it
    foreign key   a column of a new row refers to a column of another new row

Hidden values that may have to be equal are *linked*: each has the candidates of all of them, and the
shown values that it may have to equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import numpy as np

from belvedere.algebra.types import parse
from belvedere.updating.request.view_rows import Coder, HiddenValue, SegmentOptions, ViewRow
from belvedere.updating.side_effects.in_memory import shown_unheld_columns
from belvedere.updating.summary.base_tables import BaseTables, Mask
from belvedere.updating.summary.domains import Codes, NormalValue
from belvedere.updating.translate.candidate_values import (
    MOST_EXISTING,
    CandidateValues,
    admissible_values,
    candidate_values,
)
from belvedere.updating.translate.constraints import RowSource, TableRules
from belvedere.updating.translate.fresh_values import bounds, fits_types, is_free

MOST_SHARED = 500
"""How many candidate values linked values share."""

RulesByTable = Mapping[str, TableRules]
Slot = tuple[int, int]
"""A segment: the index of a view row to insert, and a position."""
HiddenNode = tuple[int, HiddenValue]
"""A hidden value of a view row to insert, given by its index."""


def segment_options(
    coder: Coder,
    rows: Sequence[ViewRow],
    rules: RulesByTable,
    source: RowSource,
    replaced_values: Mapping[HiddenNode, Sequence[NormalValue]] | None = None,
) -> tuple[list[list[SegmentOptions]], list[str]]:
    """The options of each segment of each view row, and sentences on what is left out.

    `kept` are further candidates: the hidden values of replaced view rows.
    """
    positions, left_out = range(len(coder.shape.positions)), list[str]()
    options_of_rows = [
        [SegmentOptions(coder.shown_values(p, row), coder.hidden_values(p)) for p in positions]
        for row in rows
    ]
    for options in options_of_rows:
        for p, o in enumerate(options):
            existing = _consistent_rows(coder, p, o)
            if o.hidden and len(existing) > MOST_EXISTING:
                table = coder.shape.positions[p].table
                left_out.append(
                    f"not all rows of {table!r} that the view row may be made of were tried"
                )
            o.existing = [n for n in existing[:MOST_EXISTING] if _agrees_on_unheld(coder, p, o, n)]
    _assign_candidates(coder, options_of_rows, rules, source, replaced_values or {}, left_out)
    return options_of_rows, list(dict.fromkeys(left_out))


def _assign_candidates(
    coder: Coder,
    options_of_rows: Sequence[Sequence[SegmentOptions]],
    rules: RulesByTable,
    source: RowSource,
    replaced_values: Mapping[HiddenNode, Sequence[NormalValue]],
    left_out: list[str],
) -> None:
    """Assign candidate values to each hidden value."""
    nodes = [
        (i, h) for i, options in enumerate(options_of_rows) for h in all_hidden_values(options)
    ]
    links = link_hidden_values(coder, options_of_rows, rules)
    requested = {v for options in options_of_rows for o in options for v in o.shown.values()}
    for group in links.groups(nodes):
        shown_values = links.shown_values_linked_to(group)
        each = {
            (i, h): candidate_values(
                coder, h, options_of_rows[i], rules, source, len(nodes), shown_values, requested
            )
            for i, h in group
        }
        _share_candidates(coder, options_of_rows, rules, each, replaced_values, requested)
        for (i, h), some in each.items():
            if not some.complete:
                left_out.append(f"not every value of {_column_text(coder, h)} was tried")
            for o in options_of_rows[i]:
                if h in o.hidden:
                    o.values[h] = some.values


def all_hidden_values(options: Sequence[SegmentOptions]) -> list[HiddenValue]:
    """The hidden values of a view row."""
    return list(dict.fromkeys(h for o in options for h in o.hidden))


def _share_candidates(
    coder: Coder,
    options_of_rows: Sequence[Sequence[SegmentOptions]],
    rules: RulesByTable,
    each: Mapping[HiddenNode, CandidateValues],
    replaced_values: Mapping[HiddenNode, Sequence[NormalValue]],
    requested: Collection[NormalValue],
) -> None:
    """Give linked values the candidates of each other, as far as conditions allow."""
    for node, some in each.items():
        some.values = list(dict.fromkeys([*replaced_values.get(node, ()), *some.values]))
    if len(each) == 1:
        return
    all_values = list(
        dict.fromkeys(v for some in each.values() for v in some.values if v is not None)
    )
    domains = list({id(some.domain): some.domain for some in each.values()}.values())
    for (i, h), some in each.items():
        own_values = dict.fromkeys(some.values)
        other_values = [v for v in all_values if v not in own_values]
        admitted = admissible_values(
            coder, h, options_of_rows[i], rules, other_values[:MOST_SHARED]
        )
        if admitted:
            own_values.pop(None, None) if h[0] == "class" else None
        some.values = [*own_values, *admitted]
        free = [
            v for v in some.values if v not in requested and all(is_free(d, v) for d in domains)
        ]
        enough = some.restricted or len(domains) == 1 or len(free) >= len(each)
        some.complete &= enough and len(other_values) <= MOST_SHARED


def _column_text(coder: Coder, h: HiddenValue) -> str:
    """A hidden value in an error message: one of its columns."""
    p, c = (h[1], h[2]) if h[0] == "place" else coder.shape.classes[h[1]][0]
    return f"column {c!r} of {coder.shape.positions[p].table!r}, which the view does not show,"


@dataclass
class ValueLinks:
    """Hidden values that may have to be equal, and shown values that they may have to equal."""

    parent: dict[HiddenNode, HiddenNode] = field(default_factory=dict)
    told: list[tuple[HiddenNode, NormalValue]] = field(default_factory=list)

    def first(self, node: HiddenNode) -> HiddenNode:
        """The representative of the values linked with a node."""
        while self.parent.get(node, node) != node:
            node = self.parent[node]
        return node

    def link(self, cells: Iterable[Cell]) -> None:
        """Link values that may have to be equal."""
        distinct_cells = list(dict.fromkeys(cells))
        nodes = [cell for cell in distinct_cells if not isinstance(cell, ShownValue)]
        for node in nodes[1:]:
            self.parent[self.first(node)] = self.first(nodes[0])
        if nodes:
            self.told += [
                (nodes[0], cell.value) for cell in distinct_cells if isinstance(cell, ShownValue)
            ]

    def groups(self, nodes: Sequence[HiddenNode]) -> list[list[HiddenNode]]:
        """The nodes, grouped by link."""
        by_first: dict[HiddenNode, list[HiddenNode]] = {}
        for node in nodes:
            by_first.setdefault(self.first(node), []).append(node)
        return list(by_first.values())

    def shown_values_linked_to(self, group: Sequence[HiddenNode]) -> list[NormalValue]:
        """The shown values that a group of linked values may have to equal."""
        first = self.first(group[0])
        return list(dict.fromkeys(v for node, v in self.told if self.first(node) == first))


@dataclass(frozen=True)
class ShownValue:
    """A value that a view row shows."""

    value: NormalValue


Cell = ShownValue | HiddenNode
"""The value of a column of a segment: shown, or hidden."""


def link_hidden_values(
    coder: Coder, options_of_rows: Sequence[Sequence[SegmentOptions]], rules: RulesByTable
) -> ValueLinks:
    """The links between hidden values."""
    links = ValueLinks()
    for ones, others in meeting_slots(coder, options_of_rows):
        some = [_cells(coder, options_of_rows, slot) for slot in (*ones, *others)]
        for c in some[0].keys() & some[-1].keys():
            links.link(cells[c] for cells in some)
    by_table: dict[str, list[dict[str, Cell]]] = {}
    for i, options in enumerate(options_of_rows):
        for p in range(len(options)):
            table = coder.shape.positions[p].table
            by_table.setdefault(table, []).append(_cells(coder, options_of_rows, (i, p)))
    for child, some in by_table.items():
        for key in (key for key in rules[child].foreign if key.parent in by_table):
            for c, d in zip(key.columns, key.parent_columns, strict=True):
                children = [cells[c] for cells in some if c in cells]
                parents = [cells[d] for cells in by_table[key.parent] if d in cells]
                kinds = rules[child].columns[c], rules[key.parent].columns[d]
                if children and parents and _are_compared(*kinds):
                    links.link((*children, *parents))
    return links


def _are_compared(kind: str, other: str) -> bool:
    """Whether values of two types are numbered in the same way."""
    return kind == other or (parse(kind).is_integer and parse(other).is_integer)


def _cells(
    coder: Coder, options_of_rows: Sequence[Sequence[SegmentOptions]], slot: Slot
) -> dict[str, Cell]:
    """The columns of a segment with their values."""
    i, p = slot
    o = options_of_rows[i][p]
    cells: dict[str, Cell] = {c: ShownValue(v) for c, v in o.shown.items()}
    cells.update((c, (i, h)) for h in o.hidden for c in coder.columns(p, h))
    return cells


def meeting_slots(
    coder: Coder, options_of_rows: Sequence[Sequence[SegmentOptions]]
) -> Iterator[tuple[list[Slot], list[Slot]]]:
    """Segments of one table that show no different values: one new row may stand for any two of them.

    Either several segments at one position, or those at one and those at another.
    """
    for table in coder.shape.tables if options_of_rows else ():
        for p, q in combinations_with_replacement(coder.shape.at(table), 2):
            both = [c for c in options_of_rows[0][p].shown if c in options_of_rows[0][q].shown]
            slots_by_values: dict[tuple[NormalValue, ...], tuple[list[Slot], list[Slot]]] = {}
            for i, options in enumerate(options_of_rows):
                for side, place in enumerate((p, q) if p != q else (p,)):
                    shown_values = tuple(options[place].shown[c] for c in both)
                    slots_by_values.setdefault(shown_values, ([], []))[side].append((i, place))
            for ones, others in slots_by_values.values():
                if (ones and others) or (len(ones) > 1 and p == q):
                    yield ones, others


def _consistent_rows(coder: Coder, p: int, o: SegmentOptions) -> list[int]:
    """The rows of a position that agree with the shown values, those with few partners first."""
    base, tree = coder.base, coder.base.tree
    table = coder.shape.positions[p].table
    codes = {c: coder.code(table, c, v) for c, v in o.shown.items() if c in base.held[table]}
    rows = base.tables[table]
    for e in tree.around[p]:
        if all(c in codes for c in tree.columns(p, e)):
            full = tuple(codes.get(c, -1) for c in base.held[table])
            numbers = np.array(base.matching(p, e, base.key(p, e, full)), dtype=np.int64)
            break
    else:
        numbers = np.flatnonzero(base.present(p))
    for c, code in codes.items():
        numbers = numbers[rows.column(c)[numbers] == code]
    for h in o.hidden:
        numbers = numbers[_joinable_rows(coder, p, numbers, h)]
    consistent: list[int] = (
        _few_partners_first(base, p, numbers) if o.hidden else numbers
    ).tolist()
    return consistent


def _joinable_rows(coder: Coder, p: int, numbers: Codes, h: HiddenValue) -> Mask:
    """Which rows can join by a hidden value: not NULL, and within the types of the join class."""
    if h[0] == "place":
        return np.ones(len(numbers), dtype=bool)
    shape, column = coder.shape, coder.columns(p, h)[0]
    table = shape.positions[p].table
    codes = coder.base.tables[table].column(column)[numbers]
    types = {shape.positions[q].types[c] for q, c in shape.classes[h[1]]}
    if len({bounds(kind) for kind in types}) == 1:
        return codes >= 0
    distinct_codes, inverse = np.unique(codes, return_inverse=True)
    domain = coder.base.domains[table, column]
    fit = [code >= 0 and fits_types(domain.value(code), types) for code in distinct_codes.tolist()]
    return np.array(fit, dtype=bool)[inverse]


def _few_partners_first(base: BaseTables, p: int, numbers: Codes) -> Codes:
    """Rows ordered by the number of rows that they join with."""
    partners = np.zeros(len(numbers), dtype=np.int64)
    for e in base.tree.around[p]:
        other = base.index(base.tree.edges[e].across(p), e)
        partners += other.counts(base.keys(p, e)[numbers])
    ordered: Codes = numbers[np.argsort(partners, kind="stable")]
    return ordered


def _agrees_on_unheld(coder: Coder, p: int, o: SegmentOptions, number: int) -> bool:
    """Whether a row agrees with the shown values of columns not held in memory."""
    shown = shown_unheld_columns(coder.base, p)
    stored = coder.base_rows_of(coder.shape.positions[p].table, number) if shown else None
    if stored is None:
        return True
    return any(coder.unheld_values(p, r) == tuple(o.shown[c] for c in shown) for r in stored)
