"""Delta's jars: resolved once through Ivy, remembered, and checked together with Java."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from belvedere.errors import Invalid
from belvedere.storage.private_files import open_file, replacing

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
JAVA_AT_LEAST = 17

# The rest of what Ivy resolves (Hadoop, Parquet, Jackson, ...) ships with Spark.
_NOT_IN_SPARK = ("io.delta_", "io.unitycatalog_")

_RESOLVE = """
import sys
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", sys.argv[1])
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
print("JARS=" + spark.conf.get("spark.jars"))
"""


def cache_directory() -> Path:
    """Where jar paths and Spark's log are kept: BELVEDERE_CACHE, or the user's cache."""
    if override := os.environ.get("BELVEDERE_CACHE"):
        path = Path(override).expanduser()
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        path = Path(base).expanduser() / "belvedere"
    path.mkdir(parents=True, exist_ok=True)
    return path


def delta_jars() -> list[str]:
    """The paths of Delta's jars, from memory or, the first time, through Ivy."""
    memory = cache_directory() / f"jars-{PACKAGE.rsplit(':', 1)[-1]}.json"
    remembered = _recall(memory)
    if remembered:
        return remembered
    resolved = _resolve()
    # What cannot be remembered is resolved again.
    with (
        suppress(OSError),
        replacing(memory, memory.with_suffix(f".{os.getpid()}")) as file,
    ):
        file.write(json.dumps(resolved, indent=1).encode())
    return resolved


def _recall(memory: Path) -> list[str]:
    try:
        with open_file(memory) as file:
            paths = json.loads(file.read())
        return paths if isinstance(paths, list) and all(Path(p).is_file() for p in paths) else []
    except (OSError, ValueError, TypeError):
        return []


def _resolve() -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", _RESOLVE, PACKAGE], capture_output=True, text=True, check=False
    )
    found = re.search(r"^JARS=(.+)$", run.stdout, re.MULTILINE)
    if run.returncode != 0 or not found:
        raise Invalid(
            f"cannot fetch {PACKAGE}",
            detail=run.stderr.strip()[-2000:],
            hint="the first start needs a Maven repository; later ones use what it fetched",
            reason="NO_SPARK",
        )
    paths = [p.removeprefix("file://") for p in found[1].split(",")]
    return [p for p in paths if Path(p).name.startswith(_NOT_IN_SPARK)]


def check_java() -> None:
    """Refuse to start Spark without a Java that it runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {JAVA_AT_LEAST} or newer and put it on PATH, or set JAVA_HOME"
    if java is None or not Path(java).exists():
        raise Invalid(
            "Java was not found",
            detail=f"JAVA_HOME is {home or 'not set'}",
            hint=hint,
            reason="NO_SPARK",
        )
    run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = java_version(run.stderr + run.stdout)
    if found is None or found < JAVA_AT_LEAST:
        raise Invalid(
            f"Java {JAVA_AT_LEAST} or newer is needed, {java} is {found or 'not a Java'}",
            hint=hint,
            reason="NO_SPARK",
        )


def java_version(text: str) -> int | None:
    """The major version in what `java -version` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None
