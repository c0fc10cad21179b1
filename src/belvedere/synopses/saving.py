"""A synopsis as named arrays, and back: what is kept of each part, and nothing else.

A keeper is made anew from its plan and given the arrays; it goes on exactly where it was, the state of its
randomness included. The index of rows by value is made again when a row is first deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from belvedere.kernels.hashes.interning import Interner
from belvedere.kernels.join_graph.chains import Chains
from belvedere.kernels.join_graph.groups import Groups
from belvedere.kernels.join_graph.orders import Orders
from belvedere.kernels.join_graph.segments import Segments
from belvedere.synopses.graph.encoded_position import EdgeKeys, EncodedPosition
from belvedere.synopses.graph.references import ReferenceIndex
from belvedere.synopses.graph.weighted_graph import EdgeSide, GraphNode, WeightedGraph
from belvedere.synopses.sample.reservoir import Bernoulli, WithoutReplacement, WithReplacement
from belvedere.synopses.state import SynopsisState

_KEPT: dict[type, tuple[str, ...]] = {
    Interner: ("size", "keys", "table", "places", "base", "by_place"),
    Segments: ("start", "level", "count", "arena", "free", "top", "vertex", "slot"),
    Groups: (
        "key_of", "place", "start", "level", "length", "total", "mark", "member", "weight",
        "one", "two", "three", "free", "top",
    ),
    Orders: ("key_of", "value_of", "weight", "order", "key", "value", "sums", "stale"),
    Chains: ("head", "after", "before"),
    ReferenceIndex: ("keys", "own", "key", "owner", "waiting", "dependents"),
    EncodedPosition: ("part", "kept"),
    EdgeKeys: ("names",),
    EdgeSide: ("held", "cached"),
    GraphNode: ("names", "rows", "mark", "sides"),
    WeightedGraph: ("size", "nodes", "everything"),
    WithoutReplacement: ("state", "slots", "filled", "size"),
    WithReplacement: ("state", "slots", "filled", "size"),
    Bernoulli: ("state", "slots", "filled", "rate"),
    SynopsisState: ("places", "references", "edges", "sample", "waits", "changes"),
}  # fmt: skip
_MADE: dict[str, Any] = {"dependents": Chains, "everything": Groups}
"""Parts that are there only once they were needed."""

ARRAYS = 2
"""What the arrays mean: a state with another number is not read."""
_ROOM = " room"
_BLOCK = 1 << 16

Arrays = dict[str, Any]


def to_arrays(keeper: SynopsisState) -> Arrays:
    """All that a keeper holds."""
    found: Arrays = {}
    _flatten(keeper, "", found)
    # Weights beyond 64 bits are counted again from the rows.
    wide = not isinstance(keeper.graph, WeightedGraph)
    found["wide"] = np.array([wide])
    if not wide:
        _flatten(keeper.graph, "graph/", found)
    for table, store in keeper.stores.items():
        found |= {f"store/{table}/{name}": array for name, array in store.saved().items()}
    return found


def _flatten(part: Any, path: str, into: Arrays) -> None:
    for name in _KEPT[type(part)]:
        held = getattr(part, name)
        if held is not None:
            _put(held, f"{path}{name}", into)


def _put(held: Any, path: str, into: Arrays) -> None:
    if isinstance(held, np.ndarray):
        into[path] = held[: _written(held)]
        if len(into[path]) < len(held):
            into[path + _ROOM] = np.array([len(held)])
    elif isinstance(held, bool | int | float):
        into[path] = np.array([held])
    elif isinstance(held, list):
        for n, each in enumerate(held):
            _put(each, f"{path}/{n}", into)
    elif isinstance(held, dict):
        for key, each in held.items():
            _put(each, f"{path}/{key}", into)
    else:
        _flatten(held, f"{path}/", into)


def _written(array: Any) -> int:
    """Up to where an array is not all zeros: what lies behind is room to grow, and no memory yet."""
    end = len(array)
    while end and not array[max(0, end - _BLOCK) : end].any():
        end = max(0, end - _BLOCK)
    return end


def _roomy(array: Any, room: int) -> Any:
    """An array with room behind it again."""
    found = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    found[: len(array)] = array
    return found


def from_arrays(keeper: SynopsisState, found: Mapping[str, Any]) -> SynopsisState:
    """A new keeper of the same plan as it was when it was saved."""
    tree: dict[str, Any] = {}
    for path, array in found.items():
        if path.endswith(_ROOM):
            continue
        *above, last = path.split("/")
        at = tree
        for name in above:
            at = at.setdefault(name, {})
        room = found.get(path + _ROOM)
        at[last] = array if room is None else _roomy(array, int(room[0]))
    for table, store in keeper.stores.items():
        store.restore(tree["store"][table])
    _restore(keeper, tree)
    if tree["wide"][0]:
        keeper.recount()
    else:
        _restore(keeper.graph, tree["graph"])
    return keeper


def _restore(part: Any, found: Mapping[str, Any]) -> None:
    for name in _KEPT[type(part)]:
        if name in found:
            if getattr(part, name) is None and name in _MADE:
                setattr(part, name, _MADE[name]())
            setattr(part, name, _taken(getattr(part, name), found[name]))


def _taken(held: Any, found: Any) -> Any:
    """What was found, as what stands there: arrays are copied if need be, for they will be written to."""
    if isinstance(held, bool | int | float) and isinstance(found, np.ndarray):
        return type(held)(found[0])
    if isinstance(found, np.ndarray):
        return found if found.flags.writeable and found.flags.owndata else found.copy()
    if isinstance(held, list):
        return [_taken(each, found[str(n)]) for n, each in enumerate(held)]
    if isinstance(held, dict):
        return {key: _taken(None, array) for key, array in found.items()}
    _restore(held, found)
    return held
