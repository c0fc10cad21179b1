"""Which of Belvedere's files and functions a piece of work enters, in order."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import belvedere

ROOT = Path(belvedere.__file__).parent
PURE = ("algebra", "analyses", "rules", "memory", "delta")
"""Packages that are read on their own: they know nothing of who calls them."""


@dataclass
class Trace:
    """The functions that were entered, each where it was entered first."""

    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    """File within `belvedere` and qualified name, in order."""

    @property
    def files(self) -> list[str]:
        """The files, in the order in which they were entered."""
        return list(dict.fromkeys(file for file, _ in self.functions))

    @property
    def files_outside_pure(self) -> list[str]:
        """Those that are in none of the pure packages."""
        return [file for file in self.files if file.split("/")[0] not in PURE]

    def __str__(self) -> str:
        lines = []
        for file in self.files:
            names = (name for at, name in self.functions if at == file)
            lines.append(f"{file}: {', '.join(names)}")
        return "\n".join(lines)


@contextmanager
def traced() -> Iterator[Trace]:
    """Record what this thread, and those that it starts, enter in the block."""
    trace, prefix = Trace(), f"{ROOT}/"
    lock = threading.Lock()

    def enter(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename.startswith(prefix) and not _is_inner(code.co_name):
            key = code.co_filename.removeprefix(prefix), code.co_qualname
            if key not in trace.functions:
                with lock:
                    trace.functions[key] = None

    before = sys.getprofile()
    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]


def _is_inner(name: str) -> bool:
    """Whether a code object is a module, a lambda or a comprehension, not a function of a name."""
    return name.startswith("<")
