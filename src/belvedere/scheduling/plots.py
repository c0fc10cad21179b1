"""Plots: cost functions with measurements, pending changes over time, cost per policy.

As SVG or PNG, by the name of the file, and as text for a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from belvedere.errors import Invalid
from belvedere.scheduling.schedules import Calibration
from belvedere.scheduling.serve.dry_run import DryRun

WIDTH = 40
_BLOCKS = " ▁▂▃▄▅▆▇█"


def draw_curves(calibration: Calibration, path: Path | str) -> None:
    """Plot the cost of k changes of each table: the measurements and the fitted function."""
    figure, axes = _figure(path)
    for name, fitted in zip(calibration.tables, calibration.fits, strict=True):
        most = max(m.changes for m in fitted.measured)
        sizes = sorted({round(most ** (i / 60)) for i in range(61)})
        (line,) = axes.plot(sizes, [fitted.cost(k) for k in sizes], label=name)
        points = [(m.changes, m.seconds) for m in fitted.measured]
        axes.scatter(*zip(*points, strict=True), color=line.get_color(), s=14)
    axes.set_xscale("log")
    axes.set(xlabel="changes in one batch", ylabel="seconds", ylim=(0, None))
    axes.legend()
    _save_figure(figure, path)


def draw_pending(runs: Sequence[DryRun], tables: Sequence[str], path: Path | str) -> None:
    """Plot the pending changes of each table over time, one row for each policy."""
    figure, rows = _figure(path, len(runs))
    for axes, run in zip(rows if len(runs) > 1 else [rows], runs, strict=True):
        for i, name in enumerate(tables):
            times = [at for at, _, _ in run.pending]
            axes.step(times, [state[i] for _, _, state in run.pending], where="post", label=name)
        axes.set(ylabel=f"pending\n{run.policy}")
    last = rows[-1] if len(runs) > 1 else rows
    last.set(xlabel="seconds")
    last.legend()
    _save_figure(figure, path)


def draw_bars(costs: Mapping[str, float], path: Path | str) -> None:
    """Plot the cost of each policy."""
    figure, axes = _figure(path)
    axes.bar(list(costs), list(costs.values()))
    axes.set(ylabel="seconds spent")
    _save_figure(figure, path)


def cost_bars(costs: Mapping[str, float]) -> str:
    """The cost of each policy as bars for a terminal.

    >>> print(cost_bars({"NAIVE": 4.0, "ONLINE": 1.0}))
    NAIVE   ████████████████████████████████████████ 4
    ONLINE  ██████████ 1
    """
    most = max([*costs.values(), 1e-12])
    wide = max(map(len, costs), default=0)
    return "\n".join(
        f"{name:<{wide}}  {'█' * round(WIDTH * cost / most)} {cost:.4g}"
        for name, cost in costs.items()
    )


def spark_line(values: Sequence[float], width: int = WIDTH) -> str:
    """Values over time in one line; each character shows the highest of its interval.

    >>> spark_line([0, 1, 2, 4], width=4)
    ' ▂▄█'
    """
    if not values:
        return ""
    parts = min(width, len(values))
    peaks = [
        max(values[i * len(values) // parts : max((i + 1) * len(values) // parts, 1)])
        for i in range(parts)
    ]
    most = max(peaks) or 1
    return "".join(_BLOCKS[round(peak / most * (len(_BLOCKS) - 1))] for peak in peaks)


def pending_lines(run: DryRun, tables: Sequence[str]) -> str:
    """Pending changes over time for a terminal, one line for each table."""
    wide = max(map(len, tables), default=0)
    counts = {t: [state[i] for _, _, state in run.pending] for i, t in enumerate(tables)}
    return "\n".join(
        f"{t:<{wide}}  {spark_line(c)}  up to {max(c, default=0)}" for t, c in counts.items()
    )


def _figure(path: Path | str, rows: int = 1) -> tuple[Any, Any]:
    if Path(path).suffix not in (".svg", ".png"):
        raise Invalid(
            f"{path}: pictures are SVG or PNG",
            hint="give a file name that ends with .svg or .png",
            reason="OPTIONS",
        )
    import matplotlib as mpl

    mpl.use("Agg")
    # Make SVG files reproducible byte by byte.
    mpl.rcParams["svg.hashsalt"] = "belvedere"
    from matplotlib import pyplot

    return pyplot.subplots(rows, 1, figsize=(7, 2.2 * rows + 1.2), squeeze=True, sharex=True)


def _save_figure(figure: Any, path: Path | str) -> None:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if Path(path).suffix == ".svg" else None)
    pyplot.close(figure)
