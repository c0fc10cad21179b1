"""The victim of the kill tests: changes tables and refreshes views until it is killed."""

from __future__ import annotations

import itertools
import sys

import belvedere as bv


def main(directory: str) -> None:
    lake = bv.connect(directory)
    for number in itertools.count():
        lake.sql(f"INSERT INTO r SELECT id % 7, id * {number}, 'n{number}' FROM range(20)")
        lake.sql(f"DELETE FROM r WHERE a % 5 = {number % 5}")
        lake.sql(f"UPDATE s SET c = c + 1 WHERE k = {number % 7}")
        sys.stdout.write("changed\n")
        sys.stdout.flush()
        lake.refresh()


if __name__ == "__main__":
    main(sys.argv[1])
