"""Capture: the instrumented query whose answer is a sketch, and the queries that load the engine's state.

    any query   μ(Q) = δ(π_f(A(Q)))                                        rules/annotate.py
    a block     for each feed and cut:  γ_{key, f; counts, sums}(feed)     its groups and F_g
                for each min and max:   the least values of each group     its bounded buffers

The state of a block contains its sketch, so a block is captured by its state alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.algebra.relations import Agg, Aggregate, Filter, Output, Project, Rel, TopK, Window
from belvedere.algebra.scalars import Scalar, call, col
from belvedere.algebra.types import parse
from belvedere.joins.partitions import Bitmap, Partition
from belvedere.rules.annotate import Cut, not_behind, sketch
from belvedere.sketches.capture.blocks import SketchBlock, argument_name, cut_name, key_name
from belvedere.sketches.engine.engine import SketchEngine
from belvedere.sketches.engine.measures import as_array

Run = Callable[[Rel], pa.Table]
"""Computes a plan over the tables at the vector of the capture."""

_FRAGMENT, _ROWS, _PLACE, _ALL = "f", "n", "place", "all"


def capture_bitmap(q: Rel, partition: Partition, run: Run) -> Bitmap:
    """The accurate sketch of any query, by the rules."""
    cut = Cut(partition.table, partition.column, partition.kind, partition.fragment_scalar)
    fragments = run(sketch(q, cut)).column(0)
    bitmap = np.zeros(partition.count, dtype=np.bool_)
    bitmap[np.asarray(fragments.to_numpy(), dtype=np.int64)] = True
    return bitmap


def capture_state(engine: SketchEngine, run: Run) -> None:
    """Fill an empty engine with the state of its block."""
    for number, feed in enumerate(engine.block.feeds):
        for place, partition in enumerate(feed.cuts or (None,)):
            plan = fragment_counts(engine, number, None if partition is None else place)
            _load_counts(engine, run(plan), first=place == 0, partition=partition)
    for argument, function in engine.buffers:
        for least in least_values(engine, argument, function):
            _load_least(engine, argument, function, run(least))
    engine.set_horizon()
    engine.finish()


def fragment_counts(engine: SketchEngine, feed: int, cut: int | None) -> Rel:
    """The plan that counts a feed's rows by group and fragment of a cut; that of the first cut also sums."""
    block, partitions = engine.block, engine.partitions
    outputs = _keys(block) + [
        Output(argument_name(i), col(argument_name(i))) for i in range(block.arguments)
    ]
    keys = tuple(o.name for o in _keys(block))
    if cut is not None:
        partition = partitions[block.feeds[feed].cuts[cut]]
        outputs.append(Output(_FRAGMENT, partition.fragment_scalar(col(cut_name(cut)))))
        keys = (*keys, _FRAGMENT)
    aggregates = [Agg(_ROWS, "count")]
    if not cut:
        for i in engine.sums:
            aggregates += _sums(i, engine.kinds[argument_name(i)])
    if not outputs:
        outputs = [Output("one", Scalar(exp.Literal.number(1)))]
    return Aggregate(Project(_first_rows(engine, feed), tuple(outputs)), keys, tuple(aggregates))


def _first_rows(engine: SketchEngine, feed: int) -> Rel:
    """The rows of a feed; of a top-k of rows, only those that the engine holds."""
    block, plan = engine.block, engine.block.feeds[feed].plan
    if engine.rows_held is None:
        return plan
    order = tuple(replace(o, column=key_name(block.keys.index(o.column))) for o in block.order)
    return not_behind(TopK(plan, order, engine.rows_held))


def _sums(argument: int, kind: str) -> list[Agg]:
    value = col(argument_name(argument))
    counts = [Agg(f"n{argument}", "count", (value,))]
    if parse(kind).is_exact:
        size = Agg(f"z{argument}", "max", (call("abs", value),))
        return [*counts, Agg(f"s{argument}", "sum", (value,)), size]
    if parse(kind).is_float:
        size = Agg(f"z{argument}", "sum", (call("abs", value),))
        return [*counts, Agg(f"s{argument}", "sum", (value,)), size]
    return counts


def least_values(engine: SketchEngine, argument: int, function: str) -> list[Rel]:
    """For each feed, the plan of the least (or greatest) values of each group, and its number of values."""
    block = engine.block
    keys = tuple(o.name for o in _keys(block))
    name = argument_name(argument)
    plans = []
    for feed in block.feeds:
        some = Filter(
            feed.plan, Scalar(exp.Not(this=exp.Is(this=col(name).expr, expression=exp.null())))
        )
        outputs = (*_keys(block), Output(name, col(name)))
        each = Aggregate(Project(some, outputs), (*keys, name), (Agg(_ROWS, "count"),))
        plans.append(_first(each, keys, name, function, engine.room))
    return plans


def _first(each: Rel, keys: tuple[str, ...], name: str, function: str, room: int) -> Rel:
    partition = [col(k).expr for k in keys]
    down = function == "max"
    order = exp.Order(
        expressions=[exp.Ordered(this=col(name).expr, desc=down, nulls_first=not down)]
    )
    place = exp.Window(this=exp.RowNumber(), partition_by=partition, order=order)
    total = exp.Window(this=exp.Sum(this=col(_ROWS).expr), partition_by=partition)
    functions = (Output(_PLACE, Scalar(place)), Output(_ALL, Scalar(total)))
    ranked = Window(each, keys, functions)
    last = exp.Literal.number(room)
    return Filter(ranked, Scalar(exp.LTE(this=col(_PLACE).expr, expression=last)))


def _keys(block: SketchBlock) -> list[Output]:
    return [Output(key_name(i), col(key_name(i))) for i in range(len(block.keys))]


def _load_counts(
    engine: SketchEngine, rows: pa.Table, *, first: bool, partition: int | None
) -> None:
    if not rows.num_rows or not rows[_ROWS].to_numpy().any():
        return
    counts = _numbers(rows, _ROWS)
    # The plan of the first cut counts the rows of groups, each plan those in its fragments.
    weights = counts if first else np.zeros(len(counts), dtype=np.int64)
    part = engine.part(
        [as_array(rows[key_name(i)]) for i in range(len(engine.block.keys))], weights
    )
    if first:
        for i in engine.sums:
            there = f"s{i}" in rows.column_names
            none = pa.nulls(rows.num_rows, pa.int64())
            total, sizes = (as_array(rows[f"{c}{i}"]) if there else none for c in "sz")
            engine.load_sums(i, part, _numbers(rows, f"n{i}"), total, sizes)
    if partition is not None:
        engine.count_fragments(part.weighing(counts), partition, _numbers(rows, _FRAGMENT))


def _load_least(engine: SketchEngine, argument: int, function: str, rows: pa.Table) -> None:
    if not rows.num_rows:
        return
    keys = [as_array(rows[key_name(i)]) for i in range(len(engine.block.keys))]
    part = engine.part(keys, np.zeros(rows.num_rows, dtype=np.int64))
    values = as_array(rows[argument_name(argument)])
    engine.load_least(argument, function, part, values, _numbers(rows, _ROWS), _numbers(rows, _ALL))


def _numbers(rows: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(rows[name].to_numpy(), dtype=np.int64)
