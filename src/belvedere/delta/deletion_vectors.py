"""Deletion vectors: the numbers of the rows of a file that are deleted.

A vector is a 64-bit Roaring bitmap: for each upper half of the numbers a 32-bit bitmap in the
portable format, and in that, for each upper 16 bits, a container of the lower 16: a sorted list,
a bit set, or runs.
"""

from __future__ import annotations

import base64
import struct

import numpy as np
import numpy.typing as npt

from belvedere.delta import log
from belvedere.delta.log import Action
from belvedere.errors import Internal
from belvedere.storage.store import ObjectStore

Numbers = npt.NDArray[np.int64]

_MAGIC = 1681511377
_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346
_OFFSETS_FROM = 4
_LIST_AT_MOST = 4096
NONE: Numbers = np.empty(0, dtype=np.int64)


def deleted(store: ObjectStore, vector: Action) -> Numbers:
    """The row numbers that a vector of a table deletes, in order."""
    return decode(_bytes(store, vector))


def decode(data: bytes) -> Numbers:
    """The numbers in a serialized bitmap."""
    magic, count = struct.unpack_from("<iq", data)
    if magic != _MAGIC:
        raise Internal(f"a deletion vector of unknown format {magic}")
    found, at = [], 12
    for _ in range(count):
        (upper,) = struct.unpack_from("<i", data, at)
        numbers, at = _bitmap(data, at + 4)
        found.append(numbers + (upper << 32))
    return np.concatenate(found) if found else NONE


def _bytes(store: ObjectStore, vector: Action) -> bytes:
    path, size = log.vector_path(vector), int(vector["sizeInBytes"])
    if path is None:
        return base64.b85decode(log.from_z85(str(vector["pathOrInlineDv"])))[:size]
    start = int(vector.get("offset") or 0)
    [data] = store.read_ranges(path, [(start, start + 4 + size)])
    if int.from_bytes(data[:4], "big") != size:
        raise Internal(f"the deletion vector in {store.url(path)} is damaged")
    return data[4:]


def _bitmap(data: bytes, at: int) -> tuple[Numbers, int]:
    """The numbers of a 32-bit bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    if cookie & 0xFFFF == _WITH_RUNS:
        count, at = (cookie >> 16) + 1, at + 4
        size = (count + 7) // 8
        bits = np.frombuffer(data, np.uint8, size, at)
        runs, at = np.unpackbits(bits, bitorder="little").astype(bool), at + size
        offsets = count >= _OFFSETS_FROM
    elif cookie == _WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", data, at + 4)
        runs, at, offsets = np.zeros(count, dtype=bool), at + 8, True
    else:
        raise Internal(f"a deletion vector's bitmap of unknown format {cookie}")
    heads = np.frombuffer(data, "<u2", 2 * count, at).reshape(count, 2).astype(np.int64)
    at += 4 * count + (4 * count if offsets else 0)
    found = []
    for (upper, less), is_runs in zip(heads, runs, strict=False):
        numbers, at = _container(data, at, int(less) + 1, is_runs=bool(is_runs))
        found.append(numbers + (upper << 16))
    return (np.concatenate(found) if found else NONE), at


def _container(data: bytes, at: int, cardinality: int, *, is_runs: bool) -> tuple[Numbers, int]:
    if is_runs:
        (count,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * count, at + 2).reshape(count, 2).astype(np.int64)
        firsts, lengths = pairs[:, 0], pairs[:, 1] + 1
        ends = np.cumsum(lengths)
        # Each number is its run's first and how far it is from where its run begins.
        numbers = np.repeat(firsts - ends + lengths, lengths) + np.arange(lengths.sum())
        return numbers, at + 2 + 4 * count
    if cardinality <= _LIST_AT_MOST:
        listed = np.frombuffer(data, "<u2", cardinality, at).astype(np.int64)
        return listed, at + 2 * cardinality
    bits = np.frombuffer(data, np.uint8, 8192, at)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")), at + 8192
