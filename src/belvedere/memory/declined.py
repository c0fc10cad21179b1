"""The exception for plans that memory leaves to Spark."""

from __future__ import annotations


class Declined(Exception):
    """A part of a plan is not computed in memory; why, for whoever looks into it."""
