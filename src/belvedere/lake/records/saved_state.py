"""State that lives in memory, saved beside the lake: one file for each derivation.

    file = magic, length of the head, head, the arrays, each at a multiple of 64 bytes
    head = JSON: format, definition, vector, and of each array its type, shape, place and checksum

The vector stands in the file that it speaks of, and a file is replaced whole: killed at any
moment, a derivation has its old state with the old vector, or the new state with the new one.
Arrays of a large state are mapped into memory, not read, so that it is there at once.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt

from belvedere.delta.stamps import Vector, vector_of, vector_record
from belvedere.errors import BelvedereError
from belvedere.storage.locks import LOCK_TIMEOUT, lock
from belvedere.storage.private_files import (
    LOCK_DIRECTORY,
    USES,
    Damage,
    NotAFile,
    kept_aside,
    open_file,
    remove,
    replacing,
    set_aside,
)

FORMAT = 1
READ_UP_TO = 32 << 20
"""Bytes of a state that is read; a larger one is mapped into memory."""
_MAGIC = b"BVDSTATE"
_ALIGNED = 64
_LENGTH = 8
_ENDING = ".state"
_OTHER_FORMAT = "OTHER_FORMAT"
_ALL, _ASIDE = "all there were", "was damaged and is kept"
_BUILT_AGAIN = "it is built again from the tables"

Arrays = Mapping[str, npt.NDArray[Any]]


class Corrupt(BelvedereError):
    """A saved state that is not what was saved: never used, built again if that can be done."""


@dataclass(frozen=True)
class Head:
    """What a saved state is of, and where its tables were."""

    kind: str
    name: str
    definition: Mapping[str, Any]
    vector: Vector
    bytes: int
    """Of the whole file."""


@dataclass(frozen=True)
class Saved:
    """A state as it was saved; the arrays cannot be written."""

    head: Head
    arrays: Arrays


class Saves:
    """The saved states of a lake, by kind and name.

    A state whose head cannot be used is as if it were not there, so that nothing else is held up
    by it: `damages` tells of it, and what is saved under its name sets it aside.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._problems: dict[Path, tuple[tuple[int, ...], Exception | None]] = {}

    def names(self, kind: str) -> list[str]:
        """The names that have a state of a kind, in order."""
        return [name for name in self._all(kind) if self.has(kind, name)]

    def changed(self, kind: str) -> int:
        """A number that is another one whenever a state of a kind came, went or was replaced; 0 if none."""
        try:
            return (self.home / kind).stat().st_mtime_ns
        except OSError:
            return 0

    def has(self, kind: str, name: str) -> bool:
        """Whether a state is saved and can be used."""
        path = self._path(kind, name)
        return os.path.lexists(path) and self._problem(kind, name) is None

    def is_damaged(self, kind: str, name: str) -> bool:
        """Whether there is a state that is none any more."""
        return _is_damage(self._problem(kind, name))

    def was_lost(self, kind: str, name: str) -> bool:
        """Whether there is a state that cannot be used, or was one before it was set aside."""
        path = self._path(kind, name)
        if os.path.lexists(path):
            return self._problem(kind, name) is not None
        return path.name in kept_aside(path.parent)

    def mending(self, kind: str, name: str) -> str:
        """What makes a state again that was lost; nothing if none was."""
        if not self.was_lost(kind, name):
            return ""
        return f"make it again, for its file is damaged: {_mending(kind, name)}"

    def damages(self, *kinds: str) -> list[Damage]:
        """What was lost with states that cannot be used and were not replaced since."""
        wholes = kept_aside(self.home).items()
        found = [Damage(k, _ALL, _ASIDE, p) for k, p in wholes if k in (kinds or USES)]
        for kind in kinds or USES:
            found += _unlisted(kind, self.home / kind)
            for name in self._all(kind):
                problem = self._problem(kind, name)
                if problem is not None:
                    path = self._path(kind, name)
                    found.append(Damage(kind, name, _why(problem), path))
            for before, path in kept_aside(self.home / kind).items():
                if before.endswith(_ENDING) and not os.path.lexists(path.with_name(before)):
                    name = unquote(before.removesuffix(_ENDING))
                    found.append(Damage(kind, name, _ASIDE, path))
        return found

    def set_aside_damaged(self) -> None:
        """Give damaged states other names; what only cannot be read is left, and may be someone's."""
        for directory in _entries(self.home):
            kind = directory.name
            if kind in USES and not directory.is_dir():
                set_aside(directory)
            for name in self._all(kind):
                if _is_damage(self._problem(kind, name)):
                    # Whoever holds the lock is saving another one.
                    with suppress(BelvedereError, OSError), self.locked(kind, name, timeout=0):
                        if _is_damage(self._problem(kind, name)):
                            set_aside(self._path(kind, name))

    def fingerprint(self, kind: str, name: str) -> tuple[int, ...] | None:
        """What tells a saved state from one that took its place; None if there is none."""
        if not self.has(kind, name):
            return None
        try:
            stat = self._path(kind, name).stat()
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_size

    def head(self, kind: str, name: str) -> Head:
        """The definition and the vector of a state, without its arrays."""
        with self._opened(kind, name) as file:
            return self._head(kind, name, file)[0]

    def load(self, kind: str, name: str) -> Saved:
        """A state, its checksums verified; `Corrupt` if it is not what was saved."""
        path = self._path(kind, name)
        # Both from one file: another may take its place meanwhile.
        with self._opened(kind, name) as file:
            head, places = self._head(kind, name, file)
            whole = _whole(file)
        arrays = {}
        for array, (kind_text, shape, at, size, checksum) in places.items():
            if at + size > len(whole) or zlib.crc32(memoryview(whole)[at : at + size]) != checksum:
                raise _corrupt(path, f"array {array!r} does not match its checksum", _BUILT_AGAIN)
            flat = np.frombuffer(whole, np.dtype(kind_text), int(np.prod(shape)), at)
            arrays[array] = flat.reshape(shape)
        return Saved(head, arrays)

    def save(
        self,
        kind: str,
        name: str,
        definition: Mapping[str, Any],
        vector: Vector,
        arrays: Arrays,
    ) -> None:
        """Put a state in the place of the one before, if there was one, all at once."""
        path = self._path(kind, name)
        with self.locked(kind, name):
            if os.path.lexists(path) and self._problem(kind, name) is not None:
                set_aside(path)
            with replacing(path) as file:
                _write(file, definition, vector, arrays)

    def drop(self, kind: str, name: str) -> None:
        """Take a state away, with the draft that a killed process left."""
        path = self._path(kind, name)
        with self.locked(kind, name):
            remove(path)
            remove(path.with_suffix(".draft"))

    def locked(
        self, kind: str, name: str, timeout: float = LOCK_TIMEOUT
    ) -> AbstractContextManager[None]:
        """Hold the lock of a state: whoever loads it to change it holds it from load to save."""
        return lock(self.home / f"{kind}-{quote(name, safe='')}", timeout)

    def _path(self, kind: str, name: str) -> Path:
        return self.home / kind / f"{quote(name, safe='')}{_ENDING}"

    def _all(self, kind: str) -> list[str]:
        """The names of all states of a kind that are there, whether they can be used or not."""
        found = (p.name for p in _entries(self.home / kind) if p.name.endswith(_ENDING))
        return sorted(unquote(name.removesuffix(_ENDING)) for name in found)

    def _problem(self, kind: str, name: str) -> Exception | None:
        """Why a state cannot be used; None if it can, or is not there. It is read once."""
        path = self._path(kind, name)
        try:
            stat = path.lstat()
        except OSError as error:
            return None if isinstance(error, FileNotFoundError) else error
        # Who may read it is told by the time of its last change of any kind.
        mark = stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_size
        known = self._problems.get(path)
        if known is None or known[0] != mark:
            known = self._problems[path] = mark, self._looked_at(kind, name)
        return known[1]

    def _looked_at(self, kind: str, name: str) -> Exception | None:
        try:
            self.head(kind, name)
        except FileNotFoundError:
            return None
        except (Corrupt, OSError) as error:
            return error.with_traceback(None)
        return None

    def _opened(self, kind: str, name: str) -> BinaryIO:
        path = self._path(kind, name)
        try:
            return open_file(path)
        except NotAFile as error:
            raise _corrupt(path, str(error.strerror), _mending(kind, name)) from error

    def _head(self, kind: str, name: str, file: BinaryIO) -> tuple[Head, dict[str, Any]]:
        """The head of a state, and where its arrays are."""
        path, hint = self._path(kind, name), _mending(kind, name)
        try:
            record = json.loads(_head_of(file))
            if record["format"] == FORMAT:
                vector, size = vector_of(record["vector"]), os.fstat(file.fileno()).st_size
                return Head(kind, name, record["definition"], vector, size), record["arrays"]
        except (ValueError, KeyError, TypeError) as error:
            raise _corrupt(path, "its head does not match its checksum", hint) from error
        raise Corrupt(
            f"{path.name} was saved in format {record['format']}, this reads {FORMAT}",
            hint=f"use the release of Belvedere that wrote it, or: {hint}",
            reason=_OTHER_FORMAT,
        )


def _whole(file: BinaryIO) -> bytes | mmap.mmap:
    """What a file holds: a large one mapped, which ends the process should someone cut it off then."""
    if os.fstat(file.fileno()).st_size > READ_UP_TO:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    file.seek(0)
    return file.read()


def _mending(kind: str, name: str) -> str:
    """What to do without a state."""
    return USES[kind].mend.format(name=name) if kind in USES else _BUILT_AGAIN


def _entries(directory: Path) -> list[Path]:
    """What is in a directory, if that can be read."""
    try:
        return list(directory.iterdir())
    except OSError:
        return []


def _unlisted(kind: str, directory: Path) -> list[Damage]:
    """What is not known because a directory of states cannot be read."""
    try:
        next(directory.iterdir(), None)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Damage(kind, _ALL, _why(error), directory)]
    return []


def _is_damage(problem: Exception | None) -> bool:
    """Whether a file is no state at all; another release may read one that this does not."""
    return isinstance(problem, Corrupt) and problem.reason != _OTHER_FORMAT


def _why(problem: Exception) -> str:
    if _is_damage(problem):
        assert isinstance(problem, Corrupt)
        return f"is damaged: {problem.detail}"
    return f"cannot be read: {problem.message if isinstance(problem, Corrupt) else problem}"


def local_saves(directory: Path | None, state: Path | None = None) -> Saves | None:
    """The saves of the lake in a directory, or of a session whose user named a place for them."""
    if directory is not None:
        return Saves(directory / LOCK_DIRECTORY)
    return None if state is None else Saves(state / LOCK_DIRECTORY)


def _write(file: Any, definition: Mapping[str, Any], vector: Vector, arrays: Arrays) -> None:
    """Write a state from the start of an empty file.

    The head says where the arrays are, so its length must not depend on where they are: places
    count from the end of the head, and are written as text of a fixed width.
    """
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    places: dict[str, Any] = {}
    at = 0
    for name, array in plain.items():
        checksum = zlib.crc32(_raw(array))
        places[name] = [array.dtype.str, list(array.shape), at, array.nbytes, checksum]
        at = _aligned(at + array.nbytes)
    record = {"format": FORMAT, "definition": definition, "vector": vector_record(vector)}
    text = _head_text(record, places)
    file.write(_MAGIC)
    file.write(len(text).to_bytes(_LENGTH, "little"))
    file.write(zlib.crc32(text).to_bytes(_LENGTH, "little"))
    file.write(text)
    for array in plain.values():
        file.write(b"\0" * (_aligned(file.tell()) - file.tell()))
        file.write(_raw(array))


def _raw(array: npt.NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _head_text(record: dict[str, Any], places: dict[str, Any]) -> bytes:
    """The head, with places counted from the start of the file; blanks fill what was reserved."""
    reserved = len(json.dumps({**record, "arrays": places}).encode()) + 24 * (len(places) + 1)
    start = _aligned(len(_MAGIC) + 2 * _LENGTH + reserved)
    absolute = {n: [k, shape, start + at, *rest] for n, (k, shape, at, *rest) in places.items()}
    text = json.dumps({**record, "arrays": absolute}).encode()
    return text.ljust(start - len(_MAGIC) - 2 * _LENGTH)


def _head_of(file: BinaryIO) -> bytes:
    """The text of a head; ValueError if it is not what was written."""
    start = file.read(len(_MAGIC) + 2 * _LENGTH)
    at = len(_MAGIC)
    length = int.from_bytes(start[at : at + _LENGTH], "little")
    checksum = int.from_bytes(start[at + _LENGTH :], "little")
    whole = len(start) == at + 2 * _LENGTH and start.startswith(_MAGIC)
    text = file.read(min(length, os.fstat(file.fileno()).st_size))
    if not whole or len(text) < length or zlib.crc32(text) != checksum:
        raise ValueError("the head of a state was cut off or changed")
    return text


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED


def _corrupt(path: Path, detail: str, hint: str) -> Corrupt:
    return Corrupt(
        f"the saved state {path.name} is damaged", detail=detail, hint=hint, reason="CORRUPT_STATE"
    )
