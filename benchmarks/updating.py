"""Updates through views: how fast and how right side effects are found (JCard's Table 3 and figures).

    python -m benchmarks.updating [--quick] [--spark q03 q07] [--plot FILE]

All join queries of TPC-H, rows sampled to 25 %, insertions from the view of the whole data. The
last line is JSON. Without --spark no JVM is started; with it, the summaries of some
queries are also built on Spark.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.updating.asked import Coder, ViewRow
from belvedere.updating.base import held_columns
from belvedere.updating.building import build
from belvedere.updating.checks import Checker, Mode
from belvedere.updating.constraints import BaseRow, TableRules
from belvedere.updating.estimate import THETA
from belvedere.updating.evaluation import auc, deletable, errors, roc
from belvedere.updating.exact import Changes, NewRow, effect
from belvedere.updating.fillings import Order
from belvedere.updating.filter import Filter, make_filter
from belvedere.updating.full import FullPropagation, everything
from belvedere.updating.roots import choose_root
from belvedere.updating.state import best_root
from belvedere.updating.trees import join_tree
from benchmarks.tpch import data
from benchmarks.updating_data import (
    BIBLIOGRAPHY,
    BIBLIOGRAPHY_KEYS,
    BIBLIOGRAPHY_QUERY,
    COLUMNS,
    JOINS,
    KEYS,
    SAME,
    Synthetic,
    Tpch,
    as_arrow,
    bibliography,
    filter_over,
    shape_of,
)

CACHE = Path(".cache/benchmarks")
EACH = 500
PERCENT = 25
SHARES = (0.0, 0.02, 0.06, 0.10)
CYCLIC = "q05 cyclic"
Row = Mapping[str, Any]


def new_rows(made: Filter, row: Row) -> tuple[Changes, Coder]:
    """The base rows that an insertion puts in."""
    coder = Coder(made.base)
    new: dict[str, dict[NewRow, None]] = {}
    for p, segment in enumerate(made.segments(row, coder)):
        if segment.number is None:
            table = made.shape.positions[p].table
            new.setdefault(table, {})[coder.coded(table, coder.known(p, ViewRow(row)))] = None
    return Changes({}, {t: tuple(r) for t, r in new.items()}), coder


def has_side_effects(made: Filter, row: Row) -> bool:
    """Whether an insertion has side effects, by the indexed exact check."""
    changes, coder = new_rows(made, row)
    asked = coder.signature(ViewRow(row))
    found = effect(made.base, changes, asked=[asked], most=1, steps=50_000_000)
    return bool(found.added.keys() - {asked})


def labelled(made: Filter, rows: Sequence[Row], each: int) -> list[tuple[Row, bool]]:
    """Insertions of rows that the view does not have: so many with side effects, and without."""
    found: dict[bool, list[tuple[Row, bool]]] = {True: [], False: []}
    for row in rows:
        if all(len(some) >= each for some in found.values()):
            break
        if any(s.number is None for s in made.segments(row)):
            real = has_side_effects(made, row)
            if len(found[real]) < each:
                found[real].append((row, real))
    return found[True] + found[False]


def timed(run: Callable[[Any], object], over: Sequence[Any]) -> float:
    """The mean milliseconds of a call."""
    began = time.perf_counter()
    for each in over:
        run(each)
    return (time.perf_counter() - began) / max(len(over), 1) * 1000


@dataclass
class Figures:
    """What was found for one query."""

    name: str
    root: int = 0
    insertions: int = 0
    positives: int = 0
    fp: float = 0.0
    fn: float = 0.0
    check_ms: float = 0.0
    full_ms: float = 0.0
    indexed_ms: float = 0.0
    eds_ms: float = 0.0
    summary: float = 0.0
    build_s: float = 0.0
    maintain_ms: float = 0.0
    auto_wrong: int = 0
    auto_tried: int = 0
    roc: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    ablations: dict[str, list[float]] = field(default_factory=dict)


class DuckSource:
    """Rows of the sampled tables by value."""

    def __init__(self, tpch: Tpch) -> None:
        self.connection = tpch.connection

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        condition = " AND ".join(f"{c} = {v}" for c, v in equal.items()) or "true"
        text = f"SELECT * FROM {table} WHERE {condition}"
        found: list[BaseRow] = self.connection.execute(text).to_arrow_table().to_pylist()
        return found


def measured(tpch: Tpch, name: str, each: int, tried: int) -> tuple[Figures, Filter]:
    """All figures of one query."""
    shape = shape_of(name)
    tables = tpch.tables(shape)
    began = time.perf_counter()
    made = make_filter(shape, tables, KEYS, root=0, share=0.1)
    figures = Figures(name, build_s=time.perf_counter() - began)
    rows = list(tpch.insertions(name, 60_000 if name == CYCLIC else 8_000, 1))
    half = len(rows) // 2
    training = labelled(made, rows[:half], 100)
    roots = sorted({0, best_root(shape, KEYS), len(shape.positions) - 1})
    chosen = choose_root(roots, lambda r: made if r == 0 else made.rooted(r), training)
    made = made if chosen.root == 0 else made.rooted(chosen.root)
    figures.root = chosen.root
    sample = labelled(made, rows[half:], each)
    scored = [(made.estimate(made.segments(row)).rows, real) for row, real in sample]
    found = errors(scored, THETA)
    figures.fp, figures.fn = found.fp, found.fn
    figures.insertions, figures.positives = len(sample), sum(real for _, real in sample)
    random.Random(3).shuffle(sample)
    plain = [row for row, _ in sample]
    figures.check_ms = timed(lambda row: made.estimate(made.segments(row)), plain)
    full, all_rows = FullPropagation(made), everything(made)
    figures.full_ms = timed(lambda row: full.estimate(made.segments(row)), plain[:20])
    figures.eds_ms = timed(lambda row: all_rows.estimate(made.segments(row)), plain[:5])
    figures.indexed_ms = timed(lambda row: has_side_effects(made, row), plain[:200])
    figures.summary = made.summary.bytes / sum(t.nbytes for t in tables.values())
    figures.auto_tried, figures.auto_wrong = against_brute_force(tpch, made, name, sample[:tried])
    if name == "q07":
        figures.roc = curves(made, sample)
        figures.ablations = ablations(made, sample)
    return figures, made


def against_brute_force(
    tpch: Tpch, made: Filter, name: str, sample: Sequence[tuple[Row, bool]]
) -> tuple[int, int]:
    """AUTO's answers against the view computed with and without the new rows."""
    rules = {t: TableRules(dict.fromkeys(COLUMNS[t], "bigint"), KEYS[t]) for t in made.shape.tables}
    checker = Checker(made, rules, DuckSource(tpch))
    before, wrong = tpch.count(name), 0
    for row, _ in sample:
        new: dict[str, list[tuple[Any, ...]]] = {}
        coder = Coder(made.base)
        for p, segment in enumerate(made.segments(row, coder)):
            if segment.number is None:
                table = made.shape.positions[p].table
                known = coder.known(p, ViewRow(row))
                new.setdefault(table, []).append(tuple(known[c] for c in COLUMNS[table]))
        real = tpch.count(name, new) - before > 1
        answer = checker.check([], [ViewRow(row)], Mode.AUTO).possible
        wrong += answer != ("no" if real else "yes")
    return len(sample), wrong


def curves(
    made: Filter, sample: Sequence[tuple[Row, bool]]
) -> dict[str, list[tuple[float, float]]]:
    """ROC points over the threshold, for several shares of candidates; then hard updates alone."""
    found = {}
    for share in SHARES:
        made.candidates_of(share)
        scored = [(made.estimate(made.segments(row)).rows, real) for row, real in sample]
        found[f"{share:.0%} candidates"] = roc(scored)
    made.candidates_of(0.0)
    hard = [(row, real) for row, real in sample if not real or tiny(made, row)]
    scored = [(made.estimate(made.segments(row)).rows, real) for row, real in hard]
    found[f"hard updates only ({sum(r for _, r in hard)} with one side effect)"] = roc(scored)
    made.candidates_of(0.1)
    return found


def tiny(made: Filter, row: Row) -> bool:
    """Whether an insertion has exactly one side effect."""
    changes, coder = new_rows(made, row)
    asked = coder.signature(ViewRow(row))
    return len(effect(made.base, changes, asked=[asked], most=2, steps=50_000_000).added) == 2


def ablations(made: Filter, sample: Sequence[tuple[Row, bool]]) -> dict[str, list[float]]:
    """FP and FN with 2 % candidates: the best, random ones, and none but them (Exp. D)."""
    made.candidates_of(0.02)
    best = made.candidates
    dice = np.random.default_rng(8)
    found = {"best": _both(made, sample)}
    made.candidates = [
        np.sort(dice.choice(np.flatnonzero(x), len(c), replace=False))
        for x, c in zip(made.graph.extended, best, strict=True)
    ]
    made.summary = made._summarized()
    found["random"] = _both(made, sample)
    whole = made.graph.extended
    made.graph.extended = [np.isin(np.arange(len(x)), c) for x, c in zip(whole, best, strict=True)]
    made.candidates = best
    made.summary = made._summarized()
    found["without classes"] = _both(made, sample)
    made.graph.extended = whole
    made.candidates_of(0.1)
    return found


def _both(made: Filter, sample: Sequence[tuple[Row, bool]]) -> list[float]:
    found = errors([(made.estimate(made.segments(r)).rows, real) for r, real in sample], THETA)
    return [round(found.fp, 4), round(found.fn, 4)]


def maintained(tpch: Tpch, made: Filter, rows: int = 1000) -> float:
    """Milliseconds of a batch in the mix of TPC-H's refresh functions: orders in, orders out."""
    connection = tpch.connection
    nets: dict[str, pa.Table] = {}
    signs: dict[str, list[int]] = {}
    orders = rows // 10
    for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        if table not in made.shape.tables:
            continue
        old = f"(SELECT o_orderkey FROM orders ORDER BY hash(o_orderkey, 5) LIMIT {orders})"
        new = f"(SELECT o_orderkey FROM whole_orders ORDER BY hash(o_orderkey, 6) LIMIT {orders})"
        gone = connection.execute(f"SELECT * FROM {table} WHERE {key} IN {old}").to_arrow_table()
        listed = ", ".join(f"{c} + 8 AS {c}" if c == key else c for c in COLUMNS[table])
        come = connection.execute(
            f"SELECT {listed} FROM whole_{table} WHERE {key} IN {new}"
        ).to_arrow_table()
        nets[table] = pa.concat_tables([gone, come.cast(gone.schema)])
        signs[table] = [-1] * gone.num_rows + [1] * come.num_rows
    if not nets:
        return 0.0
    began = time.perf_counter()
    made.advance(nets, signs)
    return (time.perf_counter() - began) * 1000


def on_bibliography(papers: int) -> dict[str, Any]:
    """FP, FN and AUC on the bibliography, and how long deletions take with lineage."""
    whole, some = bibliography(papers, 0.5, 11)
    made = filter_over(
        BIBLIOGRAPHY_QUERY, BIBLIOGRAPHY, as_arrow(BIBLIOGRAPHY, some), BIBLIOGRAPHY_KEYS, 0, 0.1
    )
    by_paper = dict(whole["paper"])
    years = dict(whole["proceedings"])
    rows = [
        {"person": a, "who": a, "what": p, "paper": p, "venue": by_paper[p], "proceedings": by_paper[p],
         "year": years[by_paper[p]]}
        for a, p in whole["wrote"]
    ]  # fmt: skip
    random.Random(2).shuffle(rows)
    training = labelled(made, rows[:3000], 100)
    chosen = choose_root(range(4), lambda r: made if r == 0 else made.rooted(r), training)
    made = made.rooted(chosen.root)
    sample = labelled(made, rows[3000:], EACH)
    scored = [(made.estimate(made.segments(row)).rows, real) for row, real in sample]
    found = errors(scored, THETA)
    coder = Coder(made.base)
    there = [r for r in rows if all(s.number is not None for s in made.segments(r))][:200]
    lineage_ms = timed(lambda r: deletable(made, coder.signature(ViewRow(r))), there)
    return {
        "insertions": len(sample),
        "fp": found.fp,
        "fn": found.fn,
        "auc": auc(roc(scored)),
        "deletion_ms": lineage_ms,
    }


class Listed:
    """Rows of tables of integers by value."""

    def __init__(
        self, columns: Mapping[str, tuple[str, ...]], rows: Mapping[str, list[tuple[int, ...]]]
    ) -> None:
        self.rows = {
            t: [dict(zip(columns[t], r, strict=True)) for r in some] for t, some in rows.items()
        }

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        return [r for r in self.rows[table] if all(r[c] == v for c, v in equal.items())]


def on_synthetic(size: int) -> dict[str, list[float]]:
    """FP and FN on SYNTHETICDB, from each root, with 10 % candidates."""
    db = Synthetic(size=size)
    rows = db.rows(0)
    keys = dict.fromkeys(db.columns, ("pk",))
    made = filter_over(db.query(), db.columns, as_arrow(db.columns, rows), keys, 0, 0.1)
    asked = _chains(db, rows, random.Random(6), 4 * EACH)
    sample = labelled(made, asked, EACH)
    counts = [float(sum(r for _, r in sample)), float(len(sample))]
    return {
        "positives, insertions": counts,
        **{f"root r{p}": _both(made.rooted(p), sample) for p in range(db.relations)},
    }


def _chains(
    db: Synthetic, rows: Mapping[str, list[tuple[int, ...]]], dice: random.Random, how_many: int
) -> list[Row]:
    """View rows along the joins, of rows that are there and of new ones, as they come."""
    names, fresh = ("pk", "f1", "f2", "v"), 10 * db.size
    by_key = {t: {r[0]: r for r in some} for t, some in rows.items()}
    found = []
    for _ in range(how_many):
        chain = [dice.choice(rows["r0"])]
        for i in range(1, db.relations):
            before, table = chain[-1], f"r{i}"
            spare = dice.choice(rows[table])[1:]
            fresh += 1
            if db.forward[(i - 1) % len(db.forward)]:
                chain.append(by_key[table].get(before[1], (before[1], *spare)))
            else:
                there = [r for r in rows[table] if r[2] == before[0]]
                new = (fresh, spare[0], before[0], spare[2])
                chain.append(dice.choice(there) if there and dice.random() < 0.7 else new)
        if dice.random() < 0.5:
            chain[0] = (fresh + 1, *chain[0][1:])
        found.append(
            {f"r{i}_{c}": v for i, r in enumerate(chain) for c, v in zip(names, r, strict=True)}
        )
    return found


def on_projections(size: int, relations: int = 4) -> dict[str, float]:
    """SYNTHETICDB with keys projected out: FP of fillings in greedy, random and full order (Exp. F)."""
    db = Synthetic(relations=relations, size=size)
    rows = db.rows(0)
    shown = [f"r{i}.v" for i in range(relations)] + ["r0.pk", f"r{relations - 1}.pk"]
    keys = dict.fromkeys(db.columns, ("pk",))
    made = filter_over(db.query(shown), db.columns, as_arrow(db.columns, rows), keys, 0, 0.1)
    rules = {t: TableRules(dict.fromkeys(c, "bigint"), ("pk",)) for t, c in db.columns.items()}
    dice, asked = random.Random(4), []
    for _ in range(20):
        asked.append(
            ViewRow({**{f"r{i}_v": dice.randrange(50) for i in range(relations)},
                     "r0_pk": 10 * size + dice.randrange(size), f"r{relations - 1}_pk": 20 * size + dice.randrange(size)})
        )  # fmt: skip
    figures: dict[str, float] = {}
    source = Listed(db.columns, rows)
    exact = Checker(made, rules, source)
    real = [exact.check([], [row], Mode.EXACT).possible for row in asked]
    figures["possible"] = sum(r == "yes" for r in real)
    for order in (Order.GREEDY, Order.RANDOM):
        for most in (1, 5):
            checker = Checker(made, rules, source, fillings=most, order=order)
            answers = [checker.check([], [row], Mode.FAST).possible for row in asked]
            false = sum(a == "no" and r == "yes" for a, r in zip(answers, real, strict=True))
            figures[f"fp_{order.value}_{most}"] = false / max(sum(r == "yes" for r in real), 1)
    return figures


def built_on_spark(tpch: Tpch, name: str) -> float:
    """Seconds to build a query's summary on Spark from the sampled tables."""
    import tempfile

    import belvedere as bv

    shape = shape_of(name)
    tree = join_tree(shape, 0, KEYS)
    with tempfile.TemporaryDirectory() as directory:
        lake = bv.connect(Path(directory) / "lake")
        for table in shape.tables:
            file = Path(directory) / f"{table}.parquet"
            tpch.connection.execute(f"COPY {table} TO '{file}' (FORMAT parquet)")
            lake.spark.read.parquet(str(file)).createOrReplaceTempView(f"sampled_{table}")
        made: list[str] = []

        def run(query: Any) -> str:
            made.append(f"step_{len(made)}")
            frame = lake.spark.sql(query.sql(dialect="spark")).persist()
            frame.createOrReplaceTempView(made[-1])
            return made[-1]

        def fetch(query: Any) -> list[Any]:
            return lake.spark.sql(query.sql(dialect="spark")).collect()

        began = time.perf_counter()
        build(tree, held_columns(shape, KEYS), lambda t: f"sampled_{t}", run, fetch)
        took = time.perf_counter() - began
        lake.spark.catalog.clearCache()
        lake.close()
    return took


def plotted(curve: Mapping[str, Sequence[tuple[float, float]]], where: Path) -> None:
    """The ROC curves as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 5))
    for label, points in curve.items():
        ordered = sorted([*points, (1.0, 1.0)])
        axes.plot(*zip(*ordered, strict=True), marker=".", label=f"{label}, AUC {auc(points):.3f}")
    axes.set_xlabel("false positives")
    axes.set_ylabel("true positives")
    axes.set_title("Q7, side effects over all thresholds")
    axes.legend(fontsize=8, loc="lower right")
    where.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(where, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--spark", nargs="*", default=[], metavar="QUERY")
    parser.add_argument("--scale", type=float, default=None)
    parser.add_argument("--plot", type=Path, default=CACHE / "updating-roc.png")
    parser.add_argument("--only", nargs="*", default=list(JOINS))
    options = parser.parse_args()
    scale = options.scale or (1.0 if options.quick else 4.0)
    each, tried = (200, 10) if options.quick else (EACH, 20)
    tpch = Tpch.at(data(scale, CACHE), PERCENT)
    found: dict[str, Figures] = {}
    for name in options.only:
        figures, made = measured(tpch, name, each, tried)
        figures.maintain_ms = maintained(tpch, made)
        found[name] = figures
        shown = {
            k: round(v, 4) if isinstance(v, float) else v
            for k, v in vars(figures).items()
            if k != "roc"
        }
        print(json.dumps(shown), flush=True)
    built = {name: round(built_on_spark(tpch, name), 1) for name in options.spark}
    print(json.dumps({**summed(found, scale, each, options.plot), "build_s": built}))


def summed(found: Mapping[str, Figures], scale: float, each: int, plot: Path) -> dict[str, Any]:
    """The figures of all queries together, those that are others' again counted again."""
    acyclic = {name: f for name, f in found.items() if name != CYCLIC}
    every = [*acyclic.values(), *(found[o] for q, o in SAME.items() if o in found)]
    others = [f for f in every if f.name != "q10"]
    curve = found["q07"].roc if "q07" in found else {}
    if curve:
        plotted(curve, plot)
    ten = found.get("q10")
    return {
        "benchmark": "updating",
        "tpch_scale": scale,
        "sampled_percent": PERCENT,
        "insertions_each": each,
        "check_ms": round(statistics.median(f.check_ms for f in every), 3),
        "check_ms_worst": round(max(f.check_ms for f in every), 3),
        "vs_exact": round(statistics.mean(f.full_ms / f.check_ms for f in every), 1),
        "vs_exact_least": round(min(f.full_ms / f.check_ms for f in every), 1),
        "indexed_exact_ms": round(statistics.median(f.indexed_ms for f in every), 3),
        "eds_ms": round(statistics.median(f.eds_ms for f in every), 3),
        "fp": round(max(f.fp for f in others), 4),
        "fn": round(max(f.fn for f in others), 4),
        "fp_q10": None if ten is None else round(ten.fp, 4),
        "fn_q10": None if ten is None else round(ten.fn, 4),
        "fp_q05_cyclic": found[CYCLIC].fp if CYCLIC in found else None,
        "auto_wrong": sum(f.auto_wrong for f in found.values()),
        "auto_tried": sum(f.auto_tried for f in found.values()),
        "summary_over_tables": round(statistics.median(f.summary for f in every), 4),
        "build_in_memory_s": round(statistics.median(f.build_s for f in every), 2),
        "maintain_ms": round(statistics.median(f.maintain_ms for f in every if f.maintain_ms), 1),
        "roc": {label: round(auc(points), 4) for label, points in curve.items()},
        "ablations_fp_fn": found["q07"].ablations if "q07" in found else {},
        "synthetic": on_synthetic(3000),
        "bibliography": on_bibliography(20_000),
        "projections": on_projections(60),
    }


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
