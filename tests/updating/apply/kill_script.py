"""The victim of the kill tests: inserts or replaces a row through the view and dies at a step.

kill_script.py DIRECTORY STEP before|after insert|update
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from belvedere.lake.writes import row_replacement
from belvedere.updating.apply import base_changes, updates
from tests.updating import offline_lake

STEPS: dict[str, tuple[Any, str]] = {
    "write the intent": (base_changes.UpdateApplier, "write_intent"),
    "first commit": (row_replacement, "by_delta_rs"),
    "second commit": (row_replacement, "by_delta_rs"),
    "third commit": (row_replacement, "by_delta_rs"),
    "forget": (base_changes.UpdateApplier, "forget"),
    "move the vector": (offline_lake, "fresh"),
    "check": (updates, "check_update"),
    "undo": (base_changes.UpdateApplier, "_undo"),
}
ROW = {"customer": 4, "name": "dan", "orders": 20, "day": 8, "line": 200, "item": "q"}
OLD = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
ASKED: dict[str, Any] = {"insert": ROW, "update": (OLD, ROW)}
COMMITS = {"second commit": 2, "third commit": 3, "move the vector": 2}


def main(directory: str, step: str, when: str, what: str) -> None:
    owner, name = STEPS[step]
    setattr(owner, name, _deadly(getattr(owner, name), step, when))
    if step == "undo":
        setattr(base_changes.UpdateApplier, "commit", lambda *_: False)  # noqa: B010
    offline_lake.update(Path(directory), **{what: ASKED[what]})


def _deadly(run: Callable[..., Any], step: str, when: str) -> Callable[..., Any]:
    calls = [0]

    def wrapped(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] < COMMITS.get(step, 1):
            return run(*args, **named)
        if when == "after":
            run(*args, **named)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    return wrapped


if __name__ == "__main__":
    main(*sys.argv[1:])
