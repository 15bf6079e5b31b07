"""Neighbors found range by range, as tasks do it, are those of the whole column; without Spark."""

from __future__ import annotations

import random
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sempre.analysis.model import Kind
from sempre.spark.cluster.column_types import ARROW
from sempre.spark.cluster.neighbors import Ranges, joined

CASES = 200


def expected(rows: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    ordered = sorted(set(rows), key=repr_key)
    return {(*a, b[-1]) for a, b in pairwise(ordered) if repr_key(a)[:-1] == repr_key(b)[:-1]}


def repr_key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sorts rows; NaN, which a group may be, equals itself."""
    return (*(repr(value) for value in row[:-1]), row[-1])


def test_random_ranges(tmp_path: Path) -> None:
    for seed in range(CASES):
        rng = random.Random(seed)
        kinds = (*rng.choices([Kind.SYMBOL, Kind.FLOAT, Kind.NUMBER], k=rng.randrange(3)), Kind.NUMBER)
        samples: dict[Kind, list[Any]] = {
            Kind.SYMBOL: ["a", "", "ü"],
            Kind.FLOAT: [0.5, nan],
            Kind.NUMBER: [-1, 0, 7, 2**62],
        }
        rows = [tuple(rng.choice(samples[kind]) for kind in kinds[:-1]) for _ in range(rng.randrange(30))]
        rows = sorted(((*row, rng.randrange(12)) for row in rows), key=repr_key)
        target = tmp_path / str(seed)
        target.mkdir()
        ranges = Ranges(kinds, str(target))
        reports: list[pa.RecordBatch] = []
        while_left, part = rows, 0
        while while_left or part < 2:
            size = rng.randrange(8)
            # Rows that are equal are in one range.
            while 0 < size < len(while_left) and repr_key(while_left[size - 1]) == repr_key(while_left[size]):
                size += 1
            mine, while_left = while_left[:size], while_left[size:]
            reports += ranges.written(part, batches_of(mine, kinds, rng))
            part += 1
        rng.shuffle(reports)
        if not reports:
            continue
        size = joined(pa.Table.from_batches(reports), ranges)
        found = [tuple(row.values()) for row in pq.read_table(target).to_pylist()] if any(target.iterdir()) else []
        assert len(found) == size
        assert set(map(repr, found)) == set(map(repr, expected(rows)))
        assert not list(target.glob("_*"))


def batches_of(rows: list[tuple[Any, ...]], kinds: tuple[Kind, ...], rng: random.Random) -> list[pa.RecordBatch]:
    found = []
    while rows:
        size = 1 + rng.randrange(4)
        columns = zip(*rows[:size], strict=True)
        arrays = [pa.array(column, ARROW[kind]) for column, kind in zip(columns, kinds, strict=True)]
        found.append(pa.RecordBatch.from_arrays(arrays, names=[f"k{at}" for at in range(len(kinds))]))
        rows = rows[size:]
    return found
