"""The object store: the bytes of a table or a lake, by path. Nothing above knows where they are.

A path is relative to the store and has slashes, as a key in a bucket has; it may also be the URL
of an object elsewhere. The methods mean what those of S3 and of obstore mean: an object appears
whole or not at all, a listing is in order of name, and of several writers that create one object
exactly one succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from belvedere.storage.locks import LOCK_TIMEOUT

if TYPE_CHECKING:
    import pyarrow as pa


class ObjectMeta(NamedTuple):
    """What a store records about an object."""

    path: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    etag: str
    """Differs from the etag of every object that had this path before."""


class ObjectStore(Protocol):
    """Objects below one URI. FileNotFoundError means that there is no such object."""

    def __hash__(self) -> int:
        """Stores of the same URI are equal and have the same hash."""

    @property
    def uri(self) -> str:
        """The name under which Spark and delta-rs open the store."""

    @property
    def name(self) -> str:
        """The last part of the URI."""

    @property
    def reachable(self) -> bool:
        """Whether this process reaches the objects, or Spark alone does."""

    @property
    def parallel_reads(self) -> int:
        """How many objects are best read at once."""

    def at(self, path: str) -> ObjectStore:
        """The store of the objects below a path."""

    def url(self, path: str) -> str:
        """The name under which Spark reads one object."""

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[str]:
        """The paths that begin with a prefix, in order; only those after `start_after`."""

    def directories(self) -> Sequence[str]:
        """The first parts of the paths that have several parts, in order."""

    def head(self, path: str) -> ObjectMeta:
        """The size, time and etag of an object."""

    def exists(self, path: str) -> bool:
        """Whether there is such an object."""

    def read(self, path: str) -> bytes:
        """An object."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        """Parts of an object, each from its start up to its end; parts beyond the end are cut."""

    def open(self, path: str) -> pa.NativeFile:
        """An object as a file that Arrow reads from."""

    def put(self, path: str, data: bytes) -> None:
        """Create or replace an object."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object; False if there is one, which then stays as it is."""

    def delete(self, path: str) -> None:
        """Remove an object; nothing happens if there is none."""

    def clear(self) -> None:
        """Remove every object, and what stands for the store itself."""

    def lease(self, timeout: float = LOCK_TIMEOUT) -> AbstractContextManager[None]:
        """Hold the right to write here alone; Conflict after `timeout` seconds of waiting."""
