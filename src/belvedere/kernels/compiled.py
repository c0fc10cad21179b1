"""How loops are compiled: to machine code, kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function as machine code; what it means is its plain twin's to say."""
    return cast(F, njit(cache=True)(function))
