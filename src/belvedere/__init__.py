"""Belvedere keeps derived data fresh on a Spark lakehouse."""

from belvedere.connection import Lake, ViewHandle, connect
from belvedere.errors import BelvedereError, Internal, Invalid, Unsupported
from belvedere.views.refresh import Refreshed

__version__ = "0.1.0"

__all__ = [
    "BelvedereError",
    "Internal",
    "Invalid",
    "Lake",
    "Refreshed",
    "Unsupported",
    "ViewHandle",
    "connect",
]
