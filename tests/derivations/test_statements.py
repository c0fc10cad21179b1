"""Statements reach the kind that their noun names, and a new name is checked in one place."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.derivations.statements import refuse_name_of_kind, refuse_taken_name, run_of
from belvedere.errors import Invalid
from belvedere.sql.statements.derivations import Create, Drop, Noun, Show
from belvedere.sql.statements.parser import parse_statement
from belvedere.sql.statements.samples import CleanSample
from belvedere.sql.statements.sketches import CreateSketch
from belvedere.sql.statements.updatable_views import CreateUpdatable
from belvedere.sql.statements.views import CreateView


class Kind:
    """A kind with some names that runs DROP, SHOW and perhaps one statement more."""

    def __init__(self, noun: Noun, *names: str, more: type = Drop) -> None:
        self.word = noun.value
        self._names = names
        self._more = more

    def names(self) -> tuple[str, ...]:
        return self._names

    def statements(self) -> dict[type, Any]:
        return {each: f"{each.__name__} {self.word}" for each in (Drop, Show, self._more)}


KINDS = (
    Kind(Noun.SAMPLE, more=CleanSample),
    Kind(Noun.SKETCH, "s"),
    Kind(Noun.UPDATABLE_VIEW, "u"),
)


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("DROP SKETCH s", "Drop SKETCH"),
        ("DROP SAMPLE ON v", "Drop SAMPLE"),
        ("DROP UPDATABLE VIEW u", "Drop UPDATABLE VIEW"),
        ("SHOW SKETCHES", "Show SKETCH"),
        ("CLEAN SAMPLE ON v", "CleanSample SAMPLE"),
        ("DROP SYNOPSIS s", None),
        ("SELECT 1", None),
    ],
)
def test_the_noun_decides_who_runs_a_statement(text: str, run: str | None) -> None:
    assert run_of(parse_statement(text), KINDS) == run  # type: ignore[comparison-overlap]


def refused(create: Create, view: bool = False, table: bool = False) -> str:
    """The error for a new name, as text; empty if the name is free."""
    try:
        refuse_taken_name(create, create.name, KINDS, view=view, table=table)
    except Invalid as error:
        return f"{error.reason}: {error}"
    return ""


@pytest.mark.parametrize(
    ("create", "message", "hint"),
    [
        (CreateSketch("s", ""), "sketch 's' exists already", "CREATE OR REPLACE SKETCH"),
        (CreateUpdatable("u", ""), "updatable view 'u' exists already", "DROP UPDATABLE VIEW"),
        (CreateSketch("u", ""), "'u' is an updatable view", "DROP UPDATABLE VIEW u first"),
        (CreateView("s", "", replace=True), "'s' is a sketch", "DROP SKETCH s first"),
        (CreateView("s", "", if_not_exists=True), "'s' is a sketch", "choose another name"),
    ],
)
def test_a_name_is_taken_by_a_derivation_of_any_kind(
    create: Create, message: str, hint: str
) -> None:
    assert refused(create).startswith(f"NAME_TAKEN: {message}")
    assert hint in refused(create)


@pytest.mark.parametrize("allowed", [{"replace": True}, {"if_not_exists": True}])
def test_a_derivation_of_the_same_kind_may_exist_where_the_statement_says_so(
    allowed: dict[str, bool],
) -> None:
    assert refused(CreateSketch("s", "", **allowed)) == ""  # type: ignore[arg-type]
    view = CreateView("v", "", **allowed)  # type: ignore[arg-type]
    assert refused(view, view=True) == ""
    assert "'v' exists already and is not a materialized view" in refused(view, table=True)


def test_a_name_is_taken_by_a_view_and_by_a_table() -> None:
    assert refused(CreateSketch("v", "")) == ""
    assert "is not a sketch" in refused(CreateSketch("v", ""), view=True)
    assert "is not a sketch" in refused(CreateSketch("v", "", replace=True), table=True)
    assert "materialized view 'v' exists already" in refused(CreateView("v", ""), view=True)


def test_a_table_does_not_take_the_name_of_a_derivation() -> None:
    refuse_name_of_kind("t", "t", KINDS)
    with pytest.raises(Invalid, match="'s' is a sketch") as error:
        refuse_name_of_kind("s", "s", KINDS)
    assert error.value.reason == "NAME_TAKEN"
