"""What a translation is asked for: view rows to delete and to insert, and where the tables are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.on_spark import JoinEngine
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.translate.constraints import RowSource, TableRules


@dataclass
class TranslationRequest:
    """View rows to delete and to insert, and who knows about the tables."""

    base: BaseTables
    rules: Mapping[str, TableRules]
    source: RowSource
    delete: Sequence[ViewRow] = ()
    insert: Sequence[ViewRow] = ()
    replaces: Mapping[int, int] = field(default_factory=dict)
    """For rows to insert that replace one: which of those to delete."""
    steps: int = 2_000_000
    engine: JoinEngine | None = None
    """Who joins what is too much for memory."""
    coder: Coder = field(init=False)

    def __post_init__(self) -> None:
        self.coder = Coder(self.base, self.source)
