"""The best row, the first row and the total of each group, whatever column is aggregated, for all kinds of keys."""

from __future__ import annotations

import random
from itertools import groupby

import numpy as np
import pytest

import sempre
from sempre.backends import head_groups
from sempre.kernel import join, reduce
from sempre.kernel.layout import EVERYTHING, Field, packing
from sempre.kernel.trace import RowSet, Trace
from sempre.kernel.values import Values

NARROW = Field.covering(-9, 9)
LAYOUTS = {
    "narrow": (NARROW, NARROW, NARROW),
    "wide": (EVERYTHING, NARROW, EVERYTHING),
    "wider": (EVERYTHING, EVERYTHING, EVERYTHING),
}
Row = tuple[int, ...]


def some_rows(arity: int, size: int) -> list[Row]:
    rng = random.Random(size * 8 + arity)
    return sorted({tuple(rng.randint(-9, 9) for _ in range(arity)) for _ in range(size)})


def row_set(rows: list[Row], layout: str) -> RowSet:
    arity = len(rows[0])
    target = packing(LAYOUTS[layout][:arity], tuple(range(arity)))
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
    return RowSet(target, join.ordered(target.pack(columns, len(rows)).copy()))


def rows_of(found: RowSet) -> list[Row]:
    return list(zip(*(column.tolist() for column in found.columns()), strict=True))


def groups_of(rows: list[Row], column: int) -> list[list[Row]]:
    def group(row: Row) -> Row:
        return row[:column] + row[column + 1 :]

    return [list(found) for _, found in groupby(sorted(rows, key=group), key=group)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("operand", ["number", "unsigned", "float"])
@pytest.mark.parametrize(("arity", "column"), [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_the_best_and_the_first_row_of_each_group(layout: str, operand: str, arity: int, column: int) -> None:
    values = Values()
    for size in (1, 2, 40, 400):
        rows = some_rows(arity, size)
        given = row_set(rows, layout)
        before = given.keys.copy()

        def rank(row: Row) -> int:
            return int(reduce.ranked(values, np.array([row[column]]), operand)[0])

        for kind, choose in (("min", min), ("max", max)):
            found = head_groups.best_per_group(values, given, kind, operand, column)
            assert rows_of(found) == sorted(choose(group, key=rank) for group in groups_of(rows, column))
            assert found.packing is given.packing
        first = head_groups.first_per_group(given, column)
        assert rows_of(first) == sorted(min(group) for group in groups_of(rows, column))
        assert (given.keys == before).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("arity", "column"), [(1, 0), (2, 0), (2, 1), (3, 1)])
def test_totals(layout: str, arity: int, column: int) -> None:
    rows = some_rows(arity, 300)
    given = row_set(rows, layout)
    weights = np.arange(1, len(rows) + 1)
    of_row = dict(zip(rows, weights.tolist(), strict=True))
    for kind in ("sum", "count"):
        found = head_groups.totals(given.packing, given.keys, weights, kind, "number", column)
        expected = []
        for group in groups_of(rows, column):
            total = sum(of_row[row] * (row[column] if kind == "sum" else 1) for row in group)
            expected.append((*group[0][:column], total, *group[0][column + 1 :]))
        assert rows_of(found) == sorted(expected)


def test_a_group_is_looked_up_by_an_index_that_grows_with_the_relation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The aggregated column is the first: an index by the other one must not be made anew in every round."""
    made = 0
    indexed = Trace.indexed

    def counting(trace: Trace, orders: tuple[tuple[int, ...], ...]) -> Trace:
        nonlocal made
        made += any(order not in trace.orders for order in orders) and trace.size > 50
        return indexed(trace, orders)

    program = """
    .decl road(x: number, y: number)
    .decl steps(n: number, x: number)
    steps(0, 0).
    steps(min(n + 1), y) :- steps(n, x), road(x, y).
    """
    with sempre.Database(program) as db:
        monkeypatch.setattr(Trace, "indexed", counting)
        db.materialise({"road": [(n, n + 1) for n in range(300)]})
        assert sorted(db["steps"]) == [(n, n) for n in range(301)]
    assert made <= 3
