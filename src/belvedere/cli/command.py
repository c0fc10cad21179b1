"""What all commands share: exit codes, the lake, output as text or JSON."""

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
"""Exit codes; argparse ends with 2."""


class AddCommand(Protocol):
    """Adds a command to the parser: its name, the function that runs it, one line of help."""

    def __call__(
        self,
        name: str,
        run: Callable[[argparse.Namespace], int],
        text: str,
        *,
        as_json: bool = True,
    ) -> argparse.ArgumentParser: ...


def offline_lake(arguments: argparse.Namespace) -> OfflineLake:
    """The lake of a command that needs no Spark."""
    from belvedere.lake.offline import OfflineLake

    return OfflineLake(lake_directory(arguments))


@contextmanager
def open_lake(arguments: argparse.Namespace) -> Iterator[Lake]:
    """The lake of a command that needs Spark."""
    with working("starting Spark"):
        from belvedere.api import connect

        lake = connect(lake_directory(arguments))
    with lake:
        yield lake


def lake_directory(arguments: argparse.Namespace) -> str:
    """The directory of the lake."""
    return getattr(arguments, "lake", None) or os.environ.get("BELVEDERE_LAKE") or "lake"


def print_result(arguments: argparse.Namespace, result: object) -> None:
    """Print a result as text, or as JSON if --json is given."""
    print_json(result) if arguments.json else print(result)


def print_json(result: object, indent: int | None = 2) -> None:
    """Print a result as JSON."""
    print(json.dumps(_json_value(result), indent=indent, ensure_ascii=False, default=str))


def _json_value(result: object) -> object:
    """The result in types that JSON has."""
    if hasattr(result, "_asdict"):
        return _json_value(result._asdict())
    if is_dataclass(result) and not isinstance(result, type):
        return _json_value({f.name: getattr(result, f.name) for f in fields(result)})
    if isinstance(result, Mapping):
        return {str(key): _json_value(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [_json_value(value) for value in result]
    if isinstance(result, datetime | date):
        return result.isoformat()
    return result
