"""Active databases in stores: opened again, at earlier epochs, after a crash, on a full disk, of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api.stores import check_files, repair, vacuum
from sempre.storage.store import Store
from tests.disks import FullDisk, KillingDisk
from tests.e2e.killing import in_child
from tests.unit.active.test_batches import batch

RULES = """
.decl up(x: symbol)
.decl link(x: symbol, y: symbol)
.decl down(x: symbol)
up(y) :- up(x), link(x, y), !down(y).
-up(x) :- down(x), up(x).
"""
LINKS = [("a", "b"), ("b", "c"), ("c", "d")]
FIRST = {"up": [("a",)], "link": LINKS}


def up(db: Any) -> str:
    return "".join(sorted(x for (x,) in db["up"]))


def opened(path: Path, **options: Any) -> sempre.Database:
    return sempre.Database.open(path, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    with sempre.Database(RULES, semantics="active", store=path) as db:
        db.apply(insert=FIRST)
        db.apply(insert={"down": [("d",)]}, cycle=2)
        db.apply(insert={"link": [("c", "e")]})
    return path


def test_everything_is_there_again(path: Path) -> None:
    with opened(path) as db:
        assert (db.epoch, up(db), db.cycle) == (3, "abce", 4)
        assert [up(db.at_cycle(cycle)) for cycle in range(5)] == ["a", "ab", "abc", "abce", "abce"]
        assert str(db.explain('down("d")')).endswith("given in this cycle")
        assert db.verify().ok
        changes = db.apply(delete={"link": [("a", "b")]})
        assert changes.removed["up"].to_pydict() == {"x": ["b", "c", "e"]}
    with opened(path, epoch=1) as db:
        assert (up(db), up(db.at_cycle(2))) == ("abcd", "abc")
        with pytest.raises(sempre.StateError, match="past, and only read"):
            db.apply(insert={"up": [("z",)]})
    with opened(path) as db:
        assert (db.epoch, up(db)) == (4, "a")


def test_after_a_vacuum_too(path: Path) -> None:
    vacuum(path)
    with opened(path) as db:
        assert (up(db), up(db.at_cycle(2))) == ("abce", "abc")
        assert db.verify().ok


@pytest.mark.folder
def test_a_run_in_the_background_is_kept_when_it_was_waited_for(path: Path) -> None:
    with opened(path) as db:
        db.start(insert={"link": [("e", "f")]})
        assert db.wait().added["up"].to_pydict() == {"x": ["f"]}
        with sempre.Database.open(path) as reader:
            assert up(reader) == "abcef"
        with pytest.raises(sempre.StateError, match="is being written by"), opened(path) as second:
            second.start(insert={"up": [("z",)]})


def test_a_run_without_end_leaves_the_last_epoch(path: Path) -> None:
    with opened(path, cycles=3) as db:
        with pytest.raises(sempre.DataError, match="after 3 cycles"):
            db.apply(insert={"link": [("e", "f"), ("f", "g")]})
        assert (db.epoch, up(db)) == (3, "abce")
    with opened(path) as db:
        assert (db.epoch, up(db)) == (3, "abce")


def test_batches_of_streams_are_applied_once_also_after_opening(path: Path) -> None:
    def refuse(epoch: int, changes: sempre.ChangeSet) -> None:
        raise RuntimeError("not now")

    with opened(path) as db:
        with pytest.raises(RuntimeError, match="not now"):
            db._take_batch(batch("ef"), ("s", 0), refuse)
        assert (db.epoch, db._last_batch("s")) == (3, -1)
    with opened(path) as db:
        assert (db.epoch, db._last_batch("s")) == (3, -1)
        told: list[int] = []
        db._take_batch(batch("ef"), ("s", 0), lambda epoch, changes: told.append(epoch))
        assert (told, up(db)) == ([4], "abcef")
    with opened(path) as db:
        assert (db.epoch, db._last_batch("s")) == (4, 0)


@pytest.mark.folder
def test_no_room_at_any_step(tmp_path: Path) -> None:
    disk = FullDisk(1 << 60)
    with sempre.Database(RULES, semantics="active", store=Store(tmp_path / "counted", disk)) as db:
        db.apply(insert=FIRST)
        start = disk.steps
        db.apply(insert={"down": [("c",)]}, cycle=1)
        end = disk.steps - 1
    for room in range(start, end):
        disk = FullDisk(room)
        with sempre.Database(RULES, semantics="active", store=Store(tmp_path / str(room), disk)) as db:
            db.apply(insert=FIRST)
            with pytest.raises(sempre.StateError, match="no space left on device"):
                db.apply(insert={"down": [("c",)]}, cycle=1)
            assert (db.epoch, up(db), up(db.at_cycle(2))) == (1, "abcd", "abc")
            disk.cleared()
            db.apply(insert={"down": [("d",)]}, cycle=1)
            assert (db.epoch, up(db)) == (2, "abc")
        check_files(tmp_path / str(room))
        with opened(tmp_path / str(room)) as db:
            assert up(db) == "abc"
            assert db.verify().ok


@pytest.mark.folder
@pytest.mark.parametrize("torn", [False, True])
def test_killed_at_any_step(tmp_path: Path, torn: bool) -> None:
    for last in range(100):
        path = tmp_path / str(last)

        def write(out: int, path: Path = path, last: int = last) -> None:
            with sempre.Database(RULES, semantics="active", store=Store(path)) as db:
                db.apply(insert=FIRST)
            with sempre.Database.open(Store(path, KillingDisk(last, torn, lambda where: None))) as db:
                db.apply(insert={"down": [("c",)]}, cycle=1)

        status, _ = in_child(write)
        with opened(path) as db:
            assert (db.epoch, up(db)) in ((1, "abcd"), (2, "ab"))
            assert db.verify().ok
            db.apply(insert={"link": [("b", "z")]})
            assert db.verify().ok
        if status == 0:
            assert last > 5
            return
    pytest.fail("it never came to its end")


def test_what_is_given_comes_along_to_another_program(path: Path) -> None:
    more = RULES + '.decl seen(x: symbol)\nseen(x) :- up(x).\n.pragma "semantics" "active"\n'
    with pytest.raises(sempre.StateError, match="written with another program"):
        sempre.Database(more, store=path)
    with sempre.Database(more, store=path, migrate=True) as db:
        assert (up(db), len(db["seen"]), len(db["down"])) == ("abce", 4, 1)
        assert db.verify().ok
    with opened(path) as db:
        assert (db.epoch, up(db.at_cycle(2))) == (4, "abc")


def test_rules_without_cycles_cannot_take_over_what_is_given(path: Path) -> None:
    stratified = RULES.replace("-up(x) :- down(x), up(x).", "")
    with pytest.raises(sempre.StateError, match="given in later cycles"):
        sempre.Database(stratified, store=path, migrate=True)
    with opened(path) as db:
        assert (db.epoch, up(db)) == (3, "abce")


def test_the_same_rule_twice_is_another_program(path: Path) -> None:
    """It counts twice in the chains."""
    twice = RULES + 'up(y) :- up(x), link(x, y), !down(y).\n.pragma "semantics" "active"'
    with pytest.raises(sempre.StateError, match="written with another program"):
        sempre.Database(twice, store=path)


def test_a_repair_runs_again_on_all_that_was_given(path: Path) -> None:
    with opened(path) as db:
        changes = repair(db)
        assert (db.epoch, bool(changes), up(db), up(db.at_cycle(2))) == (4, False, "abce", "abc")
    with opened(path) as db:
        assert (db.epoch, up(db)) == (4, "abce")
        assert db.verify().ok
