"""An object store in a local directory."""

from __future__ import annotations

import os
import shutil
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from belvedere.storage.locks import LOCK_TIMEOUT, lock
from belvedere.storage.private_files import sync_directory
from belvedere.storage.store import ObjectMeta

if TYPE_CHECKING:
    import pyarrow as pa

_DRAFT = ".draft-"
"""What the names of files begin with that are not written to their end; no listing has them."""
_AFTER_DRAFTS = ".draft."
"""The least name behind all of theirs."""


def local_path(location: str) -> str | None:
    """The path in the file system that a location means; None if it is on no local disk.

    >>> local_path("file:/tmp/a%20b"), local_path("/tmp/a%20b"), local_path("s3://b/t")
    ('/tmp/a b', '/tmp/a%20b', None)
    """
    url = urlparse(location)
    if url.scheme == "file":
        return unquote(url.path)
    return None if url.scheme else location


@dataclass(frozen=True)
class LocalStore:
    """The files below a directory; none of them need exist."""

    uri: str

    @property
    def name(self) -> str:
        return self.uri.rpartition("/")[2]

    @property
    def reachable(self) -> bool:
        return True

    @property
    def parallel_reads(self) -> int:
        return os.cpu_count() or 1

    def at(self, path: str) -> LocalStore:
        return LocalStore(self.url(path))

    def url(self, path: str) -> str:
        if path[:1] == "/":
            return path
        if path[:5] == "file:" or "://" in path:
            elsewhere = local_path(path)
            if elsewhere is None:
                raise FileNotFoundError(path)
            return elsewhere
        return f"{self.uri}/{path}"

    def list(self, prefix: str = "", start_after: str = "") -> Iterator[str]:
        directory = prefix.rpartition("/")[0]
        above = f"{directory}/" if directory else ""
        paths = self._below(above)
        if prefix == above and not start_after:
            return paths
        return (path for path in paths if path > start_after and path.startswith(prefix))

    def _below(self, above: str) -> Iterator[str]:
        """All paths below one that is empty or ends with a slash, in order."""
        for name in self._entries(above):
            if name[-1] == "/":
                yield from self._below(above + name)
            else:
                yield above + name

    def _entries(self, above: str) -> Sequence[str]:
        """The names in a directory, in order; those of directories end with a slash."""
        try:
            with os.scandir(f"{self.uri}/{above}") as entries:
                names = [f"{e.name}/" if e.is_dir() else e.name for e in entries]
        except (FileNotFoundError, NotADirectoryError):
            return ()
        names.sort()
        first = bisect_left(names, _DRAFT)
        del names[first : bisect_left(names, _AFTER_DRAFTS, first)]
        return names

    def directories(self) -> Sequence[str]:
        return sorted(name[:-1] for name in self._entries("") if name.endswith("/"))

    def head(self, path: str) -> ObjectMeta:
        found = os.stat(self.url(path))
        etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
        return ObjectMeta(path, found.st_size, found.st_mtime_ns, etag)

    def exists(self, path: str) -> bool:
        try:
            return os.path.exists(self.url(path))
        except FileNotFoundError:
            return False

    def read(self, path: str) -> bytes:
        with open(self.url(path), "rb") as file:
            return file.read()

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes]:
        with open(self.url(path), "rb") as file:
            return [os.pread(file.fileno(), max(0, end - start), start) for start, end in ranges]

    def open(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.memory_map(self.url(path))

    def put(self, path: str, data: bytes) -> None:
        with self._draft(path, data) as draft:
            os.replace(draft, self.url(path))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._draft(path, data) as draft:
            try:
                # A link, unlike a rename, fails where there is a file.
                os.link(draft, self.url(path))
            except FileExistsError:
                return False
        return True

    @contextmanager
    def _draft(self, path: str, data: bytes) -> Iterator[str]:
        """A file beside `path` that holds the data; what the block does with it is durable."""
        directory = os.path.dirname(self.url(path))
        os.makedirs(directory, exist_ok=True)
        draft = f"{directory}/{_DRAFT}{uuid.uuid4().hex}"
        try:
            with open(draft, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        sync_directory(Path(directory))

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.url(path))

    def clear(self) -> None:
        shutil.rmtree(self.uri, ignore_errors=True)

    def lease(self, timeout: float = LOCK_TIMEOUT) -> AbstractContextManager[None]:
        return lock(Path(self.uri), timeout)
