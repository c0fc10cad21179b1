"""What the rows of a position show, as one number: classes distinguish it if a view projects (Sec. 8.2)."""

from __future__ import annotations

import numpy as np

from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.domains import Codes, Domain

_SHIFT = 32


class ShownContents:
    """Numbers for the values that rows show; equal for rows that show the same, also for later rows."""

    def __init__(self, base: BaseTables, position: int) -> None:
        self.rows = base.rows_at(position)
        shown = [c for _, (p, c) in base.shape.column_outputs if p == position]
        self.columns = [c for c in dict.fromkeys(shown) if c in self.rows.columns]
        self.domains: list[Domain] = []
        all_rows = np.arange(self.rows.size)
        codes = np.zeros(len(all_rows), dtype=np.int64)
        for column in self.columns:
            combined = self._both(codes, column, all_rows)
            self.domains.append(Domain.of_integers(combined))
            codes = self.domains[-1].codes_of(combined)

    def _both(self, before: Codes, column: str, rows: Codes) -> Codes:
        return before << _SHIFT | self.rows.column(column)[rows] + 1

    def of(self, rows: Codes) -> Codes:
        """The numbers of some rows."""
        codes = np.zeros(len(rows), dtype=np.int64)
        for column, domain in zip(self.columns, self.domains, strict=True):
            codes = domain.codes_of(self._both(codes, column, rows))
        return codes
