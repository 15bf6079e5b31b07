"""Heads that travel: how they are written, and which stay where they were found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sempre
from sempre.kernel.gather import NO_WEIGHTS
from sempre.kernel.layout import EMPTY, fields_covering, packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet, Trace
from sempre.workers import findings
from sempre.workers.placing import frequent_values, split
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
    part = Counted(layout, keys, weights)
    came_layout, came, came_weights = findings._received(findings._sent(part, counts), counts)
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


@pytest.mark.parametrize("order", [None, (1, 0)])
def test_frequent_values_are_found_in_runs_and_without(order: tuple[int, ...] | None) -> None:
    """Of several runs, none of which has enough rows of a value by itself."""
    rng = np.random.default_rng(3)
    values = rng.choice(np.array([-5, 0, 2, 9, 11]), 600, p=[0.5, 0.3, 0.1, 0.06, 0.04])
    columns = [np.arange(600), values]
    layout = packing(fields_covering(columns, [EMPTY] * 2), (0, 1))
    keys = layout.pack(columns, 600)
    trace = Trace.of(RowSet(layout, keys[:400]), [] if order is None else [order])
    trace = trace.adding(RowSet(layout, keys[400:550])).adding(RowSet(layout, keys[550:]))
    for least in (1, 30, 100, 250, 601):
        found, counts = frequent_values(trace, 1, least)
        wanted = {value: int((values == value).sum()) for value in (-5, 0, 2, 9, 11)}
        assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == {
            value: count for value, count in wanted.items() if count >= least
        }
