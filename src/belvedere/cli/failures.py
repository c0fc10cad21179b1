"""Report a failure of a command: the message on standard error, and the exit code."""

from __future__ import annotations

import os
import sys
import traceback

from belvedere.cli.command import INTERNAL, INTERRUPTED, MISTAKE, UNABLE
from belvedere.errors import BelvedereError, Internal, Unable
from belvedere.lake.sessions.machine import as_unable

_REPORT = """\
This is a bug of Belvedere's. Please report it with the command you ran and the output of the
same command with BELVEDERE_DEBUG=1; Spark's own log is spark.log in Belvedere's cache directory."""


def report(error: BaseException) -> int:
    """Print what went wrong and what to do; returns the exit code."""
    if os.environ.get("BELVEDERE_DEBUG", "") not in ("", "0"):
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    expected = _expected_error(error)
    if expected is not None:
        code = f" [{expected.reason}]" if expected.reason else ""
        message, *rest = str(expected).split("\n")
        print("\n".join([f"error: {message}{code}", *rest]), file=sys.stderr)
        return UNABLE if isinstance(expected, Unable) else MISTAKE
    print(f"internal error: {type(error).__name__}: {error}", file=sys.stderr)
    print(_REPORT, file=sys.stderr)
    return INTERNAL


def _expected_error(error: BaseException) -> BelvedereError | None:
    """The error as one that the user can act on; None if it is a bug."""
    if isinstance(error, BelvedereError):
        return None if isinstance(error, Internal) else error
    unable = as_unable(error)
    if unable is not None:
        return unable
    if type(error).__module__.startswith(("pyspark.", "py4j.")) and "pyspark" in sys.modules:
        from belvedere.lake.sessions.errors import as_known

        return as_known(error)
    return None
