"""The statements that are the same for every kind of derivation: REFRESH, EXPLAIN, SHOW, DESCRIBE, DROP.

A kind of derivation is a noun here. `WORDS` says how each noun is written and which of these
statements it has. CREATE differs from noun to noun and stands in the noun's own module, as do the
statements that only one noun has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Generic, Protocol, TypeVar

from belvedere.sql.statements.cursor import Cursor, blank


class Noun(Enum):
    """The kinds of derivations, as statements name them."""

    VIEW = "MATERIALIZED VIEW"
    SAMPLE = "SAMPLE"
    SKETCH = "SKETCH"
    SYNOPSIS = "SYNOPSIS"
    UPDATABLE_VIEW = "UPDATABLE VIEW"


@dataclass(frozen=True)
class Refresh:
    """REFRESH noun name [FULL]."""

    noun: Noun
    name: str
    full: bool = False


@dataclass(frozen=True)
class Explain:
    """EXPLAIN noun name."""

    noun: Noun
    name: str


@dataclass(frozen=True)
class Show:
    """SHOW nouns."""

    noun: Noun


@dataclass(frozen=True)
class Describe:
    """DESCRIBE noun name."""

    noun: Noun
    name: str


@dataclass(frozen=True)
class Drop:
    """DROP noun [IF EXISTS] name; of a sample, the name of its view."""

    noun: Noun
    name: str
    if_exists: bool = False


class Create(Protocol):
    """What every CREATE statement of a named derivation has."""

    noun: ClassVar[Noun]

    @property
    def name(self) -> str:
        """The name of what is created."""

    @property
    def may_exist(self) -> bool:
        """Whether a derivation of the noun may have the name already."""


C = TypeVar("C", bound=Create)


@dataclass(frozen=True)
class ExplainCreate(Generic[C]):
    """EXPLAIN of a derivation that does not exist yet."""

    create: C

    @property
    def noun(self) -> Noun:
        """The noun of the CREATE statement."""
        return self.create.noun


Verb = Refresh | Explain | Show | Describe | Drop


@dataclass(frozen=True)
class _Words:
    """How a noun is written: its plural, and what a name of it is called in errors."""

    verbs: str
    plural: str = ""
    what: str = "a view's name"


WORDS: Mapping[Noun, _Words] = {
    Noun.VIEW: _Words("REFRESH EXPLAIN SHOW DESCRIBE DESC DROP", "MATERIALIZED VIEWS"),
    Noun.SAMPLE: _Words("DROP"),
    Noun.SKETCH: _Words("REFRESH SHOW DESCRIBE DESC DROP", "SKETCHES", "a sketch's name"),
    Noun.SYNOPSIS: _Words(
        "REFRESH EXPLAIN SHOW DESCRIBE DESC DROP", "SYNOPSES", "a synopsis' name"
    ),
    Noun.UPDATABLE_VIEW: _Words("DROP"),
}
"""How each noun is written, and which statements it has."""


def verbs(noun: Noun) -> dict[str, Callable[[Cursor], Verb]]:
    """The leading keywords of a noun's statements, and the parser of each.

    >>> list(verbs(Noun.SKETCH))
    ['REFRESH SKETCH', 'SHOW SKETCHES', 'DESCRIBE SKETCH', 'DESC SKETCH', 'DROP SKETCH']
    >>> verbs(Noun.SKETCH)["DROP SKETCH"](Cursor("IF EXISTS s"))
    Drop(noun=<Noun.SKETCH: 'SKETCH'>, name='s', if_exists=True)
    """
    what, plural = WORDS[noun].what, WORDS[noun].plural
    parsers: dict[str, Callable[[Cursor], Verb]] = {
        "REFRESH": lambda c: _refresh(c, noun, what),
        "EXPLAIN": lambda c: Explain(noun, only_name(c, what)),
        "SHOW": lambda c: _show(c, noun),
        "DESCRIBE": lambda c: Describe(noun, only_name(c, what)),
        "DESC": lambda c: Describe(noun, only_name(c, what)),
        "DROP": lambda c: _drop(c, noun, what),
    }
    return {
        f"{verb} {plural if verb == 'SHOW' else noun.value}": parsers[verb]
        for verb in WORDS[noun].verbs.split()
    }


def _refresh(c: Cursor, noun: Noun, what: str) -> Refresh:
    name = c.name(what)
    full = c.take("FULL")
    c.end()
    return Refresh(noun, name, full)


def _show(c: Cursor, noun: Noun) -> Show:
    c.end()
    return Show(noun)


def _drop(c: Cursor, noun: Noun, what: str) -> Drop:
    if_exists = c.take("IF EXISTS")
    if noun is Noun.SAMPLE:
        c.expect("ON")
    return Drop(noun, only_name(c, what), if_exists)


def creation(c: Cursor, what: str, *, replace: bool) -> tuple[str, bool]:
    """The name of what is created, and whether it may exist: after CREATE [OR REPLACE] …."""
    if_not_exists = c.take("IF NOT EXISTS")
    if replace and if_not_exists:
        raise c.wrong("OR REPLACE and IF NOT EXISTS exclude each other", hint="keep one of them")
    return c.name(what), if_not_exists


def only_name(c: Cursor, what: str) -> str:
    """A name, and then the end."""
    name = c.name(what)
    c.end()
    return name


def lead(c: Cursor, start: int) -> str:
    """Blank space as long as the text before a query, so that places in the query stay the same."""
    return blank(c.text[:start])
