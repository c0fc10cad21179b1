"""Print rows: aligned columns on a terminal, an HTML table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

T = TypeVar("T")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], null: str = "") -> str:
    """Aligned columns under their headers; numbers are right-aligned.

    >>> print(table(["name", "n"], [("log", 12), ("video", None)]))
    name    n
    -----  --
    log    12
    video
    """
    values = [list(row) for row in rows]
    texts = [[_text(value, null) for value in row] for row in values]
    widths = [max([len(h), *(len(t[i]) for t in texts)]) for i, h in enumerate(headers)]
    right = [_are_numbers([row[i] for row in values]) for i in range(len(widths))]
    lines = [list(headers), ["-" * width for width in widths], *texts]
    return "\n".join(_line(line, widths, right) for line in lines)


class Listing(list[T], Generic[T]):
    """A list that prints as a table."""

    headers: ClassVar[tuple[str, ...]]

    def rows(self) -> list[tuple[object, ...]]:
        """The cells of each line."""
        raise NotImplementedError

    def __str__(self) -> str:
        return table(self.headers, self.rows()) if self else "none"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(h)}</th>" for h in self.headers)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_text(c))}</td>" for c in row) + "</tr>"
            for row in self.rows()
        )
        return f"<table><tr>{head}</tr>{body}</table>"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _text(value: object, null: str = "") -> str:
    if value is None:
        return null
    return " ".join(value.split()) if isinstance(value, str) else str(value)


def _are_numbers(values: Sequence[object]) -> bool:
    present = [v for v in values if v is not None]
    return bool(present) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in present
    )
