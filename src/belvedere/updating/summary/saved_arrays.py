"""A filter as arrays to save, and back: rows, counts, values, candidates. The rest is computed again."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from belvedere.joins.equijoin_tree import EquijoinTree, Keys
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.domains import Domain
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.loading import table_rows

Arrays = Mapping[str, npt.NDArray[Any]]


def filter_to_arrays(update_filter: UpdateFilter) -> dict[str, npt.NDArray[Any]]:
    """The arrays from which a filter can be rebuilt without its tables."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for t, table in enumerate(update_filter.base.held):
        rows = update_filter.base.tables[table]
        arrays[f"counts.{t}"] = rows.counts[: rows.size]
        for c, codes in enumerate(rows.codes):
            arrays[f"codes.{t}.{c}"] = codes[: rows.size]
        for p, member in rows.members.items():
            arrays[f"member.{t}.{p}"] = np.packbits(member[: rows.size])
    for d, domain in enumerate(_domains(update_filter.base)):
        arrays.update(_domain_arrays(d, domain))
    for p, candidate_rows in enumerate(update_filter.candidates):
        arrays[f"candidates.{p}"] = candidate_rows
    return arrays


def filter_from_arrays(
    arrays: Arrays,
    tree: EquijoinTree,
    held: Mapping[str, tuple[str, ...]],
    groups: list[list[list[str]]],
    keys: Keys,
) -> UpdateFilter:
    """The filter that was saved; `groups` are the columns of each domain."""
    domains: dict[tuple[str, str], Domain] = {}
    for d, group in enumerate(groups):
        domain = _domain_of(arrays, d)
        for table, column in group:
            domains[table, column] = domain
    base = BaseTables(tree, held, domains)
    for t, (table, columns) in enumerate(held.items()):
        counts = arrays[f"counts.{t}"]
        codes = [arrays[f"codes.{t}.{c}"] for c in range(len(columns))]
        members = {
            p: np.unpackbits(arrays[f"member.{t}.{p}"], count=len(counts)).astype(bool)
            for p in tree.block.at(table)
        }
        base.tables[table] = table_rows(columns, codes, counts, members)
    base.number_keys()
    candidates = [np.array(arrays[f"candidates.{p}"]) for p in range(len(tree.block.positions))]
    return UpdateFilter(base, keys, candidates)


def domain_groups(base: BaseTables) -> list[list[list[str]]]:
    """The columns of each domain, in the order in which domains are saved."""
    return [
        [list(at) for at, found in base.domains.items() if found is domain]
        for domain in _domains(base)
    ]


def _domains(base: BaseTables) -> list[Domain]:
    return list({id(d): d for d in base.domains.values()}.values())


def _domain_arrays(d: int, domain: Domain) -> dict[str, npt.NDArray[Any]]:
    if domain.numeric:
        later = np.array(domain.later, dtype=np.int64)
        return {f"values.{d}": domain.base, f"later.{d}": later}
    texts = [str(v).encode() for v in [*domain.base, *domain.later]]
    return {
        f"texts.{d}": np.frombuffer(b"".join(texts) or b"\0", dtype=np.uint8),
        f"ends.{d}": np.cumsum([0, *map(len, texts)]).astype(np.int64),
        f"sorted.{d}": np.array([len(domain.base)], dtype=np.int64),
    }


def _domain_of(arrays: Arrays, d: int) -> Domain:
    if f"values.{d}" in arrays:
        return Domain(np.array(arrays[f"values.{d}"]), True, arrays[f"later.{d}"].tolist())
    content, ends = arrays[f"texts.{d}"].tobytes(), arrays[f"ends.{d}"].tolist()
    texts = [content[a:b].decode() for a, b in itertools.pairwise(ends)]
    base = int(arrays[f"sorted.{d}"][0])
    return Domain(np.array(texts[:base], dtype=object), False, texts[base:])
