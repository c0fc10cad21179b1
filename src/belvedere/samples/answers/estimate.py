"""Estimate: a question asked of a lake, answered from its samples as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from belvedere.algebra.hashing import family
from belvedere.algebra.relations import Rel
from belvedere.algebra.walks import tables
from belvedere.analyses.types import argument
from belvedere.analyses.types import types as types_of
from belvedere.delta.stamps import Vector
from belvedere.errors import Invalid, Unsupported
from belvedere.execution.sources import Versions
from belvedere.lake.pins import Pins
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes import commits
from belvedere.samples.answers.answer import Answer, Column
from belvedere.samples.answers.evaluate import answered
from belvedere.samples.answers.questions import Question, ask
from belvedere.samples.answers.select_rows import KINDS, Selected, selected
from belvedere.samples.estimators.smooth import Method
from belvedere.sql.render import render
from belvedere.views.catalog import shown_name
from belvedere.views.definition import View
from belvedere.views.explain import sampled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def estimate(
    door: SparkLake,
    clean: Callable[[str], object],
    query: str,
    confidence: float,
    method: str,
    at: Mapping[str, int],
) -> Answer | Selected:
    """The answer to a query, from samples that are cleaned first, at the versions asked for."""
    checked_confidence(confidence)
    wanted = checked_method(method)
    clean(ask(door, query).view.name)
    question = ask(door, query)
    refuse_other_versions(door, question, at)
    with Pins(door) as pins:
        found = estimated(door, pins, question, confidence, wanted)
        if isinstance(found, Selected):
            return replace(found, counted=counts_answer(door, question, found, confidence))
        return found


def checked_confidence(confidence: float) -> float:
    """The confidence, if there can be an interval of it."""
    if not 0 < confidence < 1:
        raise Invalid(
            f"a confidence of {confidence:g}",
            hint="a confidence lies between 0 and 1, both excluded, as in 0.95",
            reason="BAD_VALUE",
        )
    return confidence


def checked_method(method: str) -> Method:
    """The method of that name."""
    try:
        return Method(method.upper())
    except ValueError as error:
        raise Invalid(
            f"no method {method!r}", hint="the methods are AUTO, AQP and CORR", reason="BAD_VALUE"
        ) from error


def estimated(
    door: SparkLake, pins: Pins, question: Question, confidence: float, method: Method
) -> Answer | Selected:
    """The answer to a question from the samples as they are."""
    settings = question.view.definition.settings
    work = pins.work(settings)

    def collect(plan: Rel) -> pa.Table:
        newest = {t: pins.table(t).version for t in tables(plan)}
        text = render(plan, Versions(pins, work, newest, newest)).sql(dialect="spark")
        return work.query(text).toArrow()

    if question.aggregate is None:
        return selected(question, collect, confidence)
    _refuse_other_types(door, question, settings)
    found = answered(question, collect, confidence, method)
    keys = (
        found.sheet.keys.take(pa.array(found.order))
        if found.sheet.keys.num_columns
        else found.sheet.keys
    )
    outputs = {n: v.column for n, v in question.outputs.items() if v.column in keys.column_names}
    shown = pa.table({name: keys[plan] for name, plan in outputs.items()})
    return Answer(
        question.text,
        shown,
        found.columns,
        found.notes,
        facts(
            door,
            question,
            len(found.sheet.fresh.unit),
            len(found.sheet.stale.unit),
            found.sheet.size_deviation,
        ),
        confidence,
        tuple(question.outputs),
        lambda rows: _frame(door, rows),
    )


def counts_answer(
    door: SparkLake, question: Question, found: Selected, confidence: float
) -> Answer:
    """The three counts of a SELECT as an answer."""
    columns = [
        Column(k, e.value, e.low, e.high, e.method, e.notes, np.zeros(1))
        for k, e in ((k, found.counts[k]) for k in KINDS)
    ]
    what = facts(door, question, *found.used)
    return Answer(
        question.text,
        pa.table({}),
        tuple(columns),
        ("",),
        what,
        confidence,
        KINDS,
        lambda rows: _frame(door, rows),
    )


def facts(
    door: SparkLake, question: Question, fresh: int, stale: int, deviation: float | None = None
) -> tuple[tuple[str, str], ...]:
    """What an answer rests on."""
    states = [("stale view", question.view), ("sample", question.sample)]
    states += [("outliers", question.outliers)] if question.outliers else []
    versions = "\n".join(f"{what}: {_at(door, view)}" for what, view in states if view)
    by_chance = "" if deviation is None else f" (give or take {deviation:.0f} by chance)"
    used = f"rows used: {fresh} fresh{by_chance}, {stale} stale"
    return (
        ("Versions", versions),
        ("Sample, and where η went", f"{sampled(question.sample)}\n{used}"),
    )


def vector_of(door: SparkLake, view: View) -> Vector:
    """Where a view is."""
    stamp = commits.read_stamp(door, view.stored).stamp
    return {t: p for t, p in stamp.vector.items() if t in view.inputs} if stamp else {}


def refuse_other_versions(door: SparkLake, question: Question, at: Mapping[str, int]) -> None:
    """Invalid if the sample is not at the versions that were asked for."""
    there = {shown_name(door, t): p.version for t, p in vector_of(door, question.sample).items()}
    wrong = {t: v for t, v in at.items() if there.get(t) != v}
    if wrong:
        asked = ", ".join(f"{t} at {v}" for t, v in wrong.items())
        raise Invalid(
            f"the sample of {question.view.name!r} is not at the versions asked for: {asked}",
            detail=f"it is at {', '.join(f'{t} {v}' for t, v in there.items())}",
            hint="a sample goes forward only: lake.clean(view) brings it to the newest versions",
            reason="OTHER_VERSION",
        )


def _at(door: SparkLake, view: View) -> str:
    vector = vector_of(door, view)
    return ", ".join(f"{shown_name(door, t)} at {p.version}" for t, p in vector.items())


def _refuse_other_types(door: SparkLake, question: Question, settings: Mapping[str, str]) -> None:
    """Sums and the like are of numbers."""
    known = types_of(question.bound.plan, lambda asked, have: door.types(asked, have, settings))
    assert question.aggregate is not None
    for a in question.aggregate.aggregates:
        if a.args and a.function != "count" and family(known[argument(a)]) != "number":
            raise Unsupported(
                f"an estimate of {str(a.call).replace('`', '').lower()} of type {known[argument(a)]}",
                hint="estimates are of numbers",
                reason="ESTIMATE_TYPE",
            )


def _frame(door: SparkLake, rows: pa.Table) -> DataFrame:
    return door.spark.createDataFrame(rows)
