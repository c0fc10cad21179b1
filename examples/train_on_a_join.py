"""A model trained on a join of billions of rows that is never computed.

    python examples/train_on_a_join.py

Every pair of reviews of the same thing is a row of the join, with both people's ages. How much
more one of the two likes it is explained by how much older they are: one number, fitted by least
squares on a uniform sample of the pairs. Then tastes change: a third of the reviews goes, new ones
come, the sample follows, and so does the model.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from belvedere import Synopsis

PEOPLE, THINGS, REVIEWS, SAMPLE = 50_000, 50, 500_000, 20_000
QUERY = """
SELECT p1.age AS age_1, p2.age AS age_2, r1.stars AS stars_1, r2.stars AS stars_2
FROM review r1, review r2, person p1, person p2
WHERE r1.thing = r2.thing AND r1.person = p1.id AND r2.person = p2.id
"""
SCHEMAS = {
    "person": {"id": "int", "age": "int"},
    "review": {"id": "int", "person": "int", "thing": "int", "stars": "double"},
}


def people(draw: np.random.Generator) -> pa.Table:
    """Everybody, with an age."""
    ids, ages = np.arange(PEOPLE), draw.integers(18, 90, PEOPLE)
    return pa.table({"id": pa.array(ids, pa.int32()), "age": pa.array(ages, pa.int32())})


def reviews(
    draw: np.random.Generator, ages: np.ndarray, count: int, first: int, per_year: float
) -> pa.Table:
    """Reviews in which each year of age is worth so many stars."""
    person, thing = draw.integers(0, PEOPLE, count), draw.integers(0, THINGS, count)
    stars = 3 + 0.01 * (thing % 7) + per_year * (ages[person] - 50) + draw.normal(0, 0.5, count)
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + count), pa.int32()),
            "person": pa.array(person, pa.int32()),
            "thing": pa.array(thing, pa.int32()),
            "stars": pa.array(stars, pa.float64()),
        }
    )


def trained(pairs: Synopsis) -> tuple[float, float]:
    """Stars that a year is worth, and what that explains of pairs that it was not fitted on."""
    parts = []
    for rows in pairs.results.train_test(0.2):
        one = {c: rows[c].to_numpy().astype(float) for c in rows.column_names}
        parts.append((one["age_1"] - one["age_2"], one["stars_1"] - one["stars_2"]))
    (older, liked), (test_older, test_liked) = parts
    year = float(older @ liked / (older @ older))
    left = test_liked - year * test_older
    return year, float(1 - left @ left / (test_liked @ test_liked))


def main() -> None:
    draw = np.random.default_rng(7)
    everybody = people(draw)
    ages = everybody["age"].to_numpy()
    before = reviews(draw, ages, REVIEWS, 0, per_year=0.02)
    pairs = Synopsis(QUERY, SCHEMAS, rows=SAMPLE, keys={"person": ["id"]}, seed=7)
    pairs.insert("person", everybody)
    pairs.insert("review", before)
    year, explained = trained(pairs)
    print(f"{pairs.join_size:,} pairs, {SAMPLE:,} of them looked at")
    print(f"a year is worth {year:.4f} stars (0.02 was put in), R² {explained:.2f}")

    third = REVIEWS // 3
    pairs.delete("review", before.slice(0, third))
    pairs.insert("review", reviews(draw, ages, third, REVIEWS, per_year=0.05))
    year, explained = trained(pairs)
    print(f"{pairs.join_size:,} pairs after the changes")
    print(f"a year is worth {year:.4f} stars (0.02 of two thirds, 0.05 of one), R² {explained:.2f}")


if __name__ == "__main__":
    main()
