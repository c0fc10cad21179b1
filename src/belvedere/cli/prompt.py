"""The interactive SQL prompt: statements end with `;`, errors do not end it, Ctrl-D does."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from belvedere.errors import BelvedereError
from belvedere.sql.statements.parser import split_statements

PROMPT, MORE = "belvedere> ", "       ... "
LEAVE = ("exit", "quit", "\\q")
_MAX_HISTORY = 2000


def prompt(
    run: Callable[[str], None],
    report: Callable[[BaseException], object],
    say: Callable[[str], None],
    read_line: Callable[[str], str] = input,
) -> None:
    """Read statements and run them until the user leaves."""
    pending = ""
    while True:
        try:
            line = read_line(MORE if pending else PROMPT)
        except EOFError:
            say("")
            return
        except KeyboardInterrupt:
            say("")
            pending = ""
            continue
        if not pending and line.strip().rstrip(";").lower() in LEAVE:
            return
        pending = f"{pending}\n{line}" if pending else line
        if complete(pending):
            _run_all(pending, run, report)
            pending = ""


def complete(text: str) -> bool:
    """Whether every statement of a text has its end.

    >>> complete("SELECT 1;"), complete("SELECT ';"), complete("SELECT 1; SELECT"), complete(" ")
    (True, False, False, True)
    """
    if not text.strip():
        return True
    try:
        # After a complete text, one more word begins another statement.
        return len(split_statements(f"{text}\nx")) > len(split_statements(text))
    except BelvedereError:
        return False


def _run_all(
    text: str, run: Callable[[str], None], report: Callable[[BaseException], object]
) -> None:
    try:
        for statement in split_statements(text):
            run(statement)
    except (Exception, KeyboardInterrupt) as error:
        report(error)


def use_history(file: Path) -> None:
    """Save typed lines in a file, so that the terminal can recall them."""
    try:
        import readline
    except ImportError:
        return
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_MAX_HISTORY)

    def save() -> None:
        with suppress(OSError):
            readline.write_history_file(file)

    atexit.register(save)
