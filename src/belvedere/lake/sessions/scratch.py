"""A scratch copy of some tables of a lake: the same rows and versions, of which nobody knows.

Files of a Delta table are written once, so the copy links them and takes no space; the log is
copied. What is done to the copy does not touch the lake. Who makes one takes away those of
processes that were killed: theirs are the ones that nobody holds the lock of.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from belvedere.delta import snapshots
from belvedere.errors import BelvedereError, Unsupported
from belvedere.lake.spark_lake import SparkLake, open_directory
from belvedere.sql.names import database_name, quote
from belvedere.storage.locks import holds, lock, lock_file
from belvedere.storage.private_files import LOCK_DIRECTORY, remove

_LOG = "_delta_log"
_SCRATCH = "scratch-"


@contextmanager
def scratch(door: SparkLake, names: Collection[str]) -> Iterator[SparkLake]:
    """A lake with copies of these tables, gone at the end."""
    if door.directory is None or door.home is None:
        raise Unsupported(
            "a scratch copy of tables that are not in a lake's directory",
            hint="connect(DIR), or keep a limit without calibration by the service's own times",
            reason="NOT_LOCAL",
        )
    sweep(door.directory)
    home = door.directory / LOCK_DIRECTORY / f"{_SCRATCH}{uuid.uuid4().hex[:12]}"
    with _alone_in(home):
        for name in names:
            store = snapshots.store_of_table(door.home, name)
            if store is None:
                raise door.unknown(name)
            with store.lease():
                _copy(Path(store.uri), home / store.name)
        copied = open_directory(home)
        try:
            yield copied
        finally:
            copied.close()
            door.sql(f"DROP DATABASE IF EXISTS {quote(database_name(home))} CASCADE")


def sweep(directory: Path) -> None:
    """Take away the copies that killed processes left in a lake's directory."""
    for left in (directory / LOCK_DIRECTORY).glob(f"{_SCRATCH}*"):
        if left.is_dir() and not holds(left):
            with suppress(BelvedereError, OSError), _alone_in(left, timeout=0.0):
                pass


@contextmanager
def _alone_in(home: Path, timeout: float = 300.0) -> Iterator[None]:
    """Hold a copy's lock; in the end both go, the lock last."""
    with lock(home, timeout):
        try:
            yield
        finally:
            shutil.rmtree(home, ignore_errors=True)
            remove(lock_file(home))


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
