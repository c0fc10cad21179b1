"""The interactive prompt: statements end with a semicolon, errors do not end it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from belvedere.cli.prompt import complete, prompt
from belvedere.errors import Invalid


def test_the_prompt_goes_on_after_errors_and_waits_for_semicolons() -> None:
    lines: Iterator[str | type[BaseException]] = iter(
        ["SELECT 1;", "SELECT", "2; SELECT 3;", "bad;", "", "half", KeyboardInterrupt, "SELECT 4;"]
    )
    ran: list[str] = []
    complaints: list[BaseException] = []
    prompts: list[str] = []

    def ask(text: str) -> str:
        prompts.append(text)
        line = next(lines, EOFError)
        if isinstance(line, str):
            return line
        raise line

    def execute(text: str) -> None:
        if text == "bad":
            raise Invalid("bad")
        ran.append(text)

    prompt(execute, complaints.append, lambda _: None, ask)
    assert ran == ["SELECT 1", "SELECT\n2", "SELECT 3", "SELECT 4"]
    assert [str(c) for c in complaints] == ["bad"]
    assert prompts[2].strip() == "..."


@pytest.mark.parametrize("word", ["exit", "QUIT;", "\\q"])
def test_the_prompt_is_left_by_a_word(word: str) -> None:
    prompt(lambda _: pytest.fail("ran"), lambda _: None, lambda _: None, lambda _: word)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1", False),
        ("SELECT ';'", False),
        ("SELECT 'a;\nb';", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1 -- done;", False),
        ("BEGIN SELECT 1;", False),
        ("BEGIN SELECT 1; END;", True),
    ],
)
def test_a_statement_is_complete_at_its_semicolon(text: str, whole: bool) -> None:
    assert complete(text) is whole
