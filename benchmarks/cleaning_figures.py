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
    _times(found["query_ms"], directory / "svc-06a.png")
    _crossing(found["_fig6b"], directory / "svc-06b.png")
    _outliers(found["outlier_error75"], directory / "svc-08a.png")
    _curve(found["outlier_seconds"], "index size", "seconds", directory / "svc-08b.png")


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


def _outliers(values: dict[int, dict[int, list[float]]], path: Path) -> None:
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.add_subplot()
    for size in (0, 100):
        for j, name in ((1, "AQP"), (2, "CORR")):
            label = f"{name}, {'no index' if not size else f'{size} records'}"
            axes.plot(list(values), [v[size][j] for v in values.values()], marker="o", label=label)
    axes.set_xlabel("z")
    axes.set_ylabel("75 % quartile of the error")
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def _curve(values: dict[Any, float], x: str, y: str, path: Path) -> None:
    figure = Figure(figsize=(4, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(list(values), list(values.values()), marker="o")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    figure.savefig(path, dpi=110)
