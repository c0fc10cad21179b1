"""Which kind of derivation runs a statement, and whether the name of a new one is free."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from belvedere.errors import Invalid
from belvedere.sql.statements.derivations import Create, Noun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Run = Callable[[Any], "DataFrame"]


class StatementRunner(Protocol):
    """What runs the statements on one noun."""

    word: str
    """The noun, as in DROP SYNOPSIS."""

    def statements(self) -> Mapping[type, Run]:
        """The functions that run statements, by the statement's class."""


class NamedKind(Protocol):
    """A kind of derivation with a name for each derivation."""

    word: str
    """What one of them is called, as in DROP SYNOPSIS."""

    def names(self) -> Collection[str]:
        """The canonical names of all derivations of the kind."""


def run_of(statement: object, runners: Sequence[StatementRunner]) -> Run | None:
    """The function that runs a statement on its noun; None if no noun has the statement."""
    noun: Noun | None = getattr(statement, "noun", None)
    for runner in runners:
        if noun is None or noun.value == runner.word:
            run = runner.statements().get(type(statement))
            if run is not None:
                return run
    return None


def refuse_taken_name(
    create: Create, canonical: str, kinds: Sequence[NamedKind], *, view: bool, table: bool
) -> None:
    """Invalid if the name of a new derivation is taken.

    `view` and `table` say whether the lake has a materialized view, or a table, of the name.
    """
    refuse_name_of_kind(create.name, canonical, [k for k in kinds if k.word != create.noun.value])
    own = any(canonical in k.names() for k in kinds if k.word == create.noun.value)
    if own or (view and create.noun is Noun.VIEW):
        if not create.may_exist:
            raise name_taken(create)
    elif view or table:
        raise Invalid(
            f"{create.name!r} exists already and is not {_indefinite(create.noun.value)}",
            hint="choose another name",
            reason="NAME_TAKEN",
        )


def name_taken(create: Create) -> Invalid:
    """The error for a new derivation that has the name of another one of its kind."""
    word = create.noun.value
    replaces = hasattr(create, "replace")
    return Invalid(
        f"{word.lower()} {create.name!r} exists already",
        hint=f"CREATE OR REPLACE {word}, or DROP {word} first"
        if replaces
        else f"choose another name, or DROP {word} first",
        reason="NAME_TAKEN",
    )


def refuse_name_of_kind(name: str, canonical: str, kinds: Sequence[NamedKind]) -> None:
    """Invalid if a derivation of one of the kinds has the name."""
    for kind in kinds:
        if canonical in kind.names():
            raise Invalid(
                f"{name!r} is {_indefinite(kind.word)}",
                hint=f"choose another name, or DROP {kind.word} {name} first",
                reason="NAME_TAKEN",
            )


def _indefinite(word: str) -> str:
    """A noun with its article.

    >>> _indefinite("SKETCH"), _indefinite("UPDATABLE VIEW")
    ('a sketch', 'an updatable view')
    """
    return f"{'an' if word[0] in 'AEIOU' else 'a'} {word.lower()}"
