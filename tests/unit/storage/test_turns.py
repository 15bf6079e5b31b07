"""Threads, signals, forks and folders around a store: what was announced is there, what was not is not."""

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest

import sempre
from sempre.api.stores import check_files
from sempre.engine import Progress
from sempre.storage.disk import Disk
from sempre.storage.store import Store

RULES = """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
Rows = list[tuple[int, int]]


def edges(place: Path | sempre.Database) -> tuple[int, Rows]:
    """The epoch and the edges, in memory or on the disk, both of which hold to the rules."""
    if isinstance(place, Path):
        with sempre.Database.open(place) as db:
            return edges(db)
    assert place.verify().ok
    return place.epoch, sorted(place["edge"])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def db(store: Path) -> Iterator[sempre.Database]:
    with sempre.Database(RULES, store=store, modules="off") as database:
        database.apply(insert={"edge": [(1, 2)]})
        yield database


def forked(call: Callable[[], None]) -> None:
    """Call in a process that is a copy of this one."""
    child = os.fork()
    if not child:
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


class Interrupted(Disk):
    """A disk that is interrupted at a step of its own choosing."""

    at: str | None = None

    def rename(self, old: PurePath, new: PurePath) -> None:
        super().rename(old, new)
        if self.at == "renamed":
            signal.raise_signal(signal.SIGINT)

    def step(self, what: str, path: PurePath) -> None:
        if what == self.at:
            self.at = None
            signal.raise_signal(signal.SIGINT)


@pytest.mark.folder
@pytest.mark.parametrize("at", ["create", "write", "sync", "rename", "renamed", "note"])
def test_memory_and_disk_are_the_same_after_an_interrupt_of_the_commit(store: Path, at: str) -> None:
    disk = Interrupted()
    with sempre.Database(RULES, store=Store(store, disk)) as db:
        db.apply(insert={"edge": [(1, 2)]})
        disk.at = at
        with pytest.raises(KeyboardInterrupt):
            db.apply(insert={"edge": [(3, 4)]}, delete={"edge": [(1, 2)]})
        disk.at = None
        assert edges(db) == edges(store)
        assert edges(db) in [(1, [(1, 2)]), (2, [(3, 4)])]
        db.apply(insert={"edge": [(5, 6)]})
        assert edges(db) == edges(store)
        check_files(store)


def test_a_question_waits_for_nobody_and_changes_nothing(store: Path) -> None:
    inside, done = threading.Event(), threading.Event()

    def progress(_: Progress) -> None:
        if threading.current_thread().name == "asker":
            inside.set()
            done.wait()

    with sempre.Database(RULES, store=store, progress=progress, modules="off") as db:
        db.apply(insert={"edge": [(1, 2)]})
        answers = []
        asker = threading.Thread(target=lambda: answers.append(db.whatif(insert={"edge": [(2, 3)]})), name="asker")
        asker.start()
        inside.wait()
        for row in ((10, 11), (20, 21)):
            db.apply(insert={"edge": [row]})
        done.set()
        asker.join()
        assert sorted(answers[0].added["reach"].to_pylist(), key=str) == [{"x": 1, "y": 3}, {"x": 2, "y": 3}]
        assert edges(db) == (3, [(1, 2), (10, 11), (20, 21)]) == edges(store)


def test_progress_may_change_the_database(store: Path) -> None:
    inner: list[int] = []

    def progress(_: Progress) -> None:
        if not inner and mine.epoch >= 1:
            inner.append(0)
            mine.apply(insert={"edge": [(100, 101)]})
            inner.append(mine.epoch)

    mine = sempre.Database(RULES, store=store, progress=progress, modules="off")
    with mine:
        mine.apply(insert={"edge": [(1, 2), (2, 3)]})
        mine.apply(insert={"edge": [(3, 4)]})
        assert inner == [0, 2]
        assert edges(mine) == (3, [(1, 2), (2, 3), (3, 4), (100, 101)]) == edges(store)


def test_nothing_is_closed_from_inside_of_an_epoch(store: Path) -> None:
    mine = sempre.Database(RULES, store=store, modules="off", progress=lambda _: mine.close())
    with mine:
        with pytest.raises(sempre.StateError, match="an epoch is under way"):
            mine.apply(insert={"edge": [(1, 2)]})
        assert edges(mine) == (0, [])


class Paused(Disk):
    def __init__(self) -> None:
        self.armed = False
        self.paused, self.go = threading.Event(), threading.Event()

    def step(self, what: str, path: PurePath) -> None:
        if self.armed and what == "create" and path.name.endswith(".tmp"):
            self.armed = False
            self.paused.set()
            self.go.wait()


@pytest.mark.folder
def test_a_commit_of_a_closed_database_does_not_happen(store: Path) -> None:
    disk, errors = Paused(), []
    first = sempre.Database(RULES, store=Store(store, disk))
    first.apply(insert={"edge": [(1, 2)]})

    def write() -> None:
        try:
            first.apply(insert={"edge": [(3, 4)]})
        except sempre.StateError as error:
            errors.append(str(error))

    disk.armed = True
    thread = threading.Thread(target=write)
    thread.start()
    disk.paused.wait()
    first.close()
    with sempre.Database(RULES, store=store) as second:
        second.apply(insert={"edge": [(5, 6)]})
    disk.go.set()
    thread.join()
    assert "was closed before the epoch was committed" in errors[0]
    assert edges(store) == (2, [(1, 2), (5, 6)])
    check_files(store)


def test_a_forked_process_is_not_the_writer(db: sempre.Database, store: Path) -> None:
    def child() -> None:
        with pytest.raises(sempre.StateError, match="of which this one is a copy"):
            db.apply(insert={"edge": [(1000, 2000)]})
        assert sorted(db["edge"]) == [(1, 2)]
        db.close()

    forked(child)
    db.apply(insert={"edge": [(3, 4)]})
    assert edges(db) == (2, [(1, 2), (3, 4)]) == edges(store)


@pytest.mark.folder
def test_a_forked_process_does_not_hold_the_lock(db: sempre.Database, store: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    db.close()
    with sempre.Database(RULES, store=store) as other:
        other.apply(insert={"edge": [(3, 4)]})
    os.close(write)
    os.waitpid(child, 0)
    assert edges(store) == (2, [(1, 2), (3, 4)])


def test_a_store_stays_where_it_is_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        with sempre.Database(RULES, store="store") as db:
            db.apply(insert={"edge": [(1, ord(folder))]})
    monkeypatch.chdir(tmp_path / "a")
    with sempre.Database(RULES, store="store") as db:
        assert edges(db) == (1, [(1, ord("a"))])
        monkeypatch.chdir(tmp_path / "b")
        db.apply(insert={"edge": [(2, 3)]})
    assert edges(tmp_path / "a" / "store") == (2, [(1, ord("a")), (2, 3)])
    assert edges(tmp_path / "b" / "store") == (1, [(1, ord("b"))])


@pytest.mark.folder
def test_without_the_file_of_the_lock_nothing_is_written(db: sempre.Database, store: Path) -> None:
    (store / "lock").unlink()
    with pytest.raises(sempre.StateError, match="`lock` was removed"):
        db.apply(insert={"edge": [(3, 4)]})
    assert edges(db) == (1, [(1, 2)]) == edges(store)
    with sempre.Database(RULES, store=store) as other:
        other.apply(insert={"edge": [(5, 6)]})
    with pytest.raises(sempre.StateError):
        db.apply(insert={"edge": [(7, 8)]})
    assert edges(store) == (2, [(1, 2), (5, 6)])


@pytest.mark.folder
def test_an_epoch_that_lost_its_manifest_is_missed(db: sempre.Database, store: Path) -> None:
    db.apply(insert={"edge": [(3, 4)]})
    db.close()
    (store / "epochs" / "0000000002.manifest").unlink()
    with pytest.raises(sempre.StateError, match=r"0000000002.manifest` is damaged: it is missing") as raised:
        sempre.Database.open(store)
    assert "delete `" in str(raised.value)
    with sempre.Database.open(store, epoch=1) as past:
        assert sorted(past["edge"]) == [(1, 2)]
    (store / "HEAD").unlink()
    assert edges(store) == (1, [(1, 2)])


@pytest.mark.folder
def test_clearing_up_does_not_follow_links(db: sempre.Database, store: Path, tmp_path: Path) -> None:
    db.close()
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("here")
    (store / "log" / ".cache").symlink_to(precious)
    (store / "tables" / "0000000099.0").symlink_to(precious)
    with sempre.Database(RULES, store=store) as again:
        again.apply(insert={"edge": [(3, 4)]})
    assert (precious / "file").read_text() == "here"
    assert not (store / "tables" / "0000000099.0").is_symlink()
    shutil.move(store / "log", tmp_path / "elsewhere")
    (store / "log").symlink_to(tmp_path / "elsewhere")
    with (
        sempre.Database(RULES, store=store) as again,
        pytest.raises(sempre.StateError, match="log` is damaged: it is a link"),
    ):
        again.apply(insert={"edge": [(5, 6)]})


def test_values_of_questions_and_of_failed_epochs_are_not_kept(store: Path) -> None:
    rules = ".decl e(x: symbol)\n.decl p(x: symbol)\np(x) :- e(x).\n.type R = [a: symbol]\n.decl r(x: R)\n"
    with sempre.Database(rules, store=store) as db:
        db.apply(insert={"e": [("a",)], "r": [(("a",),)]})
        values = db._backend.values

        def sizes() -> tuple[int, int]:
            return len(values.symbols), len(values.records(1))

        before = sizes()
        assert db.query('e("q")').num_rows == 0
        assert ("c",) not in db["e"]
        assert (("c",),) not in db["r"]
        what = db.whatif(insert={"e": [("w",)], "r": [(("w",),)]})
        db.apply(delete={"e": [("d",)], "r": [(("d",),)]})
        with pytest.raises(sempre.DataError):
            db.apply(insert={"e": [("x",), (5,)]})
        with pytest.raises(sempre.DataError), db.transaction() as transaction:
            transaction.insert("e", [("t",), (5,)])
        assert sizes() == before
        assert what.added["p"].to_pylist() == [{"x": "w"}]
        assert what.added["r"].to_pylist() == [{"x": "[w]"}]
        db.apply(insert={"e": [("b",)]})
        assert what.added["p"].to_pylist() == [{"x": "w"}]
        assert sorted(db["p"]) == [("a",), ("b",)]
        assert db["r"].to_arrow().num_rows == 1
    with sempre.Database.open(store) as again:
        assert sorted(again["p"]) == [("a",), ("b",)]
        assert len(again._backend.values.symbols) == 2


def test_a_rule_that_names_a_symbol_survives_a_failed_first_epoch() -> None:
    rules = '.decl n(x: number)\n.decl s(x: symbol)\n.decl p(x: symbol)\np(cat(x, "!")) :- s(x), n(y), 1 / y > 0.\n'
    with sempre.Database(rules) as db:
        with pytest.raises(sempre.DataError):
            db.apply(insert={"n": [(0,)], "s": [("a",), ("b",)]})
        db.apply(insert={"n": [(1,)], "s": [("c",)]})
        assert sorted(db["p"]) == [("c!",)]
        assert db.verify().ok


def test_what_a_question_was_told_on_demand_is_not_told_to_others() -> None:
    rules = """
    .decl at(t: number)
    .decl between(x: number, y: number)
    .decl next(x: number, y: number)
    between(x, y) :- at(x), at(z), at(y), x < z, z < y.
    next(x, y) :- at(x), at(y), x < y, !between(x, y).
    """
    with sempre.Database(rules) as db:
        db.apply(insert={"at": [(1,), (2,)]})
        assert db.whatif(insert={"at": [(3,)]}).added["between"].to_pylist() == [{"x": 1, "y": 3}]
        db.apply(insert={"at": [(9,)]})
        assert sorted(db["between"]) == [(1, 9)]


def test_an_epoch_that_is_committed_while_a_question_is_asked_is_not_mistaken_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with sempre.Database(".decl e(x: symbol)\n.decl p(x: symbol)\np(x) :- e(x).\n") as db:
        db.apply(insert={"e": [("a",)]})
        engine = db._stratified("it")
        fresh = (f"n{i}" for i in range(10))

        def overtaken(make: Callable[[], Any]) -> Callable[[], Any]:
            """As `make`, and then another thread would commit."""

            def made() -> Any:
                values = make()
                db.apply(insert={"e": [(next(fresh),)]})
                return values

            return made

        assert engine.branch is not None
        monkeypatch.setattr(engine, "branch", overtaken(engine.branch))
        assert db.whatif(insert={"e": [("w",)]}).added["p"].to_pylist() == [{"x": "w"}]
        monkeypatch.setattr(db, "_values_to_ask", overtaken(db._values_to_ask))
        assert db.query('p("nobody")').num_rows == 0
        assert ("no one",) not in db["p"]
        assert len(db["p"]) == 4
