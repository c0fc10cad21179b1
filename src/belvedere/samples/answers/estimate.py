"""Answer an aggregate query or a SELECT on a sampled view from the sample, without a refresh."""

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
from belvedere.samples.answers.answer import EstimatedAnswer, EstimatedColumn
from belvedere.samples.answers.evaluate import evaluate
from belvedere.samples.answers.questions import Question, parse_question
from belvedere.samples.answers.select_rows import ROW_CHANGES, CorrectedRows, correct_rows
from belvedere.samples.estimators.smooth import Method
from belvedere.sql.render import render
from belvedere.views.catalog import shown_name
from belvedere.views.definition import View
from belvedere.views.explain import describe_sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def estimate_query(
    door: SparkLake,
    clean: Callable[[str], object],
    query: str,
    confidence: float,
    method: str,
    at: Mapping[str, int],
) -> EstimatedAnswer | CorrectedRows:
    """The answer to a query from its cleaned sample, which must be at the requested versions."""
    refuse_bad_confidence(confidence)
    chosen_method = parse_method(method)
    clean(parse_question(door, query).view.name)
    question = parse_question(door, query)
    refuse_other_versions(door, question, at)
    with Pins(door) as pins:
        answer = answer_from_samples(door, pins, question, confidence, chosen_method)
        if isinstance(answer, CorrectedRows):
            return replace(answer, counted=counts_answer(door, question, answer, confidence))
        return answer


def refuse_bad_confidence(confidence: float) -> None:
    """Invalid unless the confidence lies between 0 and 1."""
    if not 0 < confidence < 1:
        raise Invalid(
            f"a confidence of {confidence:g}",
            hint="a confidence lies between 0 and 1, both excluded, as in 0.95",
            reason="BAD_VALUE",
        )


def parse_method(method: str) -> Method:
    """The method with this name."""
    try:
        return Method(method.upper())
    except ValueError as error:
        raise Invalid(
            f"no method {method!r}", hint="the methods are AUTO, AQP and CORR", reason="BAD_VALUE"
        ) from error


def answer_from_samples(
    door: SparkLake, pins: Pins, question: Question, confidence: float, method: Method
) -> EstimatedAnswer | CorrectedRows:
    """The answer to a question from the samples at their present versions."""
    settings = question.view.definition.settings
    work = pins.work(settings)

    def collect(plan: Rel) -> pa.Table:
        newest = {t: pins.table(t).version for t in tables(plan)}
        text = render(plan, Versions(pins, work, newest, newest)).sql(dialect="spark")
        return work.query(text).toArrow()

    if question.aggregate is None:
        return correct_rows(question, collect, confidence)
    _refuse_other_types(door, question, settings)
    evaluated = evaluate(question, collect, confidence, method)
    keys = (
        evaluated.data.keys.take(pa.array(evaluated.order))
        if evaluated.data.keys.num_columns
        else evaluated.data.keys
    )
    outputs = {n: v.column for n, v in question.outputs.items() if v.column in keys.column_names}
    key_columns = pa.table({name: keys[plan] for name, plan in outputs.items()})
    return EstimatedAnswer(
        question.text,
        key_columns,
        evaluated.columns,
        evaluated.notes,
        answer_facts(
            door,
            question,
            len(evaluated.data.fresh.unit),
            len(evaluated.data.stale.unit),
            evaluated.data.size_deviation,
        ),
        confidence,
        tuple(question.outputs),
        lambda rows: _frame(door, rows),
    )


def counts_answer(
    door: SparkLake, question: Question, selected: CorrectedRows, confidence: float
) -> EstimatedAnswer:
    """The estimated numbers of rows that a SELECT adds, updates and removes, as an answer."""
    columns = [
        EstimatedColumn(k, e.value, e.low, e.high, e.method, e.notes, np.zeros(1))
        for k, e in ((k, selected.counts[k]) for k in ROW_CHANGES)
    ]
    what = answer_facts(door, question, *selected.used)
    return EstimatedAnswer(
        question.text,
        pa.table({}),
        tuple(columns),
        ("",),
        what,
        confidence,
        ROW_CHANGES,
        lambda rows: _frame(door, rows),
    )


def answer_facts(
    door: SparkLake, question: Question, fresh: int, stale: int, deviation: float | None = None
) -> tuple[tuple[str, str], ...]:
    """The versions, the sample and the number of rows that an answer comes from."""
    states = [("stale view", question.view), ("sample", question.sample)]
    states += [("outliers", question.outliers)] if question.outliers else []
    versions = "\n".join(f"{what}: {_at(door, view)}" for what, view in states if view)
    by_chance = "" if deviation is None else f" (give or take {deviation:.0f} by chance)"
    used = f"rows used: {fresh} fresh{by_chance}, {stale} stale"
    return (
        ("Versions", versions),
        ("Sample, and where η went", f"{describe_sample(question.sample)}\n{used}"),
    )


def vector_of(door: SparkLake, view: View) -> Vector:
    """The vector of a view."""
    stamp = commits.read_stamp(door, view.stored).stamp
    return {t: p for t, p in stamp.vector.items() if t in view.inputs} if stamp else {}


def refuse_other_versions(door: SparkLake, question: Question, at: Mapping[str, int]) -> None:
    """Invalid unless the sample is at the requested versions."""
    current = {shown_name(door, t): p.version for t, p in vector_of(door, question.sample).items()}
    differing = {t: v for t, v in at.items() if current.get(t) != v}
    if differing:
        requested = ", ".join(f"{t} at {v}" for t, v in differing.items())
        raise Invalid(
            f"the sample of {question.view.name!r} is not at the requested versions: {requested}",
            detail=f"it is at {', '.join(f'{t} {v}' for t, v in current.items())}",
            hint="ask for these versions, or call lake.clean(view) for the newest: a sample never goes back",
            reason="OTHER_VERSION",
        )


def _at(door: SparkLake, view: View) -> str:
    vector = vector_of(door, view)
    return ", ".join(f"{shown_name(door, t)} at {p.version}" for t, p in vector.items())


def _refuse_other_types(door: SparkLake, question: Question, settings: Mapping[str, str]) -> None:
    """Unsupported if an aggregate other than count is of a type that is no number."""
    types = types_of(question.bound.plan, lambda asked, have: door.types(asked, have, settings))
    assert question.aggregate is not None
    for a in question.aggregate.aggregates:
        if a.args and a.function != "count" and family(types[argument(a)]) != "number":
            raise Unsupported(
                f"an estimate of {str(a.call).replace('`', '').lower()} of type {types[argument(a)]}",
                hint="aggregate numbers, or cast the column to a number",
                reason="ESTIMATE_TYPE",
            )


def _frame(door: SparkLake, rows: pa.Table) -> DataFrame:
    return door.spark.createDataFrame(rows)
