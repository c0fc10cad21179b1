"""The strategies of a refresh.

nothing        no table has other rows: at most the vector moves
merge          the change is added to what is stored
replace keys   the touched groups are computed again
rebuild        everything is computed again; always with a reason code
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Strategy(Enum):
    """How a refresh reaches new versions of the tables."""

    NOTHING = "nothing"
    MERGE = "merge"
    REPLACE = "replace keys"
    REBUILD = "rebuild"


@dataclass(frozen=True)
class StrategyChoice:
    """A strategy and its reason code, empty where it needs none."""

    strategy: Strategy
    reason: str = ""
