"""A scratch copy of some tables of a lake: the same rows and versions, of which nobody knows.

Files of a Delta table are written once, so the copy links them and takes no space; the log is
copied. What is done to the copy does not touch the lake.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from belvedere.errors import Unsupported
from belvedere.lake import tables
from belvedere.lake.door import Door, open_directory
from belvedere.lake.locks import LOCK_DIRECTORY, lock
from belvedere.lake.names import quote
from belvedere.lake.session import database_name

_LOG = "_delta_log"


@contextmanager
def scratch(door: Door, names: Collection[str]) -> Iterator[Door]:
    """A lake with copies of these tables, gone at the end."""
    if door.directory is None:
        raise Unsupported(
            "a scratch copy of tables that are not in a lake's directory",
            hint="connect(DIR), or keep a limit without calibration by the service's own times",
            reason="NOT_LOCAL",
        )
    home = door.directory / LOCK_DIRECTORY / f"scratch-{uuid.uuid4().hex[:12]}"
    try:
        for name in names:
            root = tables.table_directory(door.directory, name)
            if root is None:
                raise door.unknown(name)
            with lock(root):
                _copy(root, home / root.name)
        copied = open_directory(home)
        try:
            yield copied
        finally:
            copied.close()
            door.sql(f"DROP DATABASE IF EXISTS {quote(database_name(home))} CASCADE")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _copy(root: Path, to: Path) -> None:
    for here, below, files in os.walk(root):
        beside = to / Path(here).relative_to(root)
        beside.mkdir(parents=True, exist_ok=True)
        is_log = _LOG in Path(here).relative_to(root).parts
        for name in files:
            source, copy = Path(here) / name, beside / name
            if is_log:
                shutil.copy2(source, copy)
            else:
                _link(source, copy)
        below.sort()


def _link(source: Path, copy: Path) -> None:
    try:
        os.link(source, copy)
    except OSError:
        # Another file system, or one without links.
        shutil.copy2(source, copy)
