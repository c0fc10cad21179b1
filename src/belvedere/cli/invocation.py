"""What every command does: find its lake, print what it found."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol

from belvedere.cli.progress import working

if TYPE_CHECKING:
    from collections.abc import Callable

    from belvedere.api import Lake
    from belvedere.lake.offline import OfflineLake

OK, MISTAKE, INTERNAL, UNABLE, INTERRUPTED = 0, 1, 3, 4, 130
"""Exit codes; 2 is argparse's."""


class Adder(Protocol):
    """Adds a command to the parser: its name, what runs it, a line of help."""

    def __call__(
        self,
        name: str,
        run: Callable[[argparse.Namespace], int],
        text: str,
        *,
        as_json: bool = True,
    ) -> argparse.ArgumentParser: ...


def shelf(arguments: argparse.Namespace) -> OfflineLake:
    """The lake of a command that only looks."""
    from belvedere.lake.offline import OfflineLake

    return OfflineLake(directory(arguments))


@contextmanager
def lake(arguments: argparse.Namespace) -> Iterator[Lake]:
    """The lake of a command that needs Spark."""
    with working("starting Spark"):
        from belvedere.api import connect

        opened = connect(directory(arguments))
    with opened:
        yield opened


def directory(arguments: argparse.Namespace) -> str:
    """Where the lake is."""
    return getattr(arguments, "lake", None) or os.environ.get("BELVEDERE_LAKE") or "lake"


def print_found(arguments: argparse.Namespace, found: object) -> None:
    """Print for people, or for programs if that was asked."""
    print_json(found) if arguments.json else print(found)


def print_json(found: object, indent: int | None = 2) -> None:
    """Print in JSON's types."""
    print(json.dumps(_plain(found), indent=indent, ensure_ascii=False, default=str))


def _plain(found: object) -> object:
    """The same in JSON's types."""
    if hasattr(found, "_asdict"):
        return _plain(found._asdict())
    if is_dataclass(found) and not isinstance(found, type):
        return _plain({f.name: getattr(found, f.name) for f in fields(found)})
    if isinstance(found, Mapping):
        return {str(key): _plain(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_plain(value) for value in found]
    if isinstance(found, datetime | date):
        return found.isoformat()
    return found
