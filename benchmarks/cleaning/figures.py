"""The figures of the paper that our runs have numbers for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


def draw(found: dict[str, Any], directory: Path) -> None:
    """Draw what the accuracy runs found."""
    directory.mkdir(parents=True, exist_ok=True)
    _bars(
        found["_fig5"],
        "relative error",
        "Join view, 12 queries, +10 %, 10 % sample",
        directory / "svc-05.png",
    )
    _bars(
        found["complex_views_error"],
        "relative error",
        "Complex views, 10 % mixed",
        directory / "svc-07.png",
    )
    _bars(
        found["log_views_error"], "relative error", "Activity log, +10 %", directory / "svc-09.png"
    )
    _bars(found["cube_error"], "relative error", "Cube roll-ups, sums", directory / "svc-11.png")
    _bars(
        found["cube_median_error"],
        "relative error",
        "Cube roll-ups, medians",
        directory / "svc-13.png",
    )
    rows = {10 * r: x for r, x in found["stale_over_corr_by_rows"].items()}
    _curve(rows, "rows of a group", "stale error / CORR's", directory / "svc-stale.png", log=True)
    _times(found["query_ms"], directory / "svc-06a.png")
    _crossing(found["_fig6b"], directory / "svc-06b.png")
    _outliers(found["outlier_error75"], directory / "svc-08a.png")
    _curve(found["outlier_seconds"], "index size", "seconds", directory / "svc-08b.png")


def draw_spark(part: str, found: dict[str, Any], directory: Path) -> None:
    """Draw what a run on Spark found."""
    directory.mkdir(parents=True, exist_ok=True)
    if part == "batches":
        _batches(found, directory)
        return
    number = {"join": "04", "cube": "10"}[part]
    rounds, ratios = found["rounds"], dict(found["by_ratio"])
    if "0.1" in rounds and "clean" in rounds["0.1"]:
        ratios["0.1"] = rounds["0.1"]["clean"]
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot()
    points = sorted((float(r), s) for r, s in ratios.items())
    axes.plot([100 * r for r, _ in points], [s for _, s in points], marker="o", label="cleaning")
    if "0.1" in rounds:
        axes.axhline(rounds["0.1"]["refresh"], linestyle="--", color="0.3", label="refresh")
    _named(axes, "sampled, %", "seconds, 10 % changed")
    figure.savefig(directory / f"svc-{number}a.png", dpi=110)
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot()
    for name, label in (("clean_stored_leaves", "stored leaves"), ("clean", "without")):
        points = sorted((float(s), x) for s, x in found[f"refresh_over_{name}"].items())
        axes.plot([100 * s for s, _ in points], [x for _, x in points], marker="o", label=label)
    _named(axes, "changed, %", "refresh / cleaning")
    figure.savefig(directory / f"svc-{number}b.png", dpi=110)


def _batches(found: dict[str, Any], directory: Path) -> None:
    """Fig. 14: throughput by batch; 15: errors by ratio; 16: how busy processors were."""
    views = [k for k in found if k.startswith("V")]
    rows = found["batch_rows"]
    for letter, key in (("a", "alone"), ("b", "with_cleaning")):
        figure = Figure(figsize=(4, 3), layout="constrained")
        axes = figure.add_subplot()
        for view in views:
            rates = [n / s for n, s in zip(rows, found[view][key], strict=True)]
            axes.loglog(rows, rates, marker="o", label=view)
        _named(axes, "rows in a batch", "rows a second")
        figure.savefig(directory / f"svc-14{letter}.png", dpi=110)
    figures = {n: Figure(figsize=(4 * len(views), 3), layout="constrained") for n in (15, 16)}
    for i, view in enumerate(views):
        axes = figures[15].add_subplot(1, len(views), i + 1)
        curve = found[view]["simulated_error_by_ratio"]
        axes.semilogx([100 * r for r, _ in curve], [e for _, e in curve], label="with cleaning")
        only = found[view]["simulated_error_alone"]
        axes.axhline(only, linestyle="--", color="0.3", label="refreshes alone")
        axes.set_title(view)
        _named(axes, "sampled, %", "largest error, rows (simulated)")
        axes = figures[16].add_subplot(1, len(views), i + 1)
        for name, label in (("alone", "refreshes alone"), ("together", "with cleaning")):
            axes.plot([100 * b for b in found[view]["runs"][name]["busy"]], label=label)
        axes.set_title(view)
        _named(axes, "seconds", "processors busy, %")
    for n, figure in figures.items():
        figure.savefig(directory / f"svc-{n}.png", dpi=110)


def _named(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(fontsize="small")


def _bars(values: dict[str, Any], label: str, title: str, path: Path) -> None:
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.add_subplot()
    for i, name in enumerate(("stale", "AQP", "CORR")):
        at = [x + 0.27 * (i - 1) for x in range(len(values))]
        axes.bar(at, [v[i] for v in values.values()], 0.25, label=name)
    axes.set_xticks(range(len(values)), list(values))
    axes.set_yscale("log")
    axes.set_ylabel(label)
    axes.set_title(title)
    axes.legend()
    figure.savefig(path, dpi=110)


def _times(values: dict[str, float], path: Path) -> None:
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.bar(list(values), list(values.values()))
    axes.set_ylabel("milliseconds per query, DuckDB")
    figure.savefig(path, dpi=110)


def _crossing(curves: dict[str, list[tuple[float, float, float]]], path: Path) -> None:
    figure = Figure(figsize=(9, 3), layout="constrained")
    for i, (stream, curve) in enumerate(curves.items()):
        axes = figure.add_subplot(1, len(curves), i + 1)
        for j, name in ((1, "AQP"), (2, "CORR")):
            axes.plot([100 * c[0] for c in curve], [c[j] for c in curve], marker="o", label=name)
        axes.set_title(stream)
        axes.set_xlabel("changed rows, %")
        axes.legend()
    figure.savefig(path, dpi=110)


_INDEXES: dict[Any, str] = {0: "no index", 100: "100 records", "AUTO": "AUTO"}


def _outliers(values: dict[int, dict[Any, list[float]]], path: Path) -> None:
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.add_subplot()
    for size in (0, 100, "AUTO"):
        for j, name in ((1, "AQP"), (2, "CORR")):
            label = f"{name}, {_INDEXES[size]}"
            axes.plot(list(values), [v[size][j] for v in values.values()], marker="o", label=label)
    axes.set_xlabel("z")
    axes.set_ylabel("75 % quartile of the error")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def _curve(values: dict[Any, float], x: str, y: str, path: Path, *, log: bool = False) -> None:
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(list(values), list(values.values()), marker="o")
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    figure.savefig(path, dpi=110)
