"""What can happen to a file: cut off, changed, emptied, gone, something else in its place, not to be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cut_off(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def flipped(path: Path) -> None:
    """One bit of what a reader looks at first: padding may be anything."""
    whole = bytearray(path.read_bytes())
    if whole:
        whole[min(30, len(whole) - 1)] ^= 4
        path.write_bytes(whole)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def eight_bytes(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8])


def gone(path: Path) -> None:
    path.unlink()


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def a_link(path: Path) -> None:
    """A symbolic link to what the file was."""
    beside = path.with_name(f"{path.name}.elsewhere")
    path.rename(beside)
    path.symlink_to(beside)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: tuple[Callable[[Path], None], ...] = (
    cut_off,
    flipped,
    emptied,
    eight_bytes,
    gone,
    a_directory,
    a_link,
    a_pipe,
)


def copied(lake: Path, to: Path) -> Path:
    """A copy of a lake; what was damaged before in its place goes."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(lake, to, symlinks=True)
    return to


def auxiliary_files(lake: Path) -> list[str]:
    """The files of a lake that are beside its tables, by their paths in it."""
    home = lake / ".belvedere"
    return sorted(str(p.relative_to(lake)) for p in home.rglob("*") if p.is_file())
