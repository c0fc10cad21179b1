"""Streams of arrivals, generated with the right frequencies, and files of them with their errors."""

from __future__ import annotations

from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest

from belvedere.errors import Invalid
from belvedere.scheduling.model.arrivals import (
    STREAMS,
    Arrival,
    in_steps,
    random_arrivals,
    read_arrivals,
    write_arrivals,
)


def below(x: float, mean: float, deviation: float) -> float:
    return 0.5 * (1 + erf((x - mean) / deviation / sqrt(2)))


def distance(counts: np.ndarray, probability: float, deviation: float) -> float:
    """Chi-square per degree of freedom of counts against the distribution of §5."""
    positive = 1 - below(0, 1, deviation)
    top = 12
    expected = [1 - probability]
    for d in range(1, top):
        share = below(d, 1, deviation) - below(d - 1, 1, deviation)
        expected.append(probability * share / positive)
    expected.append(1 - sum(expected))
    seen = np.bincount(np.minimum(counts, top), minlength=top + 1)
    due = np.array(expected) * len(counts)
    enough = due > 5
    return float(((seen - due)[enough] ** 2 / due[enough]).sum() / (enough.sum() - 1))


@pytest.mark.parametrize("kind", STREAMS)
def test_streams_have_the_distribution_of_the_paper(kind: str) -> None:
    probability, deviation = STREAMS[kind]
    counts = np.array(random_arrivals(2, 20_000, probability, deviation, seed=5)).ravel()
    assert distance(counts, probability, deviation) < 3
    # Rounding instead of rounding up would pass for neither.
    wrong = np.where(counts > 0, np.maximum(counts - 1, 0), 0)
    assert distance(wrong, probability, deviation) > 30


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    arrivals = [Arrival(0.0, "a", 3), Arrival(1.5, "b", 1), Arrival(1.5, "a", 2)]
    write_arrivals(tmp_path / "a.csv", arrivals)
    assert read_arrivals(tmp_path / "a.csv", ["a", "b"]) == arrivals
    assert in_steps(arrivals, ["a", "b"], 1.0) == ((3, 0), (2, 1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the header is ''"),
        ("time,table,n\n", "line 1: the header"),
        ("seconds,table,changes\n", "has no arrivals"),
        ("seconds,table,changes\n0,a,1\n1,a\n", "line 3: 2 values"),
        ("seconds,table,changes\nx,a,1\n", "line 2: 'x' is not a number of seconds"),
        ("seconds,table,changes\n-1,a,1\n", "line 2: -1 seconds"),
        ("seconds,table,changes\nnan,a,1\n", "line 2: nan seconds"),
        ("seconds,table,changes\n2,a,1\n\n1,a,1\n", "line 4: 1 seconds, after 2"),
        ("seconds,table,changes\n0,c,1\n", "line 2: 'c' is not a table"),
        ("seconds,table,changes\n0,a,-1\n", "line 2: '-1' is not a number of changes"),
        ("seconds,table,changes\n0,a,1.5\n", "line 2: '1.5' is not a number of changes"),
    ],
)
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(Invalid, match=message.replace("(", "\\(")):
        read_arrivals(path, ["a", "b"])


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot read"):
        read_arrivals(tmp_path / "none.csv")
