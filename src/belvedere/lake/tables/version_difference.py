"""What changed between two versions, from their rows alone: where Delta's feed cannot tell it.

    change = rows of NEW in the files that OLD does not have as they are, minus those of OLD
             in the files that NEW does not

Delta hands the rows that a deletion vector newly deletes to its readers as a vector written out
in text, and cannot where that text is longer than 65 535 bytes: a twentieth of a file of half a
million rows, deleted here and there, is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from belvedere.delta import log
from belvedere.delta.change_files import kept_files
from belvedere.delta.log import Action, Commit
from belvedere.lake.tables.table import Table
from belvedere.sql.names import literal, quote

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace

VECTOR_BYTES = 45_000
"""Four bytes are five letters of text; what one vector has and another has not can need both."""
_NAMES_AT_MOST = 10_000
_PLAIN = re.compile(r"[\w.=-]+")


def too_long_to_tell(commits: Iterable[Commit]) -> bool:
    """Whether a file got a vector that Delta's feed cannot hand on."""
    return any(_longest(commit) > VECTOR_BYTES for commit in commits if not commit.cdcs)


def was_too_long(error: BaseException) -> bool:
    """Whether that is why Delta could not read its feed."""
    return "UTFDataFormatException" in str(error)


def difference(
    work: Workspace,
    table: Table,
    old: int,
    new: int,
    commits: Sequence[Commit],
    columns: Sequence[str],
) -> DataFrame:
    """The rows that came and went, and more of those that stayed, as the change feed lists them."""
    listed = ", ".join(map(quote, columns))
    among = _among(table, commits)
    came, went = (
        work.query(
            f"SELECT {', '.join(filter(None, (listed, f'{literal(how)} AS _change_type')))}"
            f" FROM {table.at(version)}{among}"
        )
        for version, how in ((new, "insert"), (old, "delete"))
    )
    return came.unionAll(went)


def _longest(commit: Commit) -> int:
    sizes: dict[str, int] = {}
    for action in (*commit.adds, *commit.removes):
        if action["path"] in kept_files(commit):
            sizes[action["path"]] = sizes.get(action["path"], 0) + _bytes(action)
    return max(sizes.values(), default=0)


def _bytes(action: Action) -> int:
    vector = log.vector_of(action)
    return 0 if vector is None else int(vector["sizeInBytes"])


def _among(table: Table, commits: Sequence[Commit]) -> str:
    """The condition that leaves out files which both versions have; it may leave in any."""
    names = {
        action["path"].rpartition("/")[2]
        for commit in commits
        for action in (*commit.adds, *commit.removes)
    }
    taken = "_metadata" in {name.lower() for name, _ in table.columns}
    if taken or not 0 < len(names) <= _NAMES_AT_MOST or not all(map(_PLAIN.fullmatch, names)):
        return ""
    return f" WHERE _metadata.file_name IN ({', '.join(map(literal, sorted(names)))})"
