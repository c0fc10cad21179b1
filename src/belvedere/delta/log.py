"""The Delta log of a table on local disk, read as the JSON it is: no Spark, no delta-rs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlparse

from belvedere.errors import Invalid

Action: TypeAlias = Mapping[str, Any]

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*parquet")
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_FROM_Z85 = bytes.maketrans(_Z85, _B85)


class DamagedLog(Invalid, ValueError):
    """A file of a table's log is not what was written."""


def damaged_log(name: str, detail: str) -> DamagedLog:
    """The error for a table whose log cannot be read; of what was said, one line."""
    return DamagedLog(
        f"the log of {name!r} cannot be read",
        detail=detail.strip().partition("\n")[0],
        hint="put the file back; a view whose own rows are there is dropped and created again",
        reason="UNREADABLE_LOG",
    )


@dataclass(frozen=True)
class Commit:
    """What one version of a table did."""

    version: int
    info: Action
    adds: tuple[Action, ...]
    removes: tuple[Action, ...]
    cdcs: tuple[Action, ...]
    metadata: Action | None
    transactions: tuple[Action, ...]
    protocol: Action | None = None

    @property
    def changes_data(self) -> bool:
        """Whether rows came or went; OPTIMIZE only moves them."""
        return any(a.get("dataChange", True) for a in (*self.adds, *self.removes))

    @property
    def operation(self) -> str:
        """The name of the operation, as the history shows it."""
        return str(self.info.get("operation", ""))


def local_root(location: str) -> Path | None:
    """The directory of a table on local disk, or None.

    >>> local_root("file:/tmp/a%20b"), local_root("s3://b/t")
    (PosixPath('/tmp/a b'), None)
    """
    url = urlparse(location)
    if url.scheme == "file":
        return Path(unquote(url.path))
    return Path(location) if not url.scheme else None


def is_table(root: Path) -> bool:
    """Whether a directory holds a Delta table with at least one version."""
    return next(_files(root), None) is not None


def newest_version(root: Path) -> int:
    """The newest version; FileNotFoundError if there is no table."""
    found = max((version for version, _ in _files(root)), default=None)
    if found is None:
        raise FileNotFoundError(root)
    return found


def commit_versions(root: Path) -> list[int]:
    """The versions whose commit files still exist, in order."""
    return sorted(version for version, is_commit in _files(root) if is_commit)


def commits(root: Path, versions: Iterable[int]) -> list[Commit]:
    """Some versions' commits, in the order asked for; FileNotFoundError if one is gone."""
    return [commit(root, version) for version in versions]


def commit(root: Path, version: int) -> Commit:
    """One version's commit."""
    return _parse(str(_commit_file(root, version)), version, *fingerprint(root, version))


def fingerprint(root: Path, version: int) -> tuple[int, int]:
    """What tells a commit file from one of the same name that took its place."""
    stat = _commit_file(root, version).stat()
    return stat.st_mtime_ns, stat.st_ino


def mark(root: Path, version: int) -> str:
    """What tells a commit from another of the same number; nothing if it is gone."""
    try:
        return hashlib.sha256(_commit_file(root, version).read_bytes()).hexdigest()[:16]
    except FileNotFoundError:
        return ""


def reproducible(root: Path, version: int) -> bool:
    """Whether the log still has all that a version is made of."""
    found = list(_files(root))
    commits = {v for v, is_commit in found if is_commit}
    start = max((v for v, is_commit in found if not is_commit and v <= version), default=-1)
    return commits.issuperset({version, *range(start + 1, version + 1)})


def _commit_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020}.json"


def checkpoint_file(root: Path, version: int) -> Path:
    """Where the checkpoint of a version is, if it is one file."""
    return root / "_delta_log" / f"{version:020}.checkpoint.parquet"


@lru_cache(maxsize=128)
def _parse(path: str, version: int, _modified: int, _inode: int) -> Commit:
    found: dict[str, list[Action]] = {}
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    for kind, action in json.loads(line).items():
                        found.setdefault(kind, []).append(action)
    except (ValueError, AttributeError, IsADirectoryError) as error:
        raise damaged_log(Path(path).parents[1].name, f"{path}: {error}") from error
    return Commit(
        version,
        info=next(iter(found.get("commitInfo", [])), {}),
        adds=tuple(found.get("add", ())),
        removes=tuple(found.get("remove", ())),
        cdcs=tuple(found.get("cdc", ())),
        metadata=next(iter(found.get("metaData", [])), None),
        transactions=tuple(found.get("txn", ())),
        protocol=next(iter(found.get("protocol", [])), None),
    )


def _files(root: Path) -> Iterator[tuple[int, bool]]:
    try:
        entries = os.scandir(root / "_delta_log")
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if match := _COMMIT.fullmatch(entry.name):
                yield int(match[1]), True
            elif match := _CHECKPOINT.fullmatch(entry.name):
                yield int(match[1]), False


def data_file(root: Path, path: str) -> Path:
    """The file that an action's path names."""
    return (
        local_root(path) or root
        if "://" in path or path.startswith("file:")
        else root / unquote(path)
    )


def vector_file(root: Path, vector: Action) -> Path | None:
    """The file of a deletion vector; None if it stands in the log itself."""
    text = str(vector["pathOrInlineDv"])
    match vector["storageType"]:
        case "u":
            # A random directory prefix, then 20 characters: a UUID in Z85.
            raw = base64.b85decode(from_z85(text[-20:]))
            return root / text[:-20] / f"deletion_vector_{uuid.UUID(bytes=raw)}.bin"
        case "p":
            return data_file(root, text)
        case _:
            return None


def from_z85(text: str) -> bytes:
    """Text in the alphabet of the Delta log, in that of Python's `base64`."""
    return text.encode().translate(_FROM_Z85)


def identity(action: Action) -> tuple[str, str]:
    """A file and its deletion vector: a commit that deletes rows removes the one and adds the other."""
    vector = vector_of(action)
    unique = "" if vector is None else f"{vector['pathOrInlineDv']}@{vector.get('offset')}"
    return str(action["path"]), unique


def vector_of(action: Action) -> Action | None:
    """The deletion vector of an add or remove action."""
    found = action.get("deletionVector")
    return found if isinstance(found, Mapping) else None
