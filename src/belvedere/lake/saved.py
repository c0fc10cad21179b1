"""State that lives in memory, saved beside the lake: one file for each derivation.

    file = magic, length of the head, head, the arrays, each at a multiple of 64 bytes
    head = JSON: format, definition, vector, and of each array its type, shape, place and checksum

The vector stands in the file that it speaks of, and a file is replaced whole: killed at any
moment, a derivation has its old state with the old vector, or the new state with the new one.
Arrays are mapped into memory, not read, so that a large state is there at once.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt

from belvedere.errors import BelvedereError
from belvedere.lake.locks import LOCK_DIRECTORY, LONGEST, lock
from belvedere.lake.stamps import Vector, vector_of, vector_record

FORMAT = 1
_MAGIC = b"BVDSTATE"
_ALIGNED = 64
_LENGTH = 8
_ENDING = ".state"

Arrays = Mapping[str, npt.NDArray[Any]]


class Corrupt(BelvedereError):
    """A saved state that is not what was saved: to be built again, never used."""


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
    """The saved states of a lake, by kind and name."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def names(self, kind: str) -> list[str]:
        """The names that have a state of a kind, in order."""
        found = (self.home / kind).glob(f"*{_ENDING}")
        return sorted(unquote(path.name.removesuffix(_ENDING)) for path in found)

    def changed(self, kind: str) -> int:
        """A number that is another one whenever a state of a kind came, went or was replaced; 0 if none."""
        try:
            return (self.home / kind).stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def has(self, kind: str, name: str) -> bool:
        """Whether a state is saved."""
        return self._path(kind, name).exists()

    def fingerprint(self, kind: str, name: str) -> tuple[int, ...] | None:
        """What tells a saved state from one that took its place; None if there is none."""
        try:
            stat = self._path(kind, name).stat()
        except FileNotFoundError:
            return None
        return stat.st_mtime_ns, stat.st_ino, stat.st_size

    def head(self, kind: str, name: str) -> Head:
        """The definition and the vector of a state, without its arrays."""
        return self._head(kind, name)[0]

    def load(self, kind: str, name: str) -> Saved:
        """A state, its checksums verified; `Corrupt` if it is not what was saved."""
        head, places = self._head(kind, name)
        path = self._path(kind, name)
        with path.open("rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        arrays = {}
        for array, (kind_text, shape, at, size, checksum) in places.items():
            if at + size > len(whole) or zlib.crc32(memoryview(whole)[at : at + size]) != checksum:
                raise _corrupt(path, f"array {array!r} does not match its checksum")
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
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        with self.locked(kind, name):
            with draft.open("wb") as file:
                _write(file, definition, vector, arrays)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            _sync(path.parent)

    def drop(self, kind: str, name: str) -> None:
        """Take a state away, with the draft that a killed process left."""
        path = self._path(kind, name)
        with self.locked(kind, name):
            path.unlink(missing_ok=True)
            path.with_suffix(".draft").unlink(missing_ok=True)

    def locked(
        self, kind: str, name: str, timeout: float = LONGEST
    ) -> AbstractContextManager[None]:
        """Hold the lock of a state: whoever loads it to change it holds it from load to save."""
        return lock(self.home / f"{kind}-{quote(name, safe='')}", timeout)

    def _path(self, kind: str, name: str) -> Path:
        return self.home / kind / f"{quote(name, safe='')}{_ENDING}"

    def _head(self, kind: str, name: str) -> tuple[Head, dict[str, Any]]:
        path = self._path(kind, name)
        with path.open("rb") as file:
            start = file.read(len(_MAGIC) + 2 * _LENGTH)
            length, checksum = _numbers(start)
            text = file.read(length)
        if not start.startswith(_MAGIC) or len(text) < length or zlib.crc32(text) != checksum:
            raise _corrupt(path, "its head does not match its checksum")
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise Corrupt(
                f"{path.name} was saved in format {record['format']}, this reads {FORMAT}",
                hint="it is built again from the tables",
                reason="OTHER_FORMAT",
            )
        size = path.stat().st_size
        head = Head(kind, name, record["definition"], vector_of(record["vector"]), size)
        return head, record["arrays"]


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


def _numbers(start: bytes) -> tuple[int, int]:
    at = len(_MAGIC)
    length = int.from_bytes(start[at : at + _LENGTH], "little")
    return min(length, 1 << 31), int.from_bytes(start[at + _LENGTH :], "little")


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED


def _corrupt(path: Path, detail: str) -> Corrupt:
    return Corrupt(
        f"the saved state {path.name} is damaged",
        detail=detail,
        hint="it is built again from the tables",
        reason="CORRUPT_STATE",
    )


def _sync(directory: Path) -> None:
    """The new name must be on disk too."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
