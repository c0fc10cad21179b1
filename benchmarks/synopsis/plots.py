"""Pictures of the synopsis benchmark, after Figs. 11 to 14 of the paper: throughput over progress, by kind and size, by d."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAMES = {"qx": "QX", "qy": "QY", "qz": "QZ"}


def draw(found: dict[str, Any], directory: Path) -> None:
    """The pictures of what was measured; one without its figures is left out."""
    import matplotlib

    matplotlib.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    queries = [n for n in NAMES if n in found]
    if queries:
        _progress(found, queries, directory / "synopsis-progress.png")
    if "qy_delete" in found:
        _deletes(found, directory / "synopsis-deletes.png")
    if "kinds" in found:
        _kinds(found["kinds"], directory / "synopsis-kinds.png")
    if "qb" in found:
        _road(found["qb"], directory / "synopsis-road.png")


def _progress(found: dict[str, Any], queries: list[str], path: Path) -> None:
    """Inserts alone: with foreign keys collapsed, without, and the symmetric join where it was measured."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(queries), figsize=(3.6 * len(queries), 3.3), sharey=True
    )
    for axes, name in zip(panels if len(queries) > 1 else [panels], queries, strict=True):
        _curve(axes, found[name]["curve"], "foreign keys collapsed")
        if f"no_collapse_{name}" in found:
            _curve(axes, found[f"no_collapse_{name}"]["curve"], "not collapsed")
        if f"vs_{name}" in found:
            points = [
                (float(s.rstrip("%")), v["symmetric"]) for s, v in found[f"vs_{name}"].items()
            ]
            axes.plot(*zip(*points, strict=True), "sg:", label="symmetric join")
        axes.set(title=NAMES[name], xlabel="progress, percent", yscale="log")
    (panels[0] if len(queries) > 1 else panels).set_ylabel("inserts per second")
    (panels[0] if len(queries) > 1 else panels).legend(fontsize=7)
    _save(figure, path)


def _deletes(found: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.3))
    _curve(axes, found["qy_delete"]["curve"], "a fifth of the rows deleted")
    if "qy" in found:
        _curve(axes, found["qy"]["curve"], "inserts alone")
    axes.set(title="QY", xlabel="progress, percent", ylabel="changes per second", ylim=(0, None))
    axes.legend(fontsize=7)
    _save(figure, path)


def _kinds(kinds: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(kinds), figsize=(3.6 * len(kinds), 3.3), sharey=True)
    for axes, (name, runs) in zip(panels, kinds.items(), strict=True):
        for size, _, held, curve in runs:
            _curve(axes, curve, f"{size:g}" if name != "bernoulli" else f"{size:g}: {held} rows")
        axes.set(title=f"QY, {name}", xlabel="progress, percent", ylim=(0, None))
        axes.legend(fontsize=7)
    panels[0].set_ylabel("inserts per second")
    _save(figure, path)


def _road(found: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3.3))
    points = [(int(k[2:]), v["rate"]) for k, v in found.items() if k.startswith("d_")]
    axes.plot(*zip(*points, strict=True), marker="o")
    axes.set(
        title="QB", xlabel="d, feet", ylabel="changes per second", xscale="log", ylim=(0, None)
    )
    _save(figure, path)


def _curve(axes: Any, curve: list[Any], label: str) -> None:
    progress, rates = zip(*curve, strict=True)
    axes.plot([100 * p for p in progress], rates, label=label, linewidth=1)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110)
