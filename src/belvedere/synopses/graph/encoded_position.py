"""A position's rows in codes: for each row whether it takes part in the join, and the codes of its terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.algebra.scalars import Scalar
from belvedere.kernels.hashes.interning import Interner, grown
from belvedere.kernels.rows import at as rows_at
from belvedere.kernels.rows import chosen, mark, put
from belvedere.synopses.estimate.values import true, value
from belvedere.synopses.graph.references import ReferenceIndex
from belvedere.synopses.plan.synopsis_plan import JoinTerm, SynopsisPlan
from belvedere.synopses.plan.value_codes import BandCode, EqualityCode, codes, one_array, validity


class EncodedBatch:
    """A batch at a position: which rows take part, and the codes of their terms."""

    def __init__(
        self, take: Any, words: dict[JoinTerm, list[Any]], *, everyone: bool = False
    ) -> None:
        self.take = take
        self.words = words
        self.everyone = everyone

    def of(self, ids: Any) -> Any:
        """From the numbers of a batch's rows, those of the rows that take part."""
        return ids if self.everyone else chosen(ids, self.take)

    def matrix(self, terms: tuple[JoinTerm, ...]) -> Any:
        """The codes of some terms, as the columns of a matrix."""
        columns = [w for t in terms for w in self.words[t]]
        if len(columns) == 1:
            return columns[0].reshape(-1, 1)
        return np.stack(columns, axis=1)


class EncodedPosition:
    """One position: the codes of its terms by row, kept until a row enters its node."""

    def __init__(self, plan: SynopsisPlan, number: int) -> None:
        self.plan = plan
        self.number = number
        self.position = plan.block.positions[number]
        self.filter = plan.block.positions[number].filter
        self.types = {f.name: f.type for f in self.position.fields}
        self.sources = {f.name: (f.source, f.type) for f in self.position.fields}
        self.part = np.zeros(64, dtype=bool)
        """Which rows take part: their filter is true and no term is NULL."""
        self.terms = self._terms()
        self.kept: dict[str, Any] = {}
        """For each edge whose key is in this position alone the key's number by row, else the words of each term."""

    def _terms(self) -> list[JoinTerm]:
        terms: dict[JoinTerm, None] = {}
        for reference in self.plan.references:
            for term in (*reference.own, *reference.key):
                terms[term] = None
        for compared in self.plan.edge_terms:
            for pair in (*compared.equal, *([compared.band] if compared.band else [])):
                terms |= dict.fromkeys(pair)
        return [t for t in terms if t.position == self.number]

    def code(self, rows: pa.Table) -> EncodedBatch:
        """Which rows of a batch take part, and their codes; this keeps nothing."""
        take: Any = None
        if self.filter is not None:
            take = true(self.filter, self._named(rows), self.types)
        words = {}
        for term in self.terms:
            array, kind = self._column(rows, term.scalar)
            if array.null_count:
                valid = validity(array)
                take = valid if take is None else take & valid
            words[term] = _words(array, kind, term.code)
        if take is None:
            return EncodedBatch(np.ones(rows.num_rows, dtype=bool), words, everyone=True)
        return EncodedBatch(take, {t: [chosen(w, take) for w in ws] for t, ws in words.items()})

    def _named(self, rows: pa.Table) -> pa.Table:
        names = {f.name: rows[f.source] for f in self.position.fields}
        return pa.table(names)

    def _column(self, rows: pa.Table, scalar: Scalar) -> tuple[pa.Array, str]:
        """The values of a scalar over a batch, and their type."""
        if scalar.column is not None:
            source, kind = self.sources[scalar.column]
            return one_array(rows[source]), kind
        computed = value(scalar, self._named(rows), self.types)
        return one_array(computed.data), computed.kind

    def admit(self, rows: Any, bound: int) -> None:
        """Let rows take part from now on."""
        self.part = grown(self.part, bound)
        mark(self.part, rows, True)

    def name(self, term: JoinTerm, word: int = 0) -> str:
        """The name under which a word of a term's codes is kept."""
        return f"term {self.terms.index(term)}.{word}"

    def keep(self, name: str, rows: Any, values: Any, bound: int) -> None:
        """Keep values of rows under a name."""
        column = self.kept.get(name)
        if column is None:
            column = np.zeros(64, dtype=values.dtype)
        column = grown(column, bound)
        put(column, rows, values)
        self.kept[name] = column


def _words(array: pa.Array, kind: str, code: EqualityCode | BandCode) -> list[Any]:
    return [code.numbers(array, kind)] if isinstance(code, BandCode) else codes(array, kind, code)


class EdgeKeys:
    """The keys of an edge's equalities, with one numbering for both nodes."""

    def __init__(self, plan: SynopsisPlan, edge: int) -> None:
        self.edge_terms = plan.edge_terms[edge]
        self.edge = edge
        words = sum(
            t.code.words for t, _ in self.edge_terms.equal if isinstance(t.code, EqualityCode)
        )
        self.names = Interner(words) if words else None
        self._homes: dict[int, int | None] = {}
        self._terms: dict[int, tuple[JoinTerm, ...]] = {}
        self.ends = (plan.tree.edges[edge].left, plan.tree.edges[edge].right)

    def terms(self, node: int) -> tuple[JoinTerm, ...]:
        """The terms of the equalities on one node's side."""
        if node not in self._terms:
            at = self.ends.index(node)
            self._terms[node] = tuple(pair[at] for pair in self.edge_terms.equal)
        return self._terms[node]

    def value(self, node: int) -> JoinTerm | None:
        """The term of the band on one node's side; None without a band."""
        band = self.edge_terms.band
        return band[self.ends.index(node)] if band else None

    def home(self, node: int) -> int | None:
        """The position that has all of the edge's terms on one node's side, if there is one."""
        if node not in self._homes:
            homes = {t.position for t in self.terms(node)}
            self._homes[node] = homes.pop() if len(homes) == 1 else None
        return self._homes[node]


def keep_edge_terms(
    position: EncodedPosition, keys: EdgeKeys, node: int, rows: Any, coded: EncodedBatch, bound: int
) -> None:
    """Keep what an edge compares of new rows of a position: the number of the key, or the terms' words."""
    terms = keys.terms(node)
    if keys.names is not None and keys.home(node) == position.number:
        position.keep(f"edge {keys.edge}", rows, keys.names.ids(coded.matrix(terms)), bound)
    else:
        for term in terms:
            if term.position == position.number:
                for n, words in enumerate(coded.words[term]):
                    position.keep(position.name(term, n), rows, words, bound)
    value_term = keys.value(node)
    if value_term is not None and value_term.position == position.number:
        position.keep(position.name(value_term), rows, coded.words[value_term][0], bound)


def edge_keys_of(
    positions: list[EncodedPosition], keys: EdgeKeys, node: int, at: dict[int, Any]
) -> tuple[Any, Any]:
    """For rows of a node, given by their rows at each position: the edge's key numbers and band values."""
    terms = keys.terms(node)
    home = keys.home(node)
    count = len(next(iter(at.values())))
    if keys.names is None:
        numbers = np.zeros(count, dtype=np.int32)
    elif home is not None:
        numbers = rows_at(positions[home].kept[f"edge {keys.edge}"], at[home])
    else:
        columns = [
            positions[t.position].kept[positions[t.position].name(t, n)][at[t.position]]
            for t in terms
            for n in range(t.code.words if isinstance(t.code, EqualityCode) else 1)
        ]
        numbers = keys.names.ids(np.stack(columns, axis=1))
    value_term = keys.value(node)
    if value_term is None:
        return numbers, None
    position = positions[value_term.position]
    return numbers, rows_at(position.kept[position.name(value_term)], at[value_term.position])


def reference_indexes(plan: SynopsisPlan) -> list[ReferenceIndex]:
    """An empty index for each reference of a plan."""
    return [
        ReferenceIndex(sum(t.code.words for t in r.own if isinstance(t.code, EqualityCode)))
        for r in plan.references
    ]
