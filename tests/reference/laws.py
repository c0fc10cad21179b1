"""The laws every rule is held to; each raises for a counterexample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp, parse_one

from belvedere.algebra.hashing import bound, digest
from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    At,
    Change,
    Empty,
    Field,
    Filter,
    Hash,
    Keys,
    Output,
    Project,
    Rel,
    Restrict,
    Scan,
)
from belvedere.algebra.scalars import Scalar, call, col, lit
from belvedere.algebra.walks import at, bottom_up, each_once, nodes
from belvedere.analyses.keys import Declared, fewest, key
from belvedere.analyses.sizes import Column, Sizes, Statistics
from belvedere.analyses.spans import Spans, together
from belvedere.analyses.types import types
from belvedere.execution.strategies import Strategy
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows
from belvedere.rules.backward import backward
from belvedere.rules.delta import delta
from belvedere.rules.empties import without_empties
from belvedere.rules.lookups import LookUp, filled, leaf_of, look_ups, onto
from belvedere.rules.narrow import narrowed
from belvedere.rules.outward import outward
from belvedere.rules.restrict import push
from belvedere.rules.sample import sample
from belvedere.sql.binder.bind import Bound
from belvedere.sql.merges import Merge
from belvedere.sql.render import SIGN, is_signed, render
from belvedere.views import maintenance
from belvedere.views.definition import ViewDefinition
from belvedere.views.incremental.choice import choose_strategy
from belvedere.views.parts import assembled, called
from belvedere.views.sampling import Sampling, sampled_plan
from belvedere.views.state import Bag as BagState
from belvedere.views.state import Combine, Grouped, State, physical, state_of, stored_scan
from tests.reference.engine import Engine, source
from tests.reference.interpreter import Bag, Database, minus, net, plus

History = list[tuple[Database, set[str]]]
STORED = "stored"


def the_change_adds_up(q: Rel, db: Database, moving: set[str]) -> None:
    """Q(NEW) = Q(OLD) + ΔQ"""
    db = db.moving(moving)
    change = db.bag(delta(q, moving))
    assert plus(db.bag(at(q, At.OLD)), change) == db.bag(at(q, At.NEW))


def pushing_keeps_the_rows(q: Rel, db: Database, key: tuple[str, ...], wanted: Any) -> None:
    """push(K(Q)) = K(Q), for the key values wanted"""
    fields = tuple(Field(f"k{i}", f"k{i}", "int") for i in range(len(key)))
    keys = {"keys": Counter(dict.fromkeys(wanted, 1))}
    columns = {**db.columns, "keys": tuple(f.name for f in fields)}
    db = Database(columns, {**db.old, **keys}, {**db.new, **keys})
    restricted = Restrict(q, key, Keys(Scan("keys", fields)))
    assert db.bag(push(restricted)) == db.bag(restricted)


def turning_keeps_the_rows(q: Rel, db: Database, moving: set[str]) -> None:
    """outward(ΔQ) = ΔQ, whatever is known of sizes"""
    db, change = db.moving(moving), delta(q, moving)
    large = large_tables(db, moving)
    still = replace(large, rows={t: n if t in moving else 9 for t, n in large.rows.items()})
    for sizes in (None, Sizes(large), Sizes(still)):
        turned = outward(change, sizes)
        assert turned.columns == change.columns
        assert db.bag(turned) == db.bag(change)


def going_back_keeps_the_rows(q: Rel, db: Database, moving: set[str]) -> None:
    """backward(outward(ΔQ)) = ΔQ, in DuckDB too"""
    db, change = db.moving(moving), delta(q, moving)
    sizes = Sizes(large_tables(db, moving))
    turned = backward(outward(change, sizes), moving, sizes)
    assert {n.table for n in nodes(turned) if isinstance(n, Change)} <= moving
    assert turned.columns == change.columns
    assert db.bag(turned) == db.bag(change)
    the_sql_means_the_plan(turned, db)


def emptying_keeps_the_rows(q: Rel, db: Database, moving: set[str]) -> None:
    """without_empties(ΔQ) = ΔQ, where the changes of moving tables, or those tables, are empty"""
    for emptied in (Change, Scan):

        def none(node: Rel, kind: type = emptied) -> Rel:
            gone = isinstance(node, kind) and node.table in moving
            return Empty(node.columns) if gone else node

        change = bottom_up(delta(q), none)
        pruned = without_empties(change)
        assert pruned.columns == change.columns
        assert db.bag(pruned) == db.bag(change)


def narrowing_keeps_the_rows(q: Rel, db: Database, moving: set[str]) -> None:
    """narrowed(outward(ΔQ)) = ΔQ, with the ranges that the changes have"""
    db, change = db.moving(moving), delta(q, moving)
    known = large_tables(db, moving)
    turned = narrowed(outward(change, Sizes(known)), known)
    assert db.bag(turned) == db.bag(change)


def looking_up_keeps_the_rows(q: Rel, db: Database, moving: set[str]) -> None:
    """The change of Q over rows that are looked up = ΔQ; and again with what these rows tell"""
    db, change = db.moving(moving), delta(q, moving)
    plan, results = outward(change, Sizes(large_tables(db, moving))), set[str]()

    def known(leaf: Scan | Change) -> bool:
        return isinstance(leaf, Change) or leaf.table in results

    for number in range(3):
        plan, wanted = look_ups(plan, known, lambda asked: len(asked.sources))
        found = {}
        for place, asked in wanted.items():
            name = f"rows {number} {len(found)}"
            results.add(name)
            db = with_table(db, name, asked.leaf.table, rows_of(db, asked))
            found[place] = Scan(name, asked.leaf.fields)
        plan = filled(plan, found)
    assert db.bag(plan) == db.bag(change)


def picking_keeps_the_rows(q: Rel, db: Database) -> None:
    """Q's rows that have some values in a column = Q over its table's rows that have them (U5)"""
    q = at(q, At.NEW)
    for place, column in enumerate(q.columns):
        found = leaf_of(q, column)
        if found is None:
            continue
        leaf, source = found
        own = db.columns[leaf.table].index(source)
        every = sorted({row[own] for row in db.new[leaf.table]}, key=repr)
        values = {value for value in every[::2] if value is not None}
        rows = {row: n for row, n in db.new[leaf.table].items() if row[own] in values}
        fewer = with_table(db, "picked", leaf.table, Counter(rows))
        wanted = {row: n for row, n in db.bag(q).items() if row[place] in values}
        assert fewer.bag(onto(q, column, Scan("picked", leaf.fields))) == Counter(wanted)


def rows_of(db: Database, asked: LookUp) -> Bag:
    """The rows that a look-up finds."""
    values = {
        row[db.columns[table].index(column)]
        for table, column in asked.sources
        for row in minus(db.new[table], db.old[table])
    } - {None}
    wanted = values | {None} if asked.nulls else values
    there = (db.old if asked.leaf.at is At.OLD else db.new)[asked.leaf.table]
    place = db.columns[asked.leaf.table].index(asked.column)
    texts = [(db.columns[asked.leaf.table].index(c), text) for c, text in asked.only]
    return Counter(
        {
            row: count
            for row, count in there.items()
            if row[place] in wanted and all(row[c] == text for c, text in texts)
        }
    )


def with_table(db: Database, name: str, like: str, rows: Bag) -> Database:
    """The tables and one more, of the columns of another."""
    nothing: Bag = Counter()
    return Database(
        {**db.columns, name: db.columns[like]}, {**db.old, name: nothing}, {**db.new, name: rows}
    )


def large_tables(db: Database, moving: set[str]) -> Statistics:
    """What would be known if the tables were large and their changes small."""
    return Statistics(
        rows=dict.fromkeys(db.columns, 1e6),
        changed=dict.fromkeys(moving, 3),
        changed_within=spans_of(db, moving),
    )


def spans_of(db: Database, moving: set[str]) -> dict[Column, Spans]:
    found = {}
    for table in moving:
        rows = [*minus(db.new[table], db.old[table])]
        for place, column in enumerate(db.columns[table]):
            values = [row[place] for row in rows if row[place] is not None]
            if values:
                found[table, column] = together((v, v) for v in values)
    return found


def the_sql_means_the_plan(q: Rel, db: Database) -> None:
    """DuckDB's bag of the rendered plan is the reference's of the plan."""
    engine = Engine(db)
    assert engine.bag(q) == db.bag(q), engine.text(engine.query(q))


def the_sql_means_the_change(q: Rel, db: Database, moving: set[str]) -> None:
    """The same of a plan's change."""
    the_sql_means_the_plan(delta(q, moving), db.moving(moving))


def memory_agrees(q: Rel, db: Database) -> int:
    """Every part of a plan that is computed in memory has the plan's rows; how many were"""
    none = {c: "int" for node in each_once(q) if isinstance(node, Empty) for c in node.columns}
    memory, computed = Memory(lambda leaf: held(db, leaf), most=10_000, types=none), 0
    for node in each_once(q):
        try:
            rows = memory.rows(node)
        except Declined:
            continue
        assert rows.signed == is_signed(node)
        if not (isinstance(node, Aggregate | Filter) and "gain_n" in node.columns):
            # Groups whose rows cancel are there until they are filtered.
            assert as_bag(rows) == db.bag(node)
        computed += 1
    return computed


def memory_agrees_on_changes(q: Rel, db: Database, moving: set[str]) -> int:
    """The same of a plan's change, and of what its groups gain"""
    db, change = db.moving(moving), delta(q, moving)
    if isinstance(change, Empty):
        return 0
    first, *_, last = [*change.columns, *change.columns]
    aggregates = (Agg("gain_n", "count"), Agg("gain_s", "sum", (col(last),)))
    gained = Filter(Aggregate(change, (first,), aggregates), Scalar(parse_one("gain_n <> 0")))
    outputs = (*map(col, (first, "gain_n")), call("coalesce", col("gain_s"), lit(0)))
    names = (first, "gain_n", "gain_s")
    return memory_agrees(Project(gained, tuple(map(Output, names, outputs))), db)


def held(db: Database, leaf: Scan | Change) -> pa.Table:
    """The rows of a leaf in Arrow, with their counts if it is a change."""
    every = Scan(leaf.table, tuple(Field(c, c, "int") for c in db.columns[leaf.table]))
    if isinstance(leaf, Change):
        counts = db.bag(Change(every.table, every.fields))
    else:
        counts = db.bag(replace(every, at=leaf.at))
    rows = list(counts) if isinstance(leaf, Change) else list(counts.elements())
    schema = pa.schema([pa.field(c, pa.int32()) for c in every.columns])
    table = pa.Table.from_pylist([dict(zip(every.columns, r, strict=True)) for r in rows], schema)
    if not isinstance(leaf, Change):
        return table
    return table.append_column(SIGN, pa.array([counts[r] for r in rows], pa.int64()))


def as_bag(rows: Rows) -> Bag:
    """Rows in memory with their counts."""
    found: Bag = Counter()
    for row, sign in zip(rows.with_signs(None).table.to_pylist(), rows.signs, strict=True):
        found[tuple(row.values())] += int(sign)
    return net(found)


def parts_hold_their_groups(q: Rel, db: Database) -> None:
    """A plan over its aggregates as parts, each filled from those inside it = the plan"""
    places = inner_aggregates(q)
    found = tuple((i, called(each_once(q)[i])) for i in reversed(places))
    columns = tuple((c, c) for c in q.columns)
    definition = ViewDefinition("v", "v", "", "AUTO", {}, (), types(q, ask), parts=found)
    view, engine = assembled(definition, Bound(q, columns), "__bv_v"), Engine(db)
    stored = {part.stored for part in view.every_part}
    assert bool(stored) == bool(places)

    def leaf(scan: Scan | Change) -> exp.Table:
        return exp.to_table(scan.table) if scan.table in stored else source(scan)

    for part in view.every_part:
        engine.store(part.stored, maintenance.stored_rows_query(part.state, leaf))
    assert Counter(engine.rows(render(view.plan, leaf))) == engine.bag(q)


def inner_aggregates(q: Rel) -> list[int]:
    """The places of the aggregates below the root."""
    return [i for i, node in enumerate(each_once(q)) if i and isinstance(node, Aggregate)]


def the_stored_rows_follow(q: Rel, history: History, *, recompute: bool = False) -> None:
    """After every round the stored rows are those of a rebuild, and read as the definition.

    Groups are merged where that is the strategy chosen; with `recompute`, always replaced.
    """
    known = types(q, ask)
    state = state_of(q, known)
    Engine(history[0][0]).store(STORED, maintenance.stored_rows_query(_old(state), source))
    rebuild = maintenance.stored_rows_query(state, source)
    for db, moving in history:
        engine = Engine(db)
        engine.write(STORED, *_advance(state, known, db, moving, recompute=recompute))
        rebuilt = engine.rows(rebuild)
        assert _comparable(state, _stored(engine)) == _comparable(state, rebuilt)
        shown = state.read(_pinned(stored_scan(state, STORED, known)))
        assert engine.bag(shown) == db.bag(at(q, At.NEW))


def _advance(
    state: State, known: Mapping[str, str], db: Database, moving: set[str], *, recompute: bool
) -> tuple[exp.Query, Merge]:
    strategy = Strategy.REPLACE if recompute else _chosen(state, known, db, moving)
    planned = maintenance.plan_change(state, strategy, moving, known, large_tables(db, moving))
    query = planned.query(planned.change.query(source), exp.to_table(STORED))
    return query, planned.merge


def _chosen(state: State, known: Mapping[str, str], db: Database, moving: set[str]) -> Strategy:
    changes = [minus(db.new[t], db.old[t]) for t in moving]
    inserts_only = all(m > 0 for change in changes for m in change.values())
    return choose_strategy(state, known, moving, inserts_only=inserts_only).strategy


def ask(texts: Mapping[str, str], known: Mapping[str, str]) -> Mapping[str, str]:
    """The types of expressions over integers, near enough to Spark's."""

    def kind(text: str) -> str:
        e = parse_one(text, dialect="spark")
        if isinstance(e, exp.Count):
            return "bigint"
        if e.find(exp.Avg) or any(known[c.name] == "double" for c in e.find_all(exp.Column)):
            return "double"
        return "bigint" if e.find(exp.Sum, exp.Count) else "int"

    return {name: kind(text) for name, text in texts.items()}


def _old(state: State) -> State:
    """The same state over the recorded versions."""
    if isinstance(state, BagState):
        return BagState(at(state.plan, At.OLD), state.above)
    return Grouped(at(state.child, At.OLD), state.keys, state.parts, state.above, state.finish)


def _pinned(scan: Scan) -> Scan:
    return Scan(scan.table, scan.fields, at=0)


def _stored(engine: Engine) -> list[tuple[Any, ...]]:
    return engine.rows(exp.select("*").from_(STORED))


def _comparable(state: State, rows: list[tuple[Any, ...]]) -> Bag:
    """Stored rows as a bag; a running sum of no values may stand as NULL or as zero."""
    if isinstance(state, BagState):
        return Counter(rows)
    sums = {p.agg.name for p in state.parts if p.combine is Combine.ADD}
    places = [c in sums for c in state.columns]
    return Counter(
        tuple(0 if s and v is None else v for s, v in zip(places, row, strict=True)) for row in rows
    )


def sampling_keeps_the_rows(q: Rel, db: Database, key: tuple[str, ...], by: Hash) -> None:
    """η(Q) pushed down = the rows of Q whose digest is below the bound, in DuckDB too"""
    sampled = sample(q, key, by, dict.fromkeys(q.columns, "int") | types(q, ask)).plan
    place = [q.columns.index(k) for k in key]
    below = bound(by.ratio)
    kept = {r: m for r, m in db.bag(q).items() if digest([r[i] for i in place], by.seed) < below}
    assert db.bag(sampled) == Counter(kept)
    the_sql_means_the_plan(sampled, db)


def a_key_has_no_duplicates(q: Rel, db: Database, declared: Declared) -> bool:
    """No two rows agree on the key that the analysis claims; whether it claims one"""
    found = key(q, declared)
    if found is None:
        return False
    place = [q.columns.index(k) for k in found.columns]
    rows = list(db.bag(q).elements())
    values = [tuple(r[i] for i in place) for r in rows]
    assert len(set(values)) == len(values), (found, rows)
    if found.solid:
        assert not any(all(v is None for v in row) for row in values)
    return True


def fewer_columns_tell_as_many_rows_apart(
    q: Rel, db: Database, columns: tuple[str, ...], declared: Declared
) -> bool:
    """Columns and those of them that determine the others have as many values; whether fewer do"""
    fewer = fewest(q, columns, declared)
    assert set(fewer) <= set(columns)

    def values(names: tuple[str, ...]) -> int:
        place = [q.columns.index(c) for c in names]
        return len({tuple(r[i] for i in place) for r in db.bag(q)})

    assert values(fewer) == values(columns)
    return len(fewer) < len(columns)


def cleaning_is_the_refresh_of_the_sample(q: Rel, db: Database, moving: set[str], by: Hash) -> None:
    """push(η(M)) = the M of the sampled view, for every way a refresh can take"""
    db, known = db.moving(moving), types(q, ask)
    state = state_of(q, known)
    key_columns = state.keys if isinstance(state, Grouped) else state.columns
    if not key_columns:
        return
    sampled = state_of(
        sampled_plan(q, Sampling("v", key_columns, True, by.ratio, by.seed), known), known
    )
    assert type(sampled) is type(state)
    names = physical(state)
    stored = {**dict.fromkeys((*names.values(), *(f"__k{i}" for i in range(9))), "int"), **known}
    for strategy in (Strategy.MERGE, Strategy.REPLACE):
        merges = not isinstance(state, Grouped) or state.adds(inserts_only=False)
        if strategy is Strategy.MERGE and not merges:
            continue
        sizes = large_tables(db, moving)
        full, own = (
            maintenance.plan_change(s, strategy, moving, known, sizes) for s in (state, sampled)
        )
        cleaned = sample(full.change.plan, tuple(names[k] for k in key_columns), by, stored).plan
        assert db.bag(cleaned) == db.bag(own.change.plan)
        assert full.merge == own.merge
