"""One writer at a time for a table on local disk, across processes and threads.

Spark's commit on a local disk checks for the next version's file and then renames: two processes
can both succeed. An OS file lock beside the tables keeps our own writers apart.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belvedere.errors import BelvedereError

LOCK_DIRECTORY = ".belvedere"
LONGEST = 300.0
"""Seconds that a lock is waited for, unless someone says otherwise."""
_PAUSE = 0.02

_held = threading.local()


class Conflict(BelvedereError):
    """Another writer came first: what was read no longer stands, read again and retry."""


@contextmanager
def lock(root: Path, timeout: float = LONGEST) -> Iterator[None]:
    """Hold the lock of the table in a directory; the same thread may take it again inside."""
    mine: set[Path] = _held.__dict__.setdefault("roots", set())
    if root in mine:
        yield
        return
    path = lock_file(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _acquire(descriptor, path, timeout)
        mine.add(root)
        yield
    finally:
        mine.discard(root)
        os.close(descriptor)


def lock_file(root: Path) -> Path:
    """The file whose lock is that of a directory."""
    beside = root.parent
    home = beside if beside.name == LOCK_DIRECTORY else beside / LOCK_DIRECTORY
    return home / f"{root.name}.lock"


def holds(root: Path) -> bool:
    """Whether this thread holds the lock of a directory."""
    return root in _held.__dict__.get("roots", set())


def _acquire(descriptor: int, path: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise Conflict(
                    f"{path.stem} is being written by another process",
                    detail=f"waited {timeout:g} s for {path}",
                    hint="wait for the other refresh to end, then try again",
                    reason="LOCKED",
                ) from None
        time.sleep(_PAUSE)
