"""Databases on the cluster whose epochs are kept: opened again there, in the driver, or without Spark."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.limits import Limits
from sempre.storage.store import Store
from tests.disks import FullDisk
from tests.inside import engine_of
from tests.property.programs import random_case
from tests.property.test_stores import check_case
from tests.spark.conftest import KIND, ONCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = """
.type Pair = [a: symbol, n: number]
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
reach("m", "m").
.decl named(p: Pair, w: float)
.decl any()
any() :- reach(_, _).
"""
EDGES = [("a", "b"), ("b", "c"), ("c", "d")]


def opened(path: Path | Store, spark: SparkSession | None, **options: Any) -> sempre.Database:
    return sempre.Database(RULES, store=path, spark=spark, **({"place": "cluster"} | options))


def state(db: sempre.Database) -> dict[str, list[Any]]:
    return {name: sorted(db[name], key=repr) for name in db}


def test_every_epoch_can_be_read_anywhere(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with opened(path, spark) as db:
        db.apply(insert={"edge": EDGES, "named": [(("x", 1), 0.5), (None, -0.0)]})
        before = state(db)
        assert before["any"] == [()]
        with pytest.raises(sempre.StateError, match="is being written by"):
            opened(path, spark).apply(insert={"edge": [("q", "r")]})
        db.apply(delete={"edge": [("b", "c")]}, insert={"reach": [("u", "v")]})
        after = state(db)
        assert (("u", "v") in after["reach"], ("a", "c") in after["reach"]) == (True, False)
    assert (path / "epochs/0000000002.manifest").read_bytes().startswith(b"sempre epoch 3 ")
    for options in ({}, {"place": "auto", "memory": 1000}, {"place": "auto"}, {"place": "auto", "spark": None}):
        with opened(path, **({"spark": spark} | options)) as db:
            assert (db.epoch, state(db)) == (2, after)
            assert db.verify().ok
            with db.at_epoch(1) as past:
                assert state(past) == before
                with pytest.raises(sempre.StateError, match="epoch 1 is past"):
                    past.apply(insert={"edge": [("q", "r")]})
    check_files(path)


@ONCE
def test_relations_move_between_places(spark: SparkSession, tmp_path: Path) -> None:
    """From the cluster to the driver, there and back, with a change each time."""
    path = tmp_path / "store"
    with opened(path, spark) as db:
        db.apply(insert={"edge": EDGES})
    steps: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
        ({}, {"delete": {"edge": [("a", "b")]}}, ["bc", "bd", "cd", "mm"]),
        ({"spark": spark, "place": "cluster"}, {"delete": {"edge": [("c", "d")]}}, ["bc", "mm"]),
        ({}, {"insert": {"edge": [("a", "b")]}}, ["ab", "ac", "bc", "mm"]),
        ({"spark": spark, "memory": 1}, {"delete": {"edge": [("b", "c")], "reach": [("m", "m")]}}, ["ab"]),
        ({"spark": spark}, {"insert": {"edge": [("b", "d")]}}, ["ab", "ad", "bd"]),
    ]
    tabled = []
    for number, (place, change, expected) in enumerate(steps, 2):
        with sempre.Database(RULES, store=path, **place) as db:
            db.apply(**change)
        manifest = Store(path).manifest(number)
        tabled.append(set(manifest.parts))
        for is_local in (True, False):
            with sempre.Database(RULES, store=path) if is_local else opened(path, spark) as db:
                assert sorted(map("".join, db["reach"])) == expected
                assert db.verify().ok
    assert tabled[:2] == [set(), {"facts/edge", "facts/reach", "facts/any"}]
    assert [bool(sets) for sets in tabled[2:]] == [False, True, False]


@ONCE
def test_other_modules_at_other_places(spark: SparkSession, tmp_path: Path) -> None:
    """What is not stored is evaluated where that is which it is evaluated from."""
    program = """
    .decl at(g: symbol, t: number)
    .decl between(g: symbol, x: number, y: number)
    .decl next(g: symbol, x: number, y: number)
    between(g, x, y) :- at(g, x), at(g, z), at(g, y), x < z, z < y.
    next(g, x, y) :- at(g, x), at(g, y), x < y, !between(g, x, y).
    """
    have = {("a", 0)}
    cluster = {"spark": spark, "place": "cluster"}
    steps: list[dict[str, Any]] = [cluster, {"modules": "off"}, cluster, cluster | {"modules": "off"}, {}]
    for number, options in enumerate(steps, 1):
        with sempre.Database(program, store=tmp_path / "store", **options) as db:
            come, gone = {("a", 3 * number), ("a", 20 - number), ("b", number)}, {("a", 3 * number - 3)}
            have = (have - gone) | come
            db.apply(insert={"at": sorted(come)}, delete={"at": sorted(gone)})
            with sempre.Database(program, modules="off") as right:
                right.apply(insert={"at": sorted(have)})
                assert state(db) == state(right)
            assert db.verify().ok


@ONCE
def test_a_store_by_a_relative_path(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark and its tasks are elsewhere, and so may this process be later."""
    limits = Limits(driver_rows=1, fetched_rows=1)
    monkeypatch.chdir(tmp_path)
    with opened(Path("store"), spark, limits=limits) as db:
        db.apply(insert={"edge": EDGES})
    with opened(Path("store"), spark, limits=limits) as db:
        monkeypatch.chdir("/")
        assert sorted(db["edge"].to_spark().toArrow().column(0).to_pylist()) == ["a", "b", "c"]
        monkeypatch.chdir(tmp_path)
        db.apply(insert={"edge": [("d", "e")]})
        assert (len(db["reach"]), db.verify().ok) == (11, True)
    found = [Store("store").manifest(epoch).parts["facts/edge"].tables for epoch in (1, 2)]
    assert found[0][0] in found[1]


@ONCE
def test_what_does_not_change_is_not_stored_again(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    many = Limits(driver_rows=1)  # more than a few rows: few are one table, which is written anew
    with opened(path, spark, limits=many) as db:
        db.apply(insert={"edge": EDGES, "named": [(("x", 1), 0.5)]})
        db.apply(insert={"edge": [("d", "e")]})
    with opened(path, spark, limits=many) as db:
        db.apply(insert={"edge": [("e", "f")]})
    found = [Store(path).manifest(epoch).parts for epoch in (1, 2, 3)]
    assert found[0]["facts/named"] == found[1]["facts/named"] == found[2]["facts/named"]
    tables = [{table for table, _ in parts["facts/edge"].tables} for parts in found]
    assert tables[0] < tables[1] < tables[2]


RARE = [pytest.param(*case, marks=pytest.mark.slow) for case in ((3, "elastic"), (4, "dredc"))]


@pytest.mark.parametrize(("seed", "strategy"), [(9, "auto"), *RARE])
@pytest.mark.skipif(KIND == "connect", reason="other tests here are the sample on Connect")
def test_random_programs_opened_at_any_place(spark: SparkSession, tmp_path: Path, seed: int, strategy: str) -> None:
    rng = random.Random(seed)
    places: Sequence[dict[str, Any]] = ({"spark": spark, "place": "cluster"}, {"spark": spark, "memory": 1000}, {})
    check_case(random_case(rng), tmp_path / "store", rng, (strategy,), places)


@ONCE
def test_a_vacuum_keeps_the_tables_of_the_epochs_it_keeps(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with opened(path, spark) as db:
        db.apply(insert={"edge": EDGES})
        db.apply(delete={"edge": [("b", "c")]})
        db.apply(insert={"edge": [("b", "c")]})
        after = state(db)
    tables = set((path / "tables").iterdir())
    freed, left = vacuum(path)
    assert freed > 0
    assert left == sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and "." in file.name)
    assert set((path / "tables").iterdir()) < tables
    check_files(path)
    with opened(path, spark) as db:
        assert (state(db), db.verify().ok) == (after, True)
        db.apply(delete={"edge": [("c", "d")]})
    check_files(path)


@ONCE
def test_damaged_tables_are_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with opened(path, spark) as db:
        db.apply(insert={"edge": EDGES})
    file = next((path / "tables").rglob("*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    with pytest.raises(sempre.StateError, match="should have") as raised:
        opened(path, spark)
    assert raised.value.diagnostics[0].code == "E602"
    file.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    with pytest.raises(sempre.StateError, match="its checksum does not match"):
        check_files(path)
    with pytest.raises(sempre.StateError, match="its checksum does not match"), sempre.Database.open(path) as db:
        state(db)
    file.unlink()
    with pytest.raises(sempre.StateError, match="it is missing"):
        opened(path, spark)


@ONCE
def test_no_room_at_any_step_of_a_commit(spark: SparkSession, tmp_path: Path) -> None:
    path, disk = tmp_path / "store", FullDisk(1 << 60)
    with opened(Store(path, disk), spark) as db:
        db.apply(insert={"edge": EDGES})
        before, engine = state(db), engine_of(db)
        base = engine.snapshot
        after, result = engine.evaluate(base, {"edge": engine.backend.receive("edge", *codes(db, [("d", "e")]))}, {})
        for room in range(1000):
            disk.room, disk.steps = room, 0
            if (code := refused(lambda: engine.commit(after, base, result))) is None:
                break
            disk.cleared()
            assert code == "E606"
            kept = {name for epoch in Store(path).epochs() for name in Store(path).manifest(epoch).tables}
            assert {f"tables/{folder.name}" for folder in (path / "tables").iterdir()} == kept
            with sempre.Database(RULES, store=path) as reader:
                assert (reader.epoch, state(reader)) == (1, before)
        assert room > 8
        assert ("a", "e") in db["reach"]
    check_files(path)


def refused(action: Callable[[], None]) -> str | None:
    """The code of the error that an action ends with."""
    try:
        action()
    except sempre.StateError as error:
        return error.diagnostics[0].code
    return None


def codes(db: sempre.Database, rows: list[tuple[str, str]]) -> tuple[list[Any], int]:
    columns = [db._backend.values.symbols.encode(list(column)) for column in zip(*rows, strict=True)]
    return columns, len(rows)


@ONCE
def test_what_a_dead_writer_left_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with opened(path, spark) as db:
        db.apply(insert={"edge": EDGES})
    table = next((path / "tables").iterdir())
    shutil.copytree(table, path / "tables" / "0000000002.7")
    with opened(path, spark) as db:
        db.apply(insert={"edge": [("d", "e")]})
    assert not (path / "tables" / "0000000002.7").exists()
    check_files(path)
