"""Load base tables into memory: number values, count equal rows, evaluate selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.joins.normal_form import JoinBlock
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import true
from belvedere.updating.summary.base_tables import BaseTables, Mask, TableRows, resized
from belvedere.updating.summary.domains import NULL, Codes, Domain, is_numeric, normalize_column
from belvedere.updating.updatable_block import uncomputed

if TYPE_CHECKING:
    from belvedere.kernels.hashes.interning import Interner


def load_base(
    tree: EquijoinTree, held: Mapping[str, tuple[str, ...]], tables: Mapping[str, pa.Table]
) -> BaseTables:
    """The base of a view, from the used columns of all tables."""
    shape = tree.block
    groups = _domain_groups(shape, held)
    normals = {
        (t, c): normalize_column(tables[t][c], shape.used[t][c]) for t in held for c in held[t]
    }
    domains: dict[tuple[str, str], Domain] = {}
    for group in groups:
        table, column = next(iter(group))
        known_values = [values[~nulls] for values, nulls in (normals[g] for g in group)]
        all_values = np.concatenate(known_values)
        numeric = is_numeric(shape.used[table][column])
        domain = Domain.of_integers(all_values) if numeric else Domain.of_texts(list(all_values))
        domains.update(dict.fromkeys(group, domain))
    base = BaseTables(tree, held, domains)
    for table in held:
        codes = []
        for column in held[table]:
            codes.append(_encode(domains[table, column], *normals[table, column]))
        base.tables[table] = _distinct_rows(shape, table, tables[table], held[table], codes)
    base.number_keys()
    return base


def _encode(domain: Domain, values: npt.NDArray[Any], nulls: Mask) -> Codes:
    """The numbers of values, with NULL as -1."""
    codes = np.full(len(values), NULL, dtype=np.int64)
    codes[~nulls] = domain.codes_of(values[~nulls])
    return codes


def encode_rows(base: BaseTables, table: str, rows: pa.Table) -> Codes:
    """Rows of a table as an array of numbers."""
    types = base.shape.used[table]
    columns = [
        _encode(base.domains[table, c], *normalize_column(rows[c], types[c]))
        for c in base.held[table]
    ]
    return np.stack(columns, axis=1)


def _distinct_rows(
    shape: JoinBlock, table: str, rows: pa.Table, held: tuple[str, ...], codes: list[Codes]
) -> TableRows:
    """Rows that agree on the held columns as one row with a count."""
    from belvedere.kernels.hashes.interning import Interner

    interner = Interner(len(held))
    numbers = interner.ids(np.stack(codes, axis=1))
    # The first of equal rows represents them: assigned last, it stays.
    first_places = np.zeros(interner.size, dtype=np.int64)
    first_places[numbers[::-1]] = np.arange(rows.num_rows - 1, -1, -1)
    counts = np.bincount(numbers, minlength=interner.size).astype(np.int64)
    members = {p: selected_rows(shape, p, rows)[first_places] for p in shape.at(table)}
    return table_rows(held, [c[first_places] for c in codes], counts, members, interner)


def table_rows(
    columns: tuple[str, ...],
    codes: Sequence[Codes],
    counts: Codes,
    members: Mapping[int, Mask],
    interner: Interner | None = None,
) -> TableRows:
    """Rows of a table, with spare room."""
    size = len(counts)
    roomy_members = {p: resized(member, size + 1) for p, member in members.items()}
    roomy_codes = [resized(c, size + 1) for c in codes]
    return TableRows(columns, roomy_codes, resized(counts, size + 1), size, roomy_members, interner)


def selected_rows(shape: JoinBlock, position: int, rows: pa.Table) -> Mask:
    """Which rows of a table satisfy the selection of a position."""
    place = shape.positions[position]
    if not place.selection.conjuncts:
        return np.ones(rows.num_rows, dtype=bool)
    try:
        mask: Mask = (
            true(place.selection, rows, place.types).to_numpy(zero_copy_only=False).astype(bool)
        )
    except (Declined, pa.ArrowInvalid) as why:
        raise uncomputed(place.table, place.selection, str(why)) from why
    return mask


def _domain_groups(
    shape: JoinBlock, held: Mapping[str, tuple[str, ...]]
) -> list[set[tuple[str, str]]]:
    """Groups of columns whose values share a domain."""
    groups: list[set[tuple[str, str]]] = [{(t, c)} for t in held for c in held[t]]
    for members in shape.classes:
        together = {(shape.positions[p].table, c) for p, c in members}
        touching = [g for g in groups if g & together]
        groups = [g for g in groups if not g & together]
        groups.append(together.union(*touching))
    return groups
