"""Updates through a view of a bibliography: errors, times by candidates, lineage of deletions."""

from __future__ import annotations

import random
from typing import Any

from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.summary.filter import UpdateFilter
from benchmarks.updating.baselines import FullPropagation, everything
from benchmarks.updating.curves import FURTHER, as_defined, by_share, figures_of, from_best_root
from benchmarks.updating.evaluation import deletable
from benchmarks.updating.insertions import Row, labelled, timed
from benchmarks.updating.sampled_tpch import as_arrow, filter_over

EACH = 500
COLUMNS = {
    "person": ("person",),
    "wrote": ("who", "what"),
    "paper": ("paper", "venue"),
    "proceedings": ("proceedings", "year"),
}
KEYS = {
    "person": ("person",),
    "wrote": ("who", "what"),
    "paper": ("paper",),
    "proceedings": ("proceedings",),
}
QUERY = (
    "SELECT person, who, what, paper, venue, proceedings, year FROM person, wrote, paper, proceedings"
    " WHERE person = who AND what = paper AND venue = proceedings"
)
Rows = dict[str, list[tuple[int, ...]]]


def bibliography(papers: int, share: float, seed: int) -> tuple[Rows, Rows]:
    """Persons, papers, who wrote what, proceedings: all rows, and a sample of them.

    Authors and venues are Zipf-like: few have much.
    """
    dice = random.Random(seed)
    persons, venues = max(papers // 2, 4), max(papers // 40, 2)
    skewed = lambda n: min(n - 1, int(n * dice.random() ** 3))  # noqa: E731
    written = {(skewed(persons), p) for p in range(papers) for _ in range(dice.randint(1, 4))}
    whole: Rows = {
        "person": [(i,) for i in range(persons)],
        "wrote": sorted(written),
        "paper": [(p, skewed(venues)) for p in range(papers)],
        "proceedings": [(v, 1980 + v % 40) for v in range(venues)],
    }
    some = {t: [r for r in rows if dice.random() < share] for t, rows in whole.items()}
    return whole, some


def on_bibliography(papers: int) -> dict[str, Any]:
    """Errors and times by the share of candidates, of other detectors, and of deletions."""
    whole, some = bibliography(papers, 0.5, 11)
    made = filter_over(QUERY, COLUMNS, as_arrow(COLUMNS, some), KEYS)
    rows = view_rows(whole)
    training, _ = labelled(made, rows[:3000], 100)
    sample, drawn = labelled(made, rows[3000:], EACH)
    defined = as_defined(
        made, lambda: figures_of(by_share(from_best_root(made, training), sample, FURTHER))
    )
    made = from_best_root(made, training)
    plain = [row for row, _ in sample]
    full, all_rows = FullPropagation(made), everything(made)
    return {
        "insertions": len(sample),
        "with side effects": sum(real for _, real in sample),
        "drawn": drawn,
        "by candidates": figures_of(by_share(made, sample, FURTHER)),
        "as defined": defined,
        "full_ms": round(timed(lambda r: full.estimate(made.segments(r)), plain[::25]), 3),
        "eds_ms": round(timed(lambda r: all_rows.estimate(made.segments(r)), plain[::25]), 3),
        "deletion_ms": round(_deletions_ms(made, rows), 3),
    }


def view_rows(rows: Rows) -> list[Row]:
    """The rows of the view of all tables, in an order by chance."""
    venue, year = dict(rows["paper"]), dict(rows["proceedings"])
    found: list[Row] = [
        {"person": a, "who": a, "what": p, "paper": p, "venue": venue[p], "proceedings": venue[p],
         "year": year[venue[p]]}
        for a, p in rows["wrote"]
    ]  # fmt: skip
    random.Random(2).shuffle(found)
    return found


def _deletions_ms(made: UpdateFilter, rows: list[Row]) -> float:
    """Milliseconds to find what of a view row can go, by lineage."""
    coder = Coder(made.base)
    there = [r for r in rows if all(s.number is not None for s in made.segments(r))][:200]
    return timed(lambda r: deletable(made, coder.signature(ViewRow(r))), there)
