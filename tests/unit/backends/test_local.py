"""The local backend cuts work into pieces and threads: the results must not depend on how."""

from __future__ import annotations

import random

import numpy as np
import pytest

import sempre
from sempre.backends.local import LocalBackend
from sempre.kernel import compiled
from sempre.kernel.layout import EVERYTHING, Field, common_packing, packing
from sempre.limits import DEFAULTS, Limits

PROGRAM = """
.decl edge(x: number, y: number)
.decl blocked(x: number)
.decl reach(x: number, y: number)
.decl far(x: number, n: number)
.decl lonely(x: number)
.decl twice(x: number)
reach(x, y) :- edge(x, y), !blocked(y).
reach(x, z) :- reach(x, y), reach(y, z).
far(x, n) :- edge(x, _), n = sum z : { reach(x, z), z % 3 != 0 }.
lonely(x) :- edge(x, _), !( reach(x, y), reach(y, x), y != x ).
twice(x) :- reach(x, x), edge(x, x).
"""


def facts(seed: int = 1) -> dict[str, list[tuple[int, ...]]]:
    rng = random.Random(seed)
    edges = {(rng.randrange(60), rng.randrange(60)) for _ in range(90)}
    return {"edge": sorted(edges), "blocked": [(n,) for n in range(0, 60, 11)]}


def results(threads: int = 1, limits: Limits = DEFAULTS) -> dict[str, set[tuple[int, ...]]]:
    with sempre.Database(PROGRAM, threads=threads, limits=limits) as db:
        db.apply(insert=facts())
        db.apply(delete={"edge": facts()["edge"][::7]}, insert={"edge": [(0, 59), (59, 1)]})
        return {name: set(db[name]) for name in db}


@pytest.fixture(scope="module")
def expected() -> dict[str, set[tuple[int, ...]]]:
    found = results()
    assert len(found["reach"]) > 500
    return found


@pytest.mark.parametrize("rows", [1, 2, 7, 100])
def test_pieces(rows: int, expected: object) -> None:
    assert results(limits=Limits(piece_rows=rows)) == expected


@pytest.mark.parametrize("rows", [1, 3, 64])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_slices_and_threads(rows: int, threads: int, expected: object) -> None:
    assert results(threads, Limits(slice_rows=rows, parallel_rows=0)) == expected


def test_compiled_loops(expected: object, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load(wait=True)
    monkeypatch.setattr(compiled, "WORTH_ROWS", 0)
    assert results(2) == expected


def test_a_fault_in_a_thread_names_the_rule() -> None:
    limits = Limits(slice_rows=1, parallel_rows=0)
    text = ".decl p(x: number)\n.decl q(x: number)\nq(6 / x) :- p(x).\n"
    with sempre.Database(sempre.Program(text, "q.dl"), threads=2, limits=limits) as db:
        with pytest.raises(sempre.DataError) as error:
            db.apply(insert={"p": range(-50, 50)})
        assert "6 / 0 has no value" in str(error.value)
        assert "q.dl:3:1" in str(error.value)
        assert "q(6 / x) :- p(x)." in str(error.value)
        assert len(db["p"]) == 0


def test_relations_that_share_a_domain_share_its_field() -> None:
    backend = LocalBackend(sempre.Program(PROGRAM).checked)
    backend.fit({"edge": [np.array([0, 1000]), np.array([5, 70_000])]})
    fields = {name: backend.empty(name).fields for name in ("edge", "reach", "blocked", "lonely")}
    assert fields["edge"] == fields["reach"]
    assert fields["blocked"] == fields["edge"][1:]
    assert fields["edge"][1].holds(0, 70_000)


def test_a_layout_with_room_for_all() -> None:
    narrow, wide = packing((Field(0, 3), Field(5, 4)), (0, 1)), packing((Field(-9, 4), EVERYTHING), (0, 1))
    both = common_packing([narrow, wide])
    for layout in (narrow, wide):
        assert all(new.contains(old) for new, old in zip(both.fields, layout.fields, strict=True))
    assert common_packing([narrow, narrow]) is narrow


@pytest.mark.parametrize(("values", "least", "most"), [(1, 1, 1), (50, 50, 50), (100_000, 20_000, 110_000)])
def test_distinct_values_are_estimated(values: int, least: int, most: int) -> None:
    backend = LocalBackend(sempre.Program(".decl p(x: number, y: number)").checked)
    rows = np.arange(100_000)
    columns = [rows % values, rows]
    backend.fit({"p": columns})
    statistics = backend.statistics({"p": backend.version(backend.rows("p", columns, rows.size))})
    assert statistics.size("p") == 100_000
    assert least <= statistics.distinct("p", 0) <= most
