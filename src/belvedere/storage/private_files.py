"""Files beside the tables: for their owner alone, written whole, never opened through a link.

None of them may stop a lake. One that cannot be used is given another name, so that nothing of it
is lost; `Damage` tells whose it was, what is lost with it, and what mends that.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

LOCK_DIRECTORY = ".belvedere"
"""Where they are, in a lake's directory."""
ONLY_OWNER = 0o600
"""The mode of a file that may hold values of tables."""
_ASIDE = ".damaged-"
_SAFELY = os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Use:
    """What files of one kind are for, and what to do without one."""

    word: str
    lost: str
    mend: str


USES = {
    "schedule": Use(
        "RESPONSE LIMIT",
        "the response limit of {name!r}, with what its changes were measured to cost,",
        "ALTER MATERIALIZED VIEW {name} SET RESPONSE LIMIT … SECONDS; belvedere calibrate {name}",
    ),
    "subscription": Use(
        "SUBSCRIPTION",
        "the subscription {name!r}, by which nobody is told of anything now,",
        "belvedere subscribe VIEW --name {name} …",
    ),
    "notice": Use(
        "SUBSCRIPTION",
        "what subscription {name!r} told last, and what waited to be sent,",
        "go on: the next notification says all rows as added, under a number that none had",
    ),
    "sketches": Use("SKETCH", "the sketch {name!r}", "CREATE SKETCH {name} …"),
    "synopsis": Use("SYNOPSIS", "the synopsis {name!r}", "CREATE SYNOPSIS {name} …"),
    "updating": Use(
        "UPDATABLE", "the updatable view {name!r}", "CREATE UPDATABLE VIEW {name} AS …"
    ),
    "updating-making": Use(
        "UPDATABLE",
        "the list of what a creation of {name!r} left that was cut off",
        "DROP TABLE {name}_summary_…, if such are there",
    ),
    "refreshes": Use(
        "HISTORY",
        "the history of refreshes, with what they cost,",
        "go on: it begins anew, and the views' own logs still tell what they did",
    ),
}
"""By the directory that they are in. Without a file of a kind that is not here nothing is lost."""


@dataclass(frozen=True)
class Damage:
    """A file that is not used: why, and where it is."""

    kind: str
    name: str
    why: str
    path: Path

    @property
    def word(self) -> str:
        """What the file was of."""
        return USES[self.kind].word

    def __str__(self) -> str:
        """What is lost and where it was; then the hint."""
        use = USES[self.kind]
        lost, mend = (text.format(name=self.name) for text in (use.lost, use.mend))
        return f"{lost} is lost: {self.path} {self.why}\n  hint: {mend}; then remove that file"


class NotAFile(OSError):
    """A link, a directory or something else stands where a file should."""


def open_file(path: Path) -> BinaryIO:
    """A file to read; `NotAFile` if that is not one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _SAFELY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotAFile(error.errno, "it is a symbolic link", str(path)) from error
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotAFile(errno.EINVAL, "it is not a file", str(path))


@contextmanager
def replacing(path: Path, draft: Path | None = None) -> Iterator[BinaryIO]:
    """A new file that takes the place of one, if there is one, all at once when the block ends well.

    The draft's name must be the caller's alone: that of the file, if the caller holds its lock.
    """
    make_directory(path.parent)
    draft = draft or path.with_suffix(".draft")
    with _created(draft) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    if path.is_dir() and not path.is_symlink():
        set_aside(path)
    draft.replace(path)
    sync_directory(path.parent)


def _created(path: Path) -> BinaryIO:
    """A new file to write: whatever a killed process left there goes."""
    try:
        path.unlink()
    except FileNotFoundError:
        pass
    except OSError:
        set_aside(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, ONLY_OWNER)
    return os.fdopen(descriptor, "wb")


def remove(path: Path) -> None:
    """Take a file away, if it is there; a directory in its place is set aside."""
    try:
        path.unlink()
    except FileNotFoundError:
        pass
    except OSError:
        if set_aside(path) is None:
            raise


def make_directory(path: Path) -> None:
    """Make a directory of ours; a file that stands in its place is set aside."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        ours = [p for p in (path, *path.parents) if LOCK_DIRECTORY in p.parts]
        for wrong in ours or [path]:
            if os.path.lexists(wrong) and not wrong.is_dir():
                set_aside(wrong)
        path.mkdir(parents=True, exist_ok=True)


def set_aside(path: Path) -> Path | None:
    """Give a file or directory a name under which it is kept; None if that cannot be done."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for number in range(1000):
        to = path.with_name(f"{path.name}{_ASIDE}{now}{f'-{number}' if number else ''}")
        if not os.path.lexists(to):
            with suppress(OSError):
                return path.rename(to)
            return None
    return None


def kept_aside(directory: Path) -> dict[str, Path]:
    """By their names before, the files that were set aside in a directory; of several the last."""
    found: dict[str, Path] = {}
    with suppress(OSError):
        for path in sorted(directory.iterdir()):
            before, aside, _ = path.name.rpartition(_ASIDE)
            if aside:
                found[before] = path
    return found


def sync_directory(directory: Path) -> None:
    """The new name must be on disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
