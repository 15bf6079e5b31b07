"""Heads that travel: how they are written, and which stay where they were found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sempre
from sempre.kernel.gather import NO_WEIGHTS
from sempre.kernel.layout import EMPTY, fields_covering, packing
from sempre.workers import findings
from sempre.workers.placing import split
from sempre.workers.shards import Shard
from tests.workers import on_workers

FAR = 1 << 61


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    "rows",
    [
        [(3, -7), (3, 9), (5, -7)],
        [(-FAR, FAR), (0, 0), (FAR, -FAR)],
        [(FAR, 1), (FAR, 2)],
        [(0,)],
        [()],
    ],
)
def test_heads_come_as_they_went(rows: list[tuple[int, ...]], counts: bool) -> None:
    """Narrow keys and wide ones, with a column or without."""
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    layout = packing(fields_covering(columns, [EMPTY] * len(columns)), tuple(range(len(columns))))
    keys, weights = layout.pack(columns, len(rows)), np.arange(1, len(rows) + 1)
    part: list[Any] = [keys, weights] if counts else [keys]
    came_layout, came, came_weights = findings._received(findings._sent(layout, part), counts)
    assert came.size == len(rows)
    assert [column.tolist() for column in came_layout.columns(came)] == [column.tolist() for column in columns]
    assert came_weights.tolist() == (weights.tolist() if counts else NO_WEIGHTS.tolist())


@pytest.mark.parametrize("workers", [1, 2, 4, 7])
def test_rows_keep_their_order(workers: int) -> None:
    """Also where they are looked through once for each worker."""
    values = np.arange(1000)
    at = np.random.default_rng(0).integers(0, workers, values.size)
    parts = split([values, values + 1], at, workers)
    assert [part[0].tolist() for part in parts] == [values[at == worker].tolist() for worker in range(workers)]
    assert all((part[1] == part[0] + 1).all() for part in parts)


def test_what_is_known_at_home_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a closure whose facts are found again in every round, each worker sends a fact once."""
    program = """
        .decl edge(x: number, y: number)
        .decl path(x: number, y: number)
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), path(y, z).
    """
    rng = np.random.default_rng(1)
    edges = [tuple(map(int, pair)) for pair in rng.integers(0, 60, (90, 2))]

    def run() -> int:
        with on_workers(2) as options, sempre.Database(program, modules="off", **options) as db:
            report = db.apply(insert={"edge": edges}).report
            found.append(set(db["path"]))
            return sum(worker["rows_sent"] for worker in report.workers)

    found: list[set[Any]] = []
    few = run()
    monkeypatch.setattr(Shard, "known", lambda self, others: self.home)
    many = run()
    assert found[0] == found[1]
    assert many > 1.5 * few
