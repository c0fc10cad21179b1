"""Descriptions of sketches as text."""

from __future__ import annotations

from collections.abc import Callable

from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.table import Table
from belvedere.sketches.capture.clustering import clustering_advice
from belvedere.sketches.costs import Costs
from belvedere.sketches.live import Live
from belvedere.views.catalog import shown_name


def sketch_facts(live: Live, table: Callable[[str], Table]) -> list[tuple[str, str]]:
    """Names and values of the facts about a sketch."""
    d, costs = live.definition, Costs.of(live.definition.costs)
    engine = live.engine
    both = zip(d.partitions, live.bitmaps, strict=True)
    offers = [clustering_advice(table(p.table), p, b) for p, b in both]
    facts = {
        "query": d.query,
        "cut": "; ".join(str(p) for p in d.partitions),
        "fragments kept": f"{live.fragment_count} of {live.fragments}",
        "at": ", ".join(f"{t} {p.version}" for t, p in live.vector.items()),
        "kept by": f"captured anew: {d.kept}" if d.kept else "the changes, in memory",
        "loose": "yes: fragments too many are allowed" if d.loose else "",
        "values in a buffer": str(d.room) if engine is not None and engine.buffers else "",
        "groups": "" if engine is None else str(engine.groups),
        "bytes in memory": "" if engine is None else str(engine.bytes),
        "relies on": "; ".join(
            f"{w.column} of {w.table} between {w.low} and {w.high}" for w in d.watched
        ),
        "retired": d.retired,
        "seconds to capture": f"{costs.capture:.3f}" if costs.capture else "",
        "break-even": "" if costs.break_even is None else f"{costs.break_even:.0f} changed rows",
        "earlier versions": str(len(d.past)),
        "automatic": "yes" if d.automatic else "",
        "offered": "; ".join(filter(None, offers)),
    }
    return [(name, value) for name, value in facts.items() if value]


def explain_sketch(lake: ReadableLake, live: Live) -> str:
    """The facts about a sketch, and the predicate by which it restricts each table."""
    lines = [f"{name}: {value}" for name, value in sketch_facts(live, lake.table)]
    for partition, bitmap in zip(live.definition.partitions, live.bitmaps, strict=True):
        kept = partition.predicate(bitmap).sql()
        lines.append(f"{shown_name(lake, partition.table)} WHERE {kept}")
    return "\n".join(lines)
