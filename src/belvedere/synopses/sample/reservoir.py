"""The sample as join results, each a row number of every node: of fixed size, or Bernoulli (SJoin §5).

After deletions the sample drops lost results, draws as many again (all of it if the sample is at least half
of the join), and only then takes new results. No skip is pending meanwhile: see `kernels.sampling.skips`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from belvedere.errors import Invalid
from belvedere.kernels.hashes.interning import grown
from belvedere.kernels.sampling import skips
from belvedere.kernels.sampling.random_numbers import many_below, seeded, some_of
from belvedere.kernels.sampling.samples import DistinctSample, last_of
from belvedere.synopses.graph.plain_graph import PlainGraph, PlainWeighedBatch
from belvedere.synopses.graph.weighted_graph import WeighedBatch, WeightedGraph
from belvedere.synopses.sample import plain_skips


@dataclass(frozen=True)
class SampleKind:
    """The kind of a sample: a number of rows, with or without replacement, or a share of all results."""

    rows: int | None = None
    rate: float | None = None
    replacement: bool = False

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.rate is None):
            raise Invalid("a sample has either a number of rows or a rate", reason="BAD_VALUE")
        if self.rows is not None and self.rows < 1:
            raise Invalid(
                f"a sample of {self.rows} rows", hint="ask for one row or more", reason="BAD_VALUE"
            )
        if self.rate is not None and not 0 < self.rate <= 1:
            raise Invalid(
                f"a sampling rate of {self.rate:g}",
                hint="a rate is above 0 and at most 1",
                reason="BAD_VALUE",
            )
        if self.rate is not None and self.replacement:
            raise Invalid(
                "a rate WITH REPLACEMENT", hint="leave out WITH REPLACEMENT", reason="BAD_VALUE"
            )

    def __str__(self) -> str:
        if self.rate is not None:
            return f"{100 * self.rate:g} percent"
        return f"{self.rows} rows" + (" with replacement" if self.replacement else "")


class Reservoir(Protocol):
    """A sample under maintenance."""

    slots: Any
    filled: int

    def enter(self, graph: AnyGraph, node: int, rows: Any, weighed: Any) -> Any:
        """Sample the new results of a batch that is weighed but not yet added; the slots that changed."""
        ...

    def settle(self, graph: AnyGraph, lost: Lost) -> Any:
        """Drop the results that deletions removed, and draw as many again; the slots that changed."""
        ...


AnyGraph = WeightedGraph | PlainGraph
Lost = Callable[[Any], Any]
"""Which of some results, given as rows of nodes, no longer exist."""


def entries(graph: AnyGraph, node: int, rows: Any, weighed: Any, chosen: tuple[Any, Any]) -> Any:
    """The results that numbers within a batch's rows stand for."""
    at, rest = chosen
    if isinstance(graph, WeightedGraph):
        assert isinstance(weighed, WeighedBatch)
        return graph.rows_of(node, rows[at], weighed.vids[at], rest)
    assert isinstance(weighed, PlainWeighedBatch)
    results = [
        graph.rows_of(node, int(rows[i]), weighed.keys[i], r) for i, r in zip(at, rest, strict=True)
    ]
    return np.array(results, dtype=np.int32).reshape(len(results), graph.tree.nodes)


class _Slots:
    """Slots for results, and the state of the random numbers."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.state = seeded(seed)
        self.slots = np.empty((16, nodes), dtype=np.int32)
        self.filled = 0

    def _draw(self, graph: AnyGraph, count: int) -> Any:
        """Results drawn from the whole join, independently and with equal probability."""
        if isinstance(graph, WeightedGraph):
            return graph.draw(many_below(self.state, graph.size, count))
        return graph.draw(plain_skips.numbers(self.state, graph.size, count))

    def _put(self, graph: AnyGraph, node: int, rows: Any, weighed: Any, chosen: Any) -> Any:
        at, rest, slots = chosen
        if len(at):
            self.slots = grown(self.slots, int(np.max(slots)) + 1)
            if isinstance(graph, WeightedGraph):
                # The last of several entries into one slot stays.
                at, rest, slots = last_of(at, rest, slots, len(self.slots))
            self.slots[slots] = entries(graph, node, rows, weighed, (at, rest))
        return slots


class WithoutReplacement(_Slots):
    """A fixed number of distinct results."""

    def __init__(self, size: int, nodes: int, seed: int) -> None:
        super().__init__(nodes, seed)
        self.size = size
        self.distinct: DistinctSample | None = None

    def enter(self, graph: AnyGraph, node: int, rows: Any, weighed: Any) -> Any:
        """See `Reservoir`."""
        if isinstance(graph, WeightedGraph):
            chosen = skips.choose_without(
                self.state, self.size, self.filled, graph.size, weighed.each, weighed.index,
                weighed.total,
            )  # fmt: skip
        else:
            chosen = plain_skips.choose_without(
                self.state, self.size, self.filled, graph.size, weighed.weights
            )
        changed = self._put(graph, node, rows, weighed, chosen)
        self.filled = min(self.size, graph.size + weighed.total)
        if self.distinct is not None and len(changed):
            self.distinct.note(self.slots, np.asarray(changed), self.filled)
        return changed

    def settle(self, graph: AnyGraph, lost: Lost) -> Any:
        """See `Reservoir`."""
        wanted = min(self.size, graph.size)
        holes = np.flatnonzero(lost(self.slots[: self.filled]))
        if not len(holes) and wanted == self.filled:
            return holes
        self.slots = grown(self.slots, wanted)
        if 2 * self.size >= graph.size:
            self.slots[:wanted] = self._some_of_few(graph, wanted)
            self.distinct = None
            holes = np.arange(wanted)
        else:
            holes = np.concatenate([holes, np.arange(self.filled, wanted)])
            self._refill(graph, holes)
        self.filled = wanted
        return holes

    def _refill(self, graph: AnyGraph, holes: Any) -> None:
        """Draw until every hole has a result that is in no other slot."""
        if self.distinct is None:
            self.distinct = DistinctSample(self.size)
            whole = np.setdiff1d(np.arange(self.filled), holes)
            self.distinct.note(self.slots, whole, self.filled)
        done = 0
        while done < len(holes):
            drawn = self._draw(graph, len(holes) - done + 4)
            done = self.distinct.refill(self.slots, holes, done, drawn)

    def _some_of_few(self, graph: AnyGraph, wanted: int) -> Any:
        """DistinctSample results of a join that has at most twice as many results as slots."""
        chosen = some_of(self.state, graph.size, wanted)
        return graph.draw(chosen if isinstance(graph, WeightedGraph) else chosen.tolist())

    def enlarge(self, graph: AnyGraph, size: int, lost: Lost) -> Any:
        """Increase the number of slots, and fill them from the whole join."""
        self.size = size
        self.distinct = None
        return self.settle(graph, lost)


class WithReplacement(_Slots):
    """A fixed number of results, drawn independently."""

    def __init__(self, size: int, nodes: int, seed: int) -> None:
        super().__init__(nodes, seed)
        self.size = size

    def enter(self, graph: AnyGraph, node: int, rows: Any, weighed: Any) -> Any:
        """See `Reservoir`."""
        if isinstance(graph, WeightedGraph):
            chosen = skips.choose_with(
                self.state, self.size, graph.size, weighed.each, weighed.index, weighed.total
            )
        else:
            chosen = plain_skips.choose_with(self.state, self.size, graph.size, weighed.weights)
        changed = self._put(graph, node, rows, weighed, chosen)
        if graph.size + weighed.total:
            self.filled = self.size
        return changed

    def settle(self, graph: AnyGraph, lost: Lost) -> Any:
        """See `Reservoir`."""
        if not graph.size:
            self.filled = 0
            return np.empty(0, dtype=np.int64)
        gone = np.flatnonzero(lost(self.slots[: self.filled]))
        at = np.concatenate([gone, np.arange(self.filled, self.size)])
        self.slots = grown(self.slots, self.size)
        self.filled = self.size
        if len(at):
            self.slots[at] = self._draw(graph, len(at))
        return at

    def enlarge(self, graph: AnyGraph, size: int, lost: Lost) -> Any:
        """Increase the number of slots, and fill them from the whole join."""
        self.size = size
        return self.settle(graph, lost)


class Bernoulli(_Slots):
    """Every result with the same probability, independently."""

    def __init__(self, rate: float, most: int, nodes: int, seed: int) -> None:
        super().__init__(nodes, seed)
        self.rate = rate
        self.most = most

    def enter(self, graph: AnyGraph, node: int, rows: Any, weighed: Any) -> Any:
        """See `Reservoir`."""
        expected = self.rate * (graph.size + weighed.total)
        if expected > self.most:
            raise Invalid(
                f"{100 * self.rate:g} percent of the join are more rows than fit",
                detail=f"{self.rate:g} × {graph.size + weighed.total} join results = {expected:.0f}"
                f" rows; the limit is {self.most}",
                hint="sample a fixed number of rows, or a smaller share",
                reason="TOO_LARGE",
            )
        if isinstance(graph, WeightedGraph):
            chosen = skips.choose_coins(
                self.state, self.rate, self.filled, weighed.each, weighed.index, weighed.total
            )
        else:
            chosen = plain_skips.choose_coins(self.state, self.rate, self.filled, weighed.weights)
        changed = self._put(graph, node, rows, weighed, chosen)
        self.filled += len(changed)
        return changed

    def settle(self, graph: AnyGraph, lost: Lost) -> Any:
        """See `Reservoir`."""
        del graph
        before = self.slots[: self.filled]
        kept = before[~lost(before)]
        changed = np.arange(len(kept)) if len(kept) < self.filled else np.empty(0, dtype=np.int64)
        self.slots[: len(kept)] = kept
        self.filled = len(kept)
        return changed


def reservoir(
    kind: SampleKind, nodes: int, seed: int, most: int
) -> WithoutReplacement | WithReplacement | Bernoulli:
    """An empty sample of a kind."""
    if kind.rate is not None:
        return Bernoulli(kind.rate, most, nodes, seed)
    assert kind.rows is not None
    sort = WithReplacement if kind.replacement else WithoutReplacement
    return sort(kind.rows, nodes, seed)
