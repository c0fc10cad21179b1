"""The progress line: shown on a terminal only, and cleared at the end."""

from __future__ import annotations

import io

from belvedere.cli.progress import working


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_and_leaves_nothing() -> None:
    plain, terminal = io.StringIO(), _Terminal()
    with working("counting", plain):
        pass
    with working("counting", terminal):
        while "counting" not in terminal.getvalue():
            pass
    assert plain.getvalue() == ""
    assert terminal.getvalue().endswith("\r\x1b[2K")
