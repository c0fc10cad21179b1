"""What a lake asks of every kind of derivation besides views, so that all are used the same way.

A kind is made of a lake with or without Spark (`ReadableLake`): names, status and what it reads are
told from what is saved; refreshing needs the door. `kinds.py` holds the list of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from belvedere.derivations.guard import Reader
from belvedere.derivations.status import Status, Statuses, status
from belvedere.errors import Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Saves
from belvedere.sql.statements.spark import WriteKind
from belvedere.storage.private_files import Damage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Kind(Protocol):
    """One kind of derivation: synopses, sketches and the like."""

    word: str
    """What one of them is called, as in DROP SYNOPSIS."""

    def names(self) -> Collection[str]:
        """The canonical names of all there are."""

    def reads(self, name: str) -> Mapping[str, Collection[str]]:
        """The tables (a view for its stored table) that one needs, with the columns it uses."""

    def refresh(self, name: str, *, full: bool = False) -> Any:
        """Bring one to the newest versions; what was done prints as a line."""

    def advance(self, name: str, tables: Sequence[str]) -> Any:
        """Apply only some tables' pending changes to one."""

    def explain(self, name: str) -> object:
        """How one is kept, as text."""

    def status(self) -> list[Status]:
        """Where each stands; needs no Spark."""

    def statements(self) -> Mapping[type, Callable[[Any], DataFrame]]:
        """The statements of this kind, and what runs them."""

    def close(self) -> None:
        """Let go of what is held in memory."""


@runtime_checkable
class Together(Protocol):
    """A kind whose derivations share work when all of them are refreshed."""

    def refresh_all(self, *, full: bool = False) -> list[Any]:
        """Bring all to the newest versions."""


@runtime_checkable
class Writable(Protocol):
    """A kind whose derivations can be written like tables."""

    def names(self) -> Collection[str]:
        """The canonical names of all there are."""

    def write(self, name: str, kind: WriteKind, text: str, *, explain: bool) -> DataFrame:
        """Run a statement that writes through one, or tell what it would do."""

    def check(self, name: str, **asked: Any) -> Any:
        """Whether an update through one can be done as asked."""


@runtime_checkable
class Composed(Protocol):
    """A kind whose derivations are made of views, which are not listed beside them."""

    def owns(self, view: str) -> bool:
        """Whether a view is a part of one of its derivations."""


def the_saves(lake: ReadableLake) -> Saves:
    """Where a lake saves states that live in memory; `Invalid` if it has no place for them."""
    if lake.saves is None:
        raise Invalid(
            "this lake has no directory for what is kept in memory",
            hint="connect(spark, state=DIR) names one",
            reason="NO_STATE_DIRECTORY",
        )
    return lake.saves


def readers(kinds: Sequence[Kind], table: str) -> list[Reader]:
    """What of these kinds reads a table."""
    return [
        Reader(name, read[table], f"DROP {kind.word}")
        for kind in kinds
        for name in kind.names()
        if table in (read := kind.reads(name))
    ]


def damages(lake: ReadableLake) -> list[Damage]:
    """What was lost with files beside the tables, and not made anew since."""
    return lake.saves.damages() if lake.saves is not None else []


def everything(lake: ReadableLake, kinds: Sequence[Kind]) -> Statuses:
    """Where everything derived stands, views first; what was lost last."""
    found = status(lake)
    owners = [kind for kind in kinds if isinstance(kind, Composed)]
    found[:] = [each for each in found if not any(kind.owns(each.name) for kind in owners)]
    found.extend(each for kind in kinds for each in kind.status())
    found.extend(Status(each.name, each.word, error=str(each)) for each in damages(lake))
    return found
