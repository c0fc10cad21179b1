"""Belvedere keeps derived data fresh on a Spark lakehouse."""

__version__ = "0.1.0"
