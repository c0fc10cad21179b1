"""Belvedere keeps derived data fresh on a Spark lakehouse."""

from importlib import import_module
from typing import TYPE_CHECKING

from belvedere.errors import BelvedereError, Internal, Invalid, Unable, Unsupported

if TYPE_CHECKING:
    from belvedere.api import Lake, ViewHandle, connect
    from belvedere.derivations.outcome import Outcome
    from belvedere.synopses.stream import Synopsis

__version__ = "0.1.0"

__all__ = [
    "BelvedereError",
    "Internal",
    "Invalid",
    "Lake",
    "Outcome",
    "Synopsis",
    "Unable",
    "Unsupported",
    "ViewHandle",
    "connect",
]

# Imported at first use: to look at a lake from the command line, Spark need not be loaded.
_LATER = {
    "Lake": "belvedere.api",
    "Outcome": "belvedere.derivations.outcome",
    "Synopsis": "belvedere.synopses.stream",
    "ViewHandle": "belvedere.api",
    "connect": "belvedere.api",
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
