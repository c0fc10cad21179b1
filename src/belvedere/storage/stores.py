"""The store of a location, by its scheme: the one place that knows which stores there are."""

# ruff: noqa: ARG002 (what is asked of a store that cannot be reached does not matter)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from belvedere.storage.local import LocalStore, local_path
from belvedere.storage.locks import LOCK_TIMEOUT
from belvedere.storage.store import ObjectMeta, ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa


def open_store(location: str) -> ObjectStore:
    """The store at a location.

    >>> open_store("file:/tmp/t"), open_store("s3://b/t")
    (LocalStore(uri='/tmp/t'), UnreachableStore(uri='s3://b/t'))
    """
    path = local_path(location)
    return UnreachableStore(location) if path is None else LocalStore(path)


@dataclass(frozen=True)
class UnreachableStore:
    """A store whose objects this process does not reach: it looks empty, and nothing is written.

    Spark may read and write what is there. Its writers hold no lease of ours.
    """

    uri: str

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def reachable(self) -> bool:
        return False

    @property
    def parallel_reads(self) -> int:
        return 1

    def at(self, path: str) -> UnreachableStore:
        return UnreachableStore(self.url(path))

    def url(self, path: str) -> str:
        return path if "://" in path else f"{self.uri}/{path}"

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[str]:
        return iter(())

    def directories(self) -> Sequence[str]:
        return []

    def head(self, path: str) -> ObjectMeta:
        self._missing(path)

    def exists(self, path: str) -> bool:
        return False

    def read(self, path: str) -> bytes:
        self._missing(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        self._missing(path)

    def open(self, path: str) -> pa.NativeFile:
        self._missing(path)

    def put(self, path: str, data: bytes) -> None:
        self._missing(path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._missing(path)

    def delete(self, path: str) -> None:
        self._missing(path)

    def clear(self) -> None:
        self._missing("")

    def lease(self, timeout: float = LOCK_TIMEOUT) -> AbstractContextManager[None]:
        return nullcontext()

    def _missing(self, path: str) -> NoReturn:
        raise FileNotFoundError(self.url(path))
