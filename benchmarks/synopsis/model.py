"""A model trained on a join of billions of rows that nobody computes: the sample is the training set.

    python -m benchmarks.synopsis.model

QY pairs every sale with every customer whose household is in the same income band. The model predicts a sale's
profit from what was sold and from both households; its error on held-out rows is that on the join.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.synopsis.throughput import synopsis
from benchmarks.synopsis.workloads import QY, interleaved

FEATURES = ("ss_quantity", "ss_item_sk", "d1.hd_dep_count", "d2.hd_dep_count", "c1.c_birth_year")


def numbers(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Features, with a constant, and the profit."""
    columns = [pc.fill_null(rows[c].cast(pa.float64()), 0).to_numpy() for c in FEATURES]
    profit = pc.fill_null(rows["ss_net_profit"].cast(pa.float64()), 0).to_numpy()
    x = np.column_stack([np.ones(len(profit)), *columns, columns[0] ** 2])
    return x, profit


def main() -> None:
    """Stream, train, test, and again after the tables went on."""
    made = synopsis(QY, 1)
    started = time.perf_counter()
    for done, (table, rows, _) in enumerate(interleaved(QY, 1)):
        made.insert(table, rows)
        if done in (300, 900):
            train, test = made.results.train_test(0.2)
            x, y = numbers(train)
            weights, *_ = np.linalg.lstsq(x, y, rcond=None)
            x, y = numbers(test)
            error = np.sqrt(np.mean((x @ weights - y) ** 2))
            print(
                f"{made.join_size:,} join rows after {time.perf_counter() - started:.1f} s:"
                f" trained on {train.num_rows}, error {error:.1f} on {test.num_rows}"
                f" (standard deviation {y.std():.1f})"
            )


if __name__ == "__main__":
    main()
