"""What ran for a change, as records in the order in which it ran."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RanStep:
    """Something that ran: a look-up, a query of Spark, or a computation in memory.

    >>> print(RanStep("look-up", "3 rows of t at version 1, looked up by 2 values of k", 3))
    -- 3 rows of t at version 1, looked up by 2 values of k
    >>> print(RanStep("query", sql="SELECT 1"))
    SELECT 1
    """

    step: str
    """`look-up`, `step` (a part that Spark computed beforehand), `query` or `result`."""
    description: str = ""
    """What was done, where no SQL ran."""
    rows: int | None = None
    seconds: float | None = None
    sql: str | None = None

    def __str__(self) -> str:
        """The SQL that ran, or an SQL comment that says what was done instead."""
        return f"-- {self.description}" if self.sql is None else self.sql
