"""Inserts and deletes per second of a synopsis, one workload at a time, and of a symmetric join."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.synopsis.workloads import (
    BATCH,
    KEYS,
    QX,
    QX_NULLS,
    QY,
    QZ,
    Event,
    Road,
    Workload,
    interleaved,
    rows_of,
    schemas,
    streamed,
    whole,
    with_deletions,
)

SAMPLE = 10_000
READ_EVERY = 50_000
WINDOW = 5.0
WORKLOADS = {w.name: w for w in (QX, QY, QZ, QX_NULLS)}
KINDS = {
    "without": [{"rows": n} for n in (1000, 10_000, 100_000, 1_000_000)],
    "with": [{"rows": n, "replacement": True} for n in (1000, 10_000, 100_000, 1_000_000)],
    "bernoulli": [{"rate": p} for p in (1e-7, 1e-6, 1e-5, 1e-4)],
}


def synopsis(workload: Workload, scale: int, *, collapse: bool = True, **kind: Any) -> Any:
    """A synopsis of a workload with its dimensions loaded."""
    from belvedere.synopses.stream import Synopsis

    tables = workload.preloaded | workload.streamed
    keys = {t: KEYS[s] for t, s in tables.items() if s in KEYS}
    kind = kind or {"rows": SAMPLE}
    made = Synopsis(
        workload.query, schemas(workload, scale), keys=keys, seed=1, collapse=collapse, **kind
    )
    for table, source in workload.preloaded.items():
        made.insert(table, workload.shown(whole(source, scale)))
    return made


class Clock:
    """Applies events, and remembers how fast at which progress."""

    def __init__(self, made: Any, total: int) -> None:
        self.made, self.total = made, total
        self.changes, self.seconds, self.cpu, self.read_at, self.reads = 0, 0.0, 0.0, 0, 0.0
        self.curve: list[tuple[float, float]] = []
        self._mark = (0, 0.0)

    def run(self, events: Iterator[Event]) -> Clock:
        for table, rows, gone in events:
            started, busy = time.perf_counter(), time.process_time()
            if gone:
                self.made.delete(table, rows)
            else:
                self.made.insert(table, rows)
            self.changes += rows.num_rows
            if self.changes - self.read_at >= READ_EVERY:
                self.read()
            self.seconds += time.perf_counter() - started
            self.cpu += time.process_time() - busy
            if self.changes - self._mark[0] >= self.total / 40:
                self._window()
        return self

    def read(self) -> None:
        """A request for the synopsis: its results and the size of the join."""
        self.made.results.slots().copy()
        self.reads += float(self.made.results.maintained.size > 0)
        self.read_at = self.changes

    def _window(self) -> None:
        changes, seconds = self._mark
        rate = (self.changes - changes) / (self.cpu - seconds)
        self.curve.append((round(self.changes / self.total, 3), round(rate)))
        self._mark = self.changes, self.cpu

    @property
    def rate(self) -> float:
        """Changes per second of one core: what other processes take of it does not count."""
        return self.changes / self.cpu

    @property
    def wall_rate(self) -> float:
        """Changes per second of the clock on the wall."""
        return self.changes / self.seconds


def warmed(workload: Workload, scale: int, **kind: Any) -> None:
    """Everything compiled: a little of each kind of change, of every table."""
    made = synopsis(workload, scale, **kind)
    for done in (0, 5):
        for table, source in workload.streamed.items():
            for rows in islice(streamed(source, scale, BATCH), done, done + 5):
                rows = workload.shown(rows)
                made.insert(table, rows)
                made.delete(table, rows.slice(0, 2000))
    made.sample()


def inserts(name: str, scale: int) -> dict[str, Any]:
    """A workload of inserts."""
    workload = WORKLOADS[name]
    before = _resident()
    warmed(workload, scale)
    made = synopsis(workload, scale)
    total = sum(rows_of(s, scale) for s in workload.streamed.values())
    clock = Clock(made, total).run(interleaved(workload, scale))
    peak = (_resident() - before) / 1e6
    started = time.perf_counter()
    made.sample()
    shown = time.perf_counter() - started
    singles = synopsis(workload, scale)
    one = Clock(singles, 20_000).run(interleaved(workload, scale, 1, most=20_000))
    return {
        "rate": round(clock.rate), "changes": clock.changes, "seconds": round(clock.cpu, 2),
        "wall_rate": round(clock.wall_rate),
        "join_size": made.join_size, "peak_gb": round(peak, 2), "curve": clock.curve,
        "batch_1": round(one.rate), "sample_as_arrow_seconds": round(shown, 4),
    }  # fmt: skip


def deletes(scale: int) -> dict[str, Any]:
    """QY with a fifth of its rows deleted, the oldest first."""
    before = _resident()
    warmed(QY, scale)
    made = synopsis(QY, scale)
    total = int(1.2 * sum(rows_of(s, scale) for s in QY.streamed.values()))
    clock = Clock(made, total).run(with_deletions(QY, scale))
    peak = (_resident() - before) / 1e6
    return {
        "rate": round(clock.rate), "changes": clock.changes, "seconds": round(clock.cpu, 2),
        "wall_rate": round(clock.wall_rate),
        "join_size": made.join_size, "peak_gb": round(peak, 2), "curve": clock.curve,
    }  # fmt: skip


def road(quick: bool) -> dict[str, Any]:
    """QB with several d: each second its reports come and those of a minute ago go."""
    import belvedere.synopses.stream  # noqa: F401

    before, few = _resident(), Road(cars=3000, seconds=90)
    cars = Road(seconds=240 if quick else 900)
    found: dict[str, Any] = {"cars": cars.cars, "rows_per_lane": 2 * cars.cars // 3}
    for d in (300, 50, 1000):
        _driven(few, d)  # compiled
        found[f"d_{d}"] = _driven(cars, d)
        found.setdefault("peak_gb", round((_resident() - before) / 1e6, 3))
    return found


def _driven(cars: Road, d: int) -> dict[str, Any]:
    from belvedere.synopses.stream import Synopsis

    made = Synopsis(cars.query(d), cars.schemas(), rows=SAMPLE, seed=1)
    changes, seconds = 0, 0.0
    for now, lanes in enumerate(cars.seconds_of()):
        started = time.process_time()
        for lane, new, old in lanes:
            made.change(lane, deletes=old, inserts=new)
        if now >= cars.window:
            seconds += time.process_time() - started
            changes += sum(new.num_rows + old.num_rows for _, new, old in lanes)
    return {"rate": round(changes / seconds), "join_size": made.join_size}


def against_symmetric(name: str, scale: int) -> dict[str, Any]:
    """Instant throughput of both from states loaded to some share, the symmetric join's over 5 seconds."""
    from benchmarks.synopsis.symmetric_join import SymmetricJoin

    workload = WORKLOADS[name]
    warmed(workload, scale)
    made = synopsis(workload, scale)
    plain = synopsis(workload, scale, collapse=False)
    other = SymmetricJoin(plain.results.maintained.plan, SAMPLE)
    del plain
    for table, source in workload.preloaded.items():
        other.load(table, workload.shown(whole(source, scale)))
    total = sum(rows_of(s, scale) for s in workload.streamed.values())
    found: dict[str, Any] = {}
    # Small tables in small batches, or they would not have come when the others are at 1 %.
    sizes = {t: rows_of(s, scale) for t, s in workload.streamed.items()}
    each = {t: max(1, BATCH * n // max(sizes.values())) for t, n in sizes.items()}
    events, loaded = interleaved(workload, scale, each=each), 0
    for share in (0.01, 0.1, 1.0):
        while loaded < int(share * total * 0.95):
            table, rows, _ = next(events)
            made.insert(table, rows)
            other.load(table, rows)
            loaded += rows.num_rows
        rest = list(islice(events, 40))
        loaded += sum(rows.num_rows for _, rows, _ in rest)
        other.results = made.results.maintained.size
        clock = Clock(made, 10**12).run(_together(rest))
        done, spent = _slow(other, rest)
        found[f"{share:.0%}"] = {
            "ours": round(clock.rate), "symmetric": round(done / spent, 2),
            "ratio": round(clock.rate * spent / done, 1), "join_size": made.join_size,
        }  # fmt: skip
    return found


def _together(events: list[Event]) -> Iterator[Event]:
    """The same rows in batches as large as they may be."""
    for table in dict.fromkeys(t for t, _, _ in events):
        rows = pa.concat_tables([r for t, r, _ in events if t == table]).combine_chunks()
        for start in range(0, rows.num_rows, BATCH):
            yield table, rows.slice(start, BATCH), False


def _slow(other: Any, events: list[Event]) -> tuple[int, float]:
    """Rows of every position in the proportion they come in, until the window is over."""
    ids: dict[int, Any] = {}
    started = time.process_time()
    for table, rows, _ in events:
        for number, some in other.load(table, rows).items():
            ids[number] = np.concatenate([ids.get(number, some[:0]), some])
    indexing = time.process_time() - started
    sizes = {n: len(rows) for n, rows in ids.items()}
    other.join(next(iter(ids)), next(iter(ids.values()))[:0])
    next_, done, spent, together = dict.fromkeys(ids, 0), 0, 0.0, 1
    while spent < WINDOW and done < sum(sizes.values()):
        number = min(
            (n for n in ids if next_[n] < sizes[n]), key=lambda n: (next_[n] + 1) / sizes[n]
        )
        some = ids[number][next_[number] : next_[number] + together]
        started = time.process_time()
        other.join(number, some)
        took = time.process_time() - started
        next_[number] += len(some)
        done, spent = done + len(some), spent + took
        # Rows that are joined quickly are joined several at a time, or Python's calls would be the cost.
        together = min(2 * together, 256) if took < 0.005 else max(1, together // 2)
    # Of the time that indexing took, the part of the rows that were joined.
    return done, spent + indexing * done / sum(sizes.values())


def without_collapse(name: str, scale: int) -> dict[str, Any]:
    """The same without collapsing foreign keys, for as long as it lasts."""
    workload = WORKLOADS[name]
    warmed(workload, scale, collapse=False)
    total = sum(rows_of(s, scale) for s in workload.streamed.values())
    clock = Clock(synopsis(workload, scale, collapse=False), total)
    for event in interleaved(workload, scale):
        clock.run(iter([event]))
        if clock.cpu > 12 * WINDOW:
            break
    return {
        "rate": round(clock.rate), "changes": clock.changes, "progress": round(clock.changes / total, 3),
        "curve": clock.curve,
    }  # fmt: skip


def kinds(scale: int) -> dict[str, Any]:
    """QY with every kind of sample at four sizes."""
    found: dict[str, Any] = {}
    total = sum(rows_of(s, scale) for s in QY.streamed.values())
    for name, sizes in KINDS.items():
        warmed(QY, scale, **sizes[0])
        for kind in sizes:
            clock = Clock(synopsis(QY, scale, **kind), total).run(interleaved(QY, scale))
            size = kind.get("rows", kind.get("rate"))
            held = clock.made.results.maintained.sample.filled
            found.setdefault(name, []).append([size, round(clock.rate), held, clock.curve])
    return found


def loading(scale: int) -> dict[str, Any]:
    """Saving the state of QY, and having it again."""
    from belvedere.lake.records.saved_state import Saves
    from belvedere.synopses.saving import from_arrays, to_arrays
    from belvedere.synopses.state import SynopsisState

    made = synopsis(QY, scale)
    for table, rows, _ in interleaved(QY, scale):
        made.insert(table, rows)
    keeper = made.results.maintained
    with tempfile.TemporaryDirectory() as home:
        saves = Saves(Path(home))
        started = time.perf_counter()
        saves.save("synopsis", "qy", {}, {}, to_arrays(keeper))
        saved = time.perf_counter() - started
        started = time.perf_counter()
        found = saves.load("synopsis", "qy")
        again = from_arrays(SynopsisState(keeper.plan, keeper.kind, seed=2), found.arrays)
        loaded = time.perf_counter() - started
        assert again.size == keeper.size
        return {
            "load_seconds": round(loaded, 2), "save_seconds": round(saved, 2),
            "bytes": found.head.bytes,
        }  # fmt: skip


def _resident() -> float:
    """The most memory so far, in kilobytes."""
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def part(name: str, scale: int, quick: bool) -> dict[str, Any]:
    """One part of the benchmark, in this process."""
    if name in WORKLOADS:
        return inserts(name, scale)
    if name.startswith("vs_"):
        return against_symmetric(name.removeprefix("vs_"), scale)
    if name.startswith("no_collapse_"):
        return without_collapse(name.removeprefix("no_collapse_"), scale)
    return {
        "qy_delete": lambda: deletes(scale),
        "qb": lambda: road(quick),
        "kinds": lambda: kinds(scale),
        "load": lambda: loading(scale),
    }[name]()


PARTS = (
    "qx qy qz qy_delete qb vs_qx vs_qx_nulls vs_qy vs_qz no_collapse_qx no_collapse_qy no_collapse_qz"
    " kinds load"
).split()
