"""Pictures of the synopsis benchmark: throughput over progress, and by kind and size of the sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(found: dict[str, Any], directory: Path) -> None:
    """The pictures of what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    runs = [n for n in ("qx", "qy", "qz", "qy_delete") if n in found]
    if runs:
        figure, axes = pyplot.subplots(figsize=(6, 3.5))
        for name in runs:
            progress, rates = zip(*found[name]["curve"], strict=True)
            axes.plot([100 * p for p in progress], [r / 1e6 for r in rates], label=name)
        axes.set(xlabel="progress, percent", ylabel="million changes per second", ylim=(0, None))
        axes.legend()
        figure.tight_layout()
        figure.savefig(directory / "synopsis-progress.png", dpi=120)
    if "kinds" in found:
        figure, axes = pyplot.subplots(figsize=(6, 3.5))
        for name, points in found["kinds"].items():
            rates = [rate / 1e6 for _, rate in points]
            axes.plot(
                range(1, 5),
                rates,
                marker="o",
                label=f"{name}: {', '.join(f'{s:g}' for s, _ in points)}",
            )
        axes.set(
            xlabel="size, from small to large", ylabel="million changes per second", ylim=(0, None)
        )
        axes.legend()
        figure.tight_layout()
        figure.savefig(directory / "synopsis-kinds.png", dpi=120)
