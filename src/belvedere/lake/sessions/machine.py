"""What the machine could not do, told as that: no space, no right to write, no memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from belvedere.errors import BelvedereError, Unable
from belvedere.lake.sessions.jars import cache_directory

SPARK_LOG = "spark.log"

_LOG_TAIL = 1_000_000


@dataclass(frozen=True)
class _Trouble:
    words: re.Pattern[str]
    message: str
    hint: str


_TROUBLES = {
    "DISK_FULL": _Trouble(
        re.compile("No space left on device|Disk quota exceeded|File too large"),
        "the disk is full",
        "make room and try again",
    ),
    "READ_ONLY": _Trouble(
        re.compile("Read-only file system|Permission denied|Operation not permitted"),
        "the storage cannot be written",
        "let this user write there and try again",
    ),
    "OUT_OF_MEMORY": _Trouble(
        re.compile("OutOfMemoryError|MemoryError|Java heap space|GC overhead limit"),
        "there was not enough memory",
        "give Spark more (BELVEDERE_SPARK='spark.driver.memory=8g') in a new process",
    ),
    "SPARK_ENDED": _Trouble(
        # By the error's own type: a Spark that runs may tell of others that refuse it.
        re.compile("^(ConnectionRefused|ConnectionReset|Py4JNetwork)Error|StatusCode.UNAVAILABLE"),
        "Spark ended while it was in use",
        "start a new process",
    ),
}


@contextmanager
def blaming_the_machine() -> Iterator[None]:
    """What the machine could not do leaves this block as Unable."""
    try:
        yield
    except BelvedereError:
        raise
    except Exception as error:
        unable = as_unable(error)
        if unable is None:
            raise
        raise unable from error


def as_unable(error: BaseException) -> Unable | None:
    """What the machine could not do, if that is what an error is about; None otherwise.

    >>> print(as_unable(OSError(28, "No space left on device", "part-0.parquet")))
    the disk is full
      detail: OSError: [Errno 28] No space left on device: 'part-0.parquet'
      hint: make room and try again; views have the rows they had
    """
    text = f"{type(error).__name__}: {error}"
    for reason, trouble in _TROUBLES.items():
        line = next((line for line in text.splitlines() if trouble.words.search(line)), None)
        if line is not None:
            if reason == "SPARK_ENDED" and _spark_had_no_memory():
                return as_unable(MemoryError("Spark ended for that reason"))
            hint = f"{trouble.hint}; views have the rows they had"
            return Unable(trouble.message, detail=line.strip()[:500], hint=hint, reason=reason)
    return None


def begin_log(sink: IO[bytes]) -> None:
    """Mark in Spark's log where the lines about this process begin."""
    sink.write(_mark())
    sink.flush()


def _spark_had_no_memory() -> bool:
    """Whether Spark's log says so, after the beginning of this process."""
    try:
        with (cache_directory() / SPARK_LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL))
            return b"OutOfMemoryError" in log.read().rpartition(_mark())[2]
    except OSError:
        return False


def _mark() -> bytes:
    return f"-- process {os.getpid()} starts Spark\n".encode()
