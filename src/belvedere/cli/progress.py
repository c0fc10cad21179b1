"""A progress line on a terminal: the step that runs, and its seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_CLEAR = "\r\x1b[2K"


@contextmanager
def working(step: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show the step and its seconds until the block ends, then clear the line."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        yield
        return
    done = threading.Event()
    spinner = threading.Thread(target=_spin, args=(step, out, done), daemon=True)
    spinner.start()
    try:
        yield
    finally:
        done.set()
        spinner.join()
        out.write(_CLEAR)
        out.flush()


def _spin(step: str, out: TextIO, done: threading.Event) -> None:
    started = time.monotonic()
    frame = 0
    while not done.wait(0.1):
        seconds = time.monotonic() - started
        out.write(f"{_CLEAR}{_FRAMES[frame % len(_FRAMES)]} {step} {seconds:.0f} s")
        out.flush()
        frame += 1
