"""What workers say of their rows together tells what there is."""

from __future__ import annotations

import numpy as np
import pytest

from sempre.workers.statistics import combined, spread


def test_values_that_place_rows_are_added_up() -> None:
    values, matching = combined([(600, 30.0, 20.0), (200, 10.0, 20.0)], placed=True)
    assert (values, matching.mean, matching.crowd) == (40, 20.0, 20.0)


def test_a_value_that_all_workers_have_counts_once() -> None:
    values, matching = combined([(500, 10.0, 50.0), (500, 10.0, 50.0)], placed=False)
    assert (values, round(matching.mean), matching.crowd) == (10, 99, 99.0)


def test_no_rows() -> None:
    values, matching = combined([(0, 1.0, 1.0), (0, 1.0, 1.0)], placed=False)
    assert (values, matching.mean, matching.crowd) == (1, 1.0, 1.0)


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("values", [10, 2_000, 500_000])
def test_values_are_estimated_from_a_share_of_the_rows(values: int, workers: int) -> None:
    """Where values repeat a lot, a worker sees all of them; where none does, a share."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, values, 10_000)
    seen = np.mean([np.unique(rows[n::workers]).size for n in range(workers)])
    there = np.unique(rows).size
    assert abs(min(spread(float(seen), 10_000 / workers, workers), 10_000) - there) < 0.15 * there
