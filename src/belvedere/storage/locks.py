"""One writer at a time for a table on local disk, across processes and threads.

Spark's commit on a local disk checks for the next version's file and then renames: two processes
can both succeed. An OS file lock beside the tables keeps our own writers apart.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belvedere.errors import BelvedereError, Unable
from belvedere.storage.private_files import LOCK_DIRECTORY, ONLY_OWNER, make_directory

LOCK_TIMEOUT = 300.0
"""Seconds that a lock is waited for, unless someone says otherwise."""
_PAUSE = 0.02
_NOT_OURS = (errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.EEXIST)
"""What opening something says that is neither a file nor a directory, or that is in no directory."""

_held = threading.local()


class Conflict(BelvedereError):
    """Another writer came first: what was read no longer stands, read again and retry."""


@contextmanager
def lock(root: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock of the table in a directory; the same thread may take it again inside."""
    mine: set[Path] = _held.__dict__.setdefault("roots", set())
    if root in mine:
        yield
        return
    descriptor = _acquired(lock_file(root), timeout)
    try:
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


def _acquired(path: Path, timeout: float) -> int:
    """A lock file that is open and locked; one that was taken away meanwhile is opened again."""
    deadline = time.monotonic() + timeout
    while True:
        descriptor = _opened(path)
        try:
            _acquire(descriptor, path, timeout, deadline)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _opened(path: Path) -> int:
    """A lock file, made if it is not there; a directory in its place is locked as well."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        make_directory(path.parent)
        # It holds nothing: who lets a group write its directory lets the group lock.
        shared = path.parent.stat().st_mode & 0o020
        mode = ONLY_OWNER | (0o060 if shared else 0)
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | flags, mode)
        except (IsADirectoryError, PermissionError):
            return os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        raise Unable(
            f"the lock file {path} cannot be opened",
            detail=str(error),
            hint=f"remove {path} while nothing else works with the lake",
            reason="LOCK_FILE",
        ) from error


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _acquire(descriptor: int, path: Path, timeout: float, deadline: float) -> None:
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
