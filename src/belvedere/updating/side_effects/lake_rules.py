"""The rules of a lake's tables: those of a view, and those that refer to them."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from belvedere.delta.delta_rs import open_table
from belvedere.errors import BelvedereError
from belvedere.lake.capabilities import reads_files
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.declared_keys import foreign_keys
from belvedere.sql.names import quote
from belvedere.updating.side_effects.spark_engine import check_evaluator
from belvedere.updating.translate.constraints import TableRules, declared_rules
from belvedere.views.catalog import canonical_name, is_view


def table_rules(lake: ReadableLake, name: str) -> TableRules:
    """The rules that a table declares: NOT NULL from its schema, CHECKs that memory cannot compute by Spark."""
    table = lake.table(name)
    required: frozenset[str] = frozenset()
    if reads_files(table):
        fields = open_table(table.store).schema().fields
        required = frozenset(f.name for f in fields if not f.nullable)
    return declared_rules(table, required, check_evaluator(lake, table))


def referring_rules(lake: ReadableLake, tables: Collection[str]) -> dict[str, TableRules]:
    """The rules of tables outside a view that refer to one of its tables by a foreign key."""
    rules = {}
    for shown in lake.names():
        # A name that is no table of the lake has no foreign keys.
        with suppress(BelvedereError):
            name = canonical_name(lake, quote(shown))
            if name in tables or is_view(lake, name):
                continue
            table = lake.table(name)
            if any(key.parent in tables for key in foreign_keys(table)):
                rules[name] = declared_rules(table)
    return rules
