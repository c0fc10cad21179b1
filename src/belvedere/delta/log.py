"""The Delta log of a table in a store, read as the JSON it is: no Spark, no delta-rs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from belvedere.errors import Invalid
from belvedere.storage.store import ObjectStore

Action: TypeAlias = Mapping[str, Any]

_LOG = "_delta_log/"
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


def is_table(store: ObjectStore) -> bool:
    """Whether a store holds a Delta table with at least one version."""
    return store.exists(commit_path(0)) or next(_versions(store), None) is not None


def newest_version(store: ObjectStore) -> int:
    """The newest version; FileNotFoundError if there is no table."""
    newest = next(_versions(store, newest_first=True), None)
    if newest is None:
        raise FileNotFoundError(store.uri)
    return newest[0]


def commit_versions(store: ObjectStore) -> list[int]:
    """The versions whose commit files still exist, in order."""
    return [version for version, is_commit in _versions(store) if is_commit]


def commits(store: ObjectStore, versions: Iterable[int]) -> list[Commit]:
    """Some versions' commits, in the order asked for; FileNotFoundError if one is gone."""
    return [commit(store, version) for version in versions]


def commit(store: ObjectStore, version: int) -> Commit:
    """One version's commit."""
    return _parse(store, version, etag(store, version))


def etag(store: ObjectStore, version: int) -> str:
    """The etag of a commit file, which one that takes its place does not share."""
    return store.head(commit_path(version)).etag


def mark(store: ObjectStore, version: int) -> str:
    """What tells a commit from another of the same number; nothing if it is gone."""
    try:
        return hashlib.sha256(store.read(commit_path(version))).hexdigest()[:16]
    except FileNotFoundError:
        return ""


def reproducible(store: ObjectStore, version: int) -> bool:
    """Whether the log still has all that a version is made of."""
    there = list(_versions(store))
    commits = {v for v, is_commit in there if is_commit}
    start = max((v for v, is_commit in there if not is_commit and v <= version), default=-1)
    return commits.issuperset({version, *range(start + 1, version + 1)})


def commit_path(version: int) -> str:
    """The path of a version's commit file."""
    return f"{_LOG}{version:020}.json"


def checkpoint_path(version: int) -> str:
    """The path of the checkpoint of a version, if it is one file."""
    return f"{_LOG}{version:020}.checkpoint.parquet"


@lru_cache(maxsize=128)
def _parse(store: ObjectStore, version: int, _etag: str) -> Commit:
    path = commit_path(version)
    actions: dict[str, list[Action]] = {}
    try:
        for line in store.read(path).decode().split("\n"):
            if line.strip():
                for kind, action in json.loads(line).items():
                    actions.setdefault(kind, []).append(action)
    except (ValueError, AttributeError, IsADirectoryError) as error:
        raise damaged_log(store.name, f"{store.url(path)}: {error}") from error
    return Commit(
        version,
        info=next(iter(actions.get("commitInfo", [])), {}),
        adds=tuple(actions.get("add", ())),
        removes=tuple(actions.get("remove", ())),
        cdcs=tuple(actions.get("cdc", ())),
        metadata=next(iter(actions.get("metaData", [])), None),
        transactions=tuple(actions.get("txn", ())),
        protocol=next(iter(actions.get("protocol", [])), None),
    )


def _versions(store: ObjectStore, *, newest_first: bool = False) -> Iterator[tuple[int, bool]]:
    """The versions with a file in the log, in order, and whether the file is a commit."""
    paths: Iterable[str] = store.list(_LOG)
    for path in reversed([*paths]) if newest_first else paths:
        name = path[len(_LOG) :]
        if match := _COMMIT.fullmatch(name):
            yield int(match[1]), True
        elif match := _CHECKPOINT.fullmatch(name):
            yield int(match[1]), False


def data_path(path: str) -> str:
    """The path in its table's store of the file that an action names."""
    return path if "://" in path or path.startswith("file:") else unquote(path)


def vector_path(vector: Action) -> str | None:
    """The path of a deletion vector; None if it stands in the log itself."""
    text = str(vector["pathOrInlineDv"])
    match vector["storageType"]:
        case "u":
            # A random directory prefix, then 20 characters: a UUID in Z85.
            raw = base64.b85decode(from_z85(text[-20:]))
            name = f"deletion_vector_{uuid.UUID(bytes=raw)}.bin"
            return f"{text[:-20]}/{name}" if text[:-20] else name
        case "p":
            return data_path(text)
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
    vector = action.get("deletionVector")
    return vector if isinstance(vector, Mapping) else None
