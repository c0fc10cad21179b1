"""Each translation of SQL into the algebra, as plans a person can read (`plans.txt`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.algebra.printing import tree
from tests.sql.binder.plan_cases import CASES
from tests.sql.shop import bound

GOLDEN = Path(__file__).with_name("plans.txt")


def written() -> str:
    """What `plans.txt` should say; `python -m sql.test_plans` in `tests` writes it."""
    blocks = []
    for title, text in CASES.items():
        result = bound(text)
        shown = ", ".join(f"{a} = {b}" if a != b else a for a, b in result.columns)
        blocks.append(f"# {title}\n{text}\n-> {shown}\n{tree(result.plan)}\n")
    return "\n".join(blocks)


def blocks(text: str) -> dict[str, str]:
    parts = [p for p in text.split("\n# ") if p.strip()]
    return {p.removeprefix("# ").split("\n", 1)[0]: p.split("\n", 1)[1].strip() for p in parts}


@pytest.mark.parametrize("title", CASES)
def test_a_query_becomes_its_recorded_plan(title: str) -> None:
    assert blocks(written())[title] == blocks(GOLDEN.read_text())[title]


def test_no_recorded_plan_is_left_over() -> None:
    assert blocks(GOLDEN.read_text()).keys() == CASES.keys()


if __name__ == "__main__":
    GOLDEN.write_text(written())
