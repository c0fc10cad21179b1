"""The request for a translation: view rows to delete and to insert, and access to the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.on_spark import JoinEngine
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.translate.constraints import RowSource, TableRules


@dataclass
class TranslationRequest:
    """View rows to delete and to insert, with the tables and their rules."""

    base: BaseTables
    rules: Mapping[str, TableRules]
    source: RowSource
    delete: Sequence[ViewRow] = ()
    insert: Sequence[ViewRow] = ()
    replaces: Mapping[int, int] = field(default_factory=dict)
    """For inserted rows that replace one: the index of the deleted row."""
    steps: int = 2_000_000
    engine: JoinEngine | None = None
    """Joins what is too large for memory."""
    coder: Coder = field(init=False)

    def __post_init__(self) -> None:
        self.coder = Coder(self.base, self.source)
