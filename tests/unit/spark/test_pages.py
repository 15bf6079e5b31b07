"""Rows looked up in files: all that match, and little is read for it."""

from __future__ import annotations

import random
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sempre.analysis.model import Kind
from sempre.kernel.values import Values
from sempre.limits import Limits
from sempre.spark.cluster.pages import Pages, SketchBudget, Wanted, may_have, sketch
from sempre.spark.cluster.scratch import Scratch
from sempre.spark.cluster.tables import Table, TableContext, Version
from tests.property.near import NoSession, rows_of


def written(folder: Path, columns: dict[str, Any], group_rows: int, budget: SketchBudget | None = None) -> Pages:
    table = pa.table(columns)
    half = table.num_rows // 2
    for number, part in enumerate((table.slice(0, half), table.slice(half))):
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=group_rows)
    return Pages(folder, list(columns), budget or SketchBudget(1 << 20))


def found(pages: Pages, **keys: list[Any]) -> tuple[list[tuple[Any, ...]], int]:
    """The rows, and how many had to be read."""
    types = {"x": pa.int64(), "y": pa.int64(), "f": pa.float64(), "s": pa.string()}
    wanted = {name: Wanted(pa.array(values, types[name])) for name, values in keys.items()}
    groups = pages.candidates(wanted)
    table = pages.matching(wanted, groups, lambda: None)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr), int(
        pages.rows[groups].sum()
    )


def test_statistics_spare_the_groups_that_cannot_match(tmp_path: Path) -> None:
    numbers = list(range(1000))
    pages = written(tmp_path, {"x": numbers, "s": [f"{n:04}" for n in numbers]}, 10)
    assert found(pages, x=[7, 995, 5000]) == ([(7, "0007"), (995, "0995")], 20)
    assert found(pages, s=["0007", "z"]) == ([(7, "0007")], 10)
    assert found(pages, x=[-1]) == ([], 0)


def test_sketches_spare_groups_that_are_not_sorted(tmp_path: Path) -> None:
    rng = random.Random(3)
    numbers = list(range(10_000))
    rng.shuffle(numbers)
    pages = written(tmp_path, {"x": list(range(10_000)), "y": numbers}, 100)
    first, read = found(pages, y=[5000])
    assert read > 9_000
    again, read = found(pages, y=[5000])
    assert again == first == [(numbers.index(5000), 5000)]
    assert read < 2_000
    for key in numbers[::97]:
        assert found(pages, y=[key])[0] == [(numbers.index(key), key)]


def test_sketches_take_no_more_memory_than_they_may(tmp_path: Path) -> None:
    budget = SketchBudget(300)
    numbers = list(range(0, 2000, 2))[::-1] + list(range(1, 2000, 2))
    pages = written(tmp_path, {"x": numbers}, 100, budget)
    assert found(pages, x=[4])[0] == found(pages, x=[4])[0] == [(4,)]
    assert 0 <= budget.left < 300
    del pages
    assert budget.left == 300


def test_a_sketch_never_says_no_to_what_is_there() -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 7, 1000):
        numbers = rng.integers(-(1 << 63), (1 << 63) - 1, size)
        bits = sketch(numbers)
        assert all(may_have(bits, numbers[at : at + 1]) for at in range(size))


def test_odd_values_are_found(tmp_path: Path) -> None:
    floats = [nan, 0.0, float("inf"), -1.5, nan, 3.0]
    texts = ["", "ü", "a" * 500, "\U0001f600", "a", "nil"]
    pages = written(tmp_path, {"f": floats, "s": texts}, 2)
    assert [row[1] for row in found(pages, f=[nan])[0]] == ["", "a"]
    assert found(pages, f=[0.0])[0] == [(0.0, "ü")]
    for value, text in zip(floats, texts, strict=True):
        assert repr(found(pages, s=[text])[0]) == repr([(value, text)])


@pytest.mark.parametrize("few", [2, 5, 1000])
def test_versions_are_sets_whatever_comes_and_goes(few: int) -> None:
    """A few rows are held in one part, larger ones in files; rows come back, and go again."""
    limits = Limits(driver_rows=few, many_parts=1000)
    session: Any = NoSession()
    program: Any = None
    store = TableContext(Scratch(session, limits), Values(), program)
    kinds = (Kind.NUMBER, Kind.SYMBOL)

    def table(rows: set[tuple[int, str]]) -> Table:
        columns = list(zip(*sorted(rows), strict=True)) or [(), ()]
        return store.held(pa.table({"c0": pa.array(columns[0], pa.int64()), "c1": columns[1]}), kinds, 2)

    rng = random.Random(few)
    for _ in range(20):
        have = {(rng.randrange(6), rng.choice("abc")) for _ in range(rng.randrange(12))}
        version, before = Version.of(table(have)), set(have)
        held = version
        for _ in range(8):
            every = [(n, s) for n in range(6) for s in "abc"]
            some = set(rng.sample(every, rng.randrange(1, 6)))
            if rng.random() < 0.5:
                version, have = version.adding(table(some - have)), have | some
            else:
                version, have = version.removing(table(some & have)), have - some
            assert len(version) == len(have)
            assert shown(rows_of(version)) == have
            asked = table(set(rng.sample(every, 2)))
            asked.here = asked.arrow()
            present = version.present(asked, 1000)
            assert present is not None
            assert {tuple(row.values()) for row in present.to_pylist()} == shown(asked) & have
        assert shown(rows_of(held)) == before, "a version stays what it is"
    few_parts = [part for part, _ in version.parts if part.here is not None]
    assert few < 1000 or len(few_parts) <= 1
    store.scratch.close()


def shown(rows: Table) -> set[Any]:
    return {tuple(row.values()) for row in rows.arrow().to_pylist()}
