"""What can go wrong, by whose move it is: yours (Invalid), ours to build (Unsupported),
whoever keeps the machine (Unable), our bug (Internal).
"""

from __future__ import annotations


class BelvedereError(Exception):
    """A message (what is wrong), a detail (where and why), a hint (what to do) and a reason code."""

    def __init__(self, message: str, *, detail: str = "", hint: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.reason = reason

    def __str__(self) -> str:
        """
        >>> print(Invalid("no table 'lgo'", hint="did you mean 'log'?"))
        no table 'lgo'
          hint: did you mean 'log'?
        """
        lines = [self.message]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class Invalid(BelvedereError):
    """The input cannot mean anything: the user's to fix."""


class Unsupported(BelvedereError):
    """The input is meaningful, but not handled: ours to build. Its reason code is in `reasons`."""

    def __init__(self, message: str, *, reason: str, detail: str = "", hint: str = "") -> None:
        super().__init__(message, detail=detail, hint=hint, reason=reason)


class Unable(BelvedereError):
    """The machine could not: no space, no memory, no right to write."""


class Internal(BelvedereError):
    """A promise of our own was broken: a bug to report."""
