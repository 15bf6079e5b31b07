"""Stores on S3, by a server that speaks it, and in memory: nothing announced is lost, nothing is half done."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import fsspec
import pytest

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.cli import main
from sempre.limits import Limits
from sempre.storage.object_disk import ObjectDisk, RenamingDisk, remote_disk
from sempre.storage.store import Store
from tests.inside import keeper_of
from tests.s3_server import BUCKET, ENVIRONMENT, S3Server
from tests.unit.storage import test_stores

RULES = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
edge("a", "b").
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
SMALL_PIECES = Limits(shared_rows=2, merged_pieces=3)
Edges = list[tuple[str, str]]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        found = S3Server()
        for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": found.url}.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()
        yield found
        found.close()
        fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture
def s3(server: S3Server) -> str:
    return f"s3://{BUCKET}/store{next(_numbers)}"


@pytest.fixture(params=["s3", "memory"])
def place(request: pytest.FixtureRequest, server: S3Server) -> str:
    return f"s3://{BUCKET}/store{next(_numbers)}" if request.param == "s3" else f"memory://store{next(_numbers)}"


def database(place: str | Store) -> sempre.Database:
    return sempre.Database(RULES, store=place, limits=SMALL_PIECES, modules="off")


def on(disk_class: type[ObjectDisk], place: str) -> Store:
    """A store at a place, with another disk."""
    usual = remote_disk(place)[2]
    return Store(place, disk_class(usual.files, usual._protocol), SMALL_PIECES)


def edges_at(place: str) -> tuple[int, Edges]:
    """The epoch and the edges, when everything that is there is sound."""
    check_files(place)
    with database(place) as db:
        assert db.verify().ok
        return db.epoch, sorted(db["edge"])


def code(work: Callable[[], object]) -> str:
    with pytest.raises(sempre.SempreError) as raised:
        work()
    return str(raised.value.diagnostics[0].code)


def test_a_store_goes_on_where_it_is(place: str) -> None:
    with database(place) as db:
        assert not Store(place).exists, "nothing is written before there is something to keep"
        for number in range(9):
            db.apply(insert={"edge": [("b", f"n{number}")]}, delete={"edge": [("b", f"n{number - 1}")]})
        with db.at_epoch(3) as past:
            assert sorted(past["edge"]) == [("a", "b"), ("b", "n2")]
    assert edges_at(place) == (9, [("a", "b"), ("b", "n8")])
    with sempre.Database.open(place) as db:
        assert db.query('reach("a", X)').to_pydict() == {"X": ["b", "n8"]}
        assert 'sempre_facts{relation="edge"} 2' in db.metrics()


def test_vacuum_is_an_epoch_of_its_own(place: str) -> None:
    with database(place) as db, database(place) as reader, database(place) as behind:
        for number in range(5):
            db.apply(insert={"edge": [("b", f"n{number}")]}, delete={"edge": [("b", f"n{number - 1}")]})
        reader = database(place)
        freed, left = vacuum(Store(place, limits=SMALL_PIECES))
        assert freed > left > 0
        assert code(lambda: len(reader["reach"])) == "E609", "what it reads is gone"
        assert code(lambda: db.apply(insert={"edge": [("x", "y")]})) == "E609", "codes have other meanings now"
        assert code(lambda: behind.apply(insert={"edge": [("x", "y")]})) == "E609"
    assert edges_at(place) == (6, [("a", "b"), ("b", "n4")])
    store = Store(place)
    assert (store.epochs(), store.manifest().lists["symbols"]) == ([6], 3)
    with database(place) as db:
        db.apply(insert={"edge": [("x", "y")]})
    assert vacuum(place, keep=2)[1] > 0
    assert Store(place).epochs() == [6, 7]


def test_files_that_nothing_can_name_any_more_go_with_a_vacuum(s3: str, server: S3Server) -> None:
    with database(s3) as db:
        db.apply(insert={"edge": [("b", "c")]})
        dying, running = on(Dying, s3), Store(s3)
        assert isinstance(dying.disk, Dying)
        with database(dying) as dead:
            dying.disk.left = 2  # the lock, and a file
            with pytest.raises(Died):
                dead.apply(insert={"edge": [("lost", "lost")]})
        folder = s3.removeprefix(f"s3://{BUCKET}/")
        files = [name for name in server.names(folder) if "0000000002." in name]
        assert len(files) == 1, "of one that died, or is still writing: who knows"
        vacuum(running, keep=2)
        assert [name for name in server.names(folder) if "0000000002." in name] == files
        db.apply(insert={"edge": [("c", "d")]})
    vacuum(running, keep=3)
    assert not set(files) & set(server.names(folder))
    assert edges_at(s3) == (2, [("a", "b"), ("b", "c"), ("c", "d")])


# ------------------------------------------------------------------------------------------------- dying, racing


class Died(BaseException):
    """The process is gone: nothing that it would do happens any more."""


class Dying(ObjectDisk):
    """Dies after `left` effects; an effect that has happened and was not answered is one more moment to die at."""

    left = 1 << 60

    def step(self, what: str, path: PurePath) -> None:
        if self.left <= 0:
            raise Died
        self.left -= 1


class DyingAfter(Dying):
    """Dies when the last effect has happened, before its answer."""

    def create(self, path: PurePath, data: bytes) -> None:
        super().create(path, data)
        if self.left == 0:
            raise Died

    def write(self, path: PurePath, data: Any, fresh: bool = False) -> None:
        super().write(path, data, fresh)
        if self.left == 0:
            raise Died


@pytest.mark.parametrize("kind", [Dying, DyingAfter])
@pytest.mark.parametrize(("system", "attempts"), [("memory", 60), ("s3", 7)])
def test_a_writer_that_dies_at_any_step(kind: type[Dying], system: str, attempts: int, server: S3Server) -> None:
    """As often as there are steps, each time in an epoch of its own; and in a vacuum."""
    place = f"{system}://{BUCKET}/store{next(_numbers)}"
    told, expected, deaths, left, finished = -1, {("a", "b")}, 0, 0, 0
    for attempt in range(attempts):
        store = on(kind, place)
        assert isinstance(store.disk, Dying)
        store.disk.left = left
        row = ("b", f"n{attempt}")
        try:
            with database(store) as db:
                db.apply(insert={"edge": [row]}, delete={"edge": [("b", f"n{attempt - 2}")]})
                told = db.epoch
            if attempt % 2:
                vacuum(store)
                told += 1
            left, finished = 0, finished + 1
        except Died:
            deaths, left = deaths + 1, left + 1
        if not Store(place).exists:
            continue
        epoch, found = edges_at(place)
        expected |= {row} if row in found else set()
        expected -= {("b", f"n{attempt - 2}")} if ("b", f"n{attempt - 2}") not in found else set()
        assert told <= epoch <= told + 2, "what was announced is there"
        assert set(found) == expected, "the epoch under way is there as a whole or not at all"
        told = epoch
    assert deaths >= attempts // 2
    assert finished >= attempts // 12


def test_writers_that_race(place: str) -> None:
    """Each opens the store again when another was first; every epoch that was announced is there."""
    writers, rounds = 3, 2
    refused: list[str] = []
    with database(place) as db:
        db.apply()

    def write(writer: int) -> None:
        for number in range(rounds):
            while True:
                with database(place) as db:
                    try:
                        db.apply(insert={"edge": [(f"w{writer}", f"n{number}")]})
                        break
                    except sempre.StateError as error:
                        refused.append(str(error.diagnostics[0].code))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    epoch, edges = edges_at(place)
    assert set(refused) <= {"E609"}
    assert epoch == 1 + writers * rounds, "one epoch for each that was announced"
    assert len(edges) == 1 + writers * rounds


def test_two_that_have_the_same_epoch_open(place: str) -> None:
    """Both are writers; the one that commits first is the one that has."""
    with database(place) as one, database(place) as other:
        one.apply(insert={"edge": [("x", "y")]})
        assert code(lambda: other.apply(insert={"edge": [("x", "z")]})) == "E609"
    with database(place) as one, database(place) as other:
        for each in (one, other):
            keeper_of(each).begin(each._engine.snapshot)
        one.apply(insert={"edge": [("x", "1")]})
        with pytest.raises(sempre.StateError, match=r"another writer has committed epoch 2"):
            other.apply(insert={"edge": [("x", "2")]})
    assert edges_at(place) == (2, [("a", "b"), ("x", "1"), ("x", "y")])
    names = [PurePath(name).name for name in remote_disk(place)[2].files.find(str(Store(place).path))]
    named = [PurePath(file.path).name for file in Store(place).manifest(2).files]
    assert {name for name in names if name[:11] == "0000000002."} <= {*named, "0000000002.manifest"}, "the loser's went"


class Slow(ObjectDisk):
    """Lets others go on before it puts a manifest."""

    before_commit: Callable[[], None] = staticmethod(lambda: None)

    def commit(self, staged: PurePath, path: PurePath, data: bytes) -> None:
        wait, self.before_commit = self.before_commit, lambda: None
        wait()
        super().commit(staged, path, data)


def test_a_writer_that_slept_while_its_epoch_was_vacuumed(place: str) -> None:
    """The name is free again, and the epoch is one of the past: it must not be announced."""
    store = on(Slow, place)
    assert isinstance(store.disk, Slow)

    def others() -> None:
        for number in range(3):
            with database(place) as db:
                db.apply(insert={"edge": [("other", f"n{number}")]})
        vacuum(place)

    with database(store) as db:
        db.apply(insert={"edge": [("x", "y")]})
        store.disk.before_commit = others
        assert code(lambda: db.apply(insert={"edge": [("late", "late")]})) == "E609"
    epoch, edges = edges_at(place)
    assert (epoch, len(edges)) == (5, 5)
    assert Store(place).epochs() == [5]


# ----------------------------------------------------------------------------------------------------- the wire


def test_answers_that_are_lost(s3: str, server: S3Server) -> None:
    """The client asks again, and meets what it has put itself."""
    with database(s3) as db:
        db.apply(insert={"edge": [("a", "start")]})
        lost: list[str] = []

        def fault(method: str, path: str) -> str:
            if method != "PUT" or path in lost:
                return ""
            lost.append(path)
            return "lost"

        with server.failing(fault):
            for number in range(3):
                db.apply(insert={"edge": [("b", f"n{number}")]})
        assert sum("manifest" in path for path in lost) == 3
    epoch, edges = edges_at(s3)
    assert (epoch, len(edges)) == (4, 5)
    assert Store(s3).epochs()[-1] == 4


def test_a_service_that_asks_to_slow_down(s3: str, server: S3Server) -> None:
    counts: dict[tuple[str, str], int] = {}

    def fault(method: str, path: str) -> str:
        counts[method, path] = counts.get((method, path), 0) + 1
        return "slow down" if counts[method, path] == 1 and "0000000001." in path else ""

    with server.failing(fault), database(s3) as db:
        db.apply(insert={"edge": [("b", "c")]})
    assert edges_at(s3)[1] == [("a", "b"), ("b", "c")]
    assert max(counts.values()) > 1


def test_lists_that_are_old(s3: str, server: S3Server) -> None:
    """A list of the epochs may be behind; what was announced is found all the same."""
    with database(s3) as db:
        db.apply(insert={"edge": [("b", "c")]})
        with server.old_lists():
            assert Store(s3).epochs()[-1] == 1
            for number in range(3):
                db.apply(insert={"edge": [("c", f"n{number}")]})
            with database(s3) as fresh:
                assert (fresh.epoch, len(fresh["edge"])) == (4, 5)
                db.close()
                fresh.apply(insert={"edge": [("x", "y")]})
            assert edges_at(s3)[0] == 5
    assert edges_at(s3)[0] == 5


class Unanswered(ObjectDisk):
    """Manifests are put without an answer; whether they arrive is `arrives`: at once, later, or never."""

    arrives = "never"
    late: Callable[[], None] = staticmethod(lambda: None)

    def create(self, path: PurePath, data: bytes) -> None:
        if path.suffix != ".manifest" or self.arrives == "":
            super().create(path, data)
            return
        if self.arrives == "at once":
            super().create(path, data)
        else:
            self.late = lambda: ObjectDisk.create(self, path, data)
        raise TimeoutError(110, "no answer", str(path))


@pytest.mark.parametrize("arrives", ["at once", "later", "never"])
def test_a_put_without_an_answer(arrives: str, place: str) -> None:
    store = on(Unanswered, place)
    assert isinstance(store.disk, Unanswered)
    store.disk.arrives = ""
    with database(store) as db:
        db.apply(insert={"edge": [("b", "c")]})
        store.disk.arrives = arrives
        if arrives == "at once":
            db.apply(insert={"edge": [("c", "d")]})
        else:
            with pytest.raises(sempre.StateError, match="nobody can tell whether epoch 2") as raised:
                db.apply(insert={"edge": [("c", "d")]})
            assert raised.value.diagnostics[0].code == "E606"
            assert db.epoch == 1
            assert code(lambda: db.apply(insert={"edge": [("e", "f")]})) == "E606", "not before it was opened again"
        if arrives == "later":
            store.disk.late()
    assert edges_at(place)[0] == (1 if arrives == "never" else 2)


def test_requests_that_fail_for_good(server: S3Server, tmp_path: Any) -> None:
    assert code(lambda: database(f"s3://nobody-has-this-{os.getpid()}/store").apply()) == "E606"


def test_a_service_that_knows_no_conditions(place: str) -> None:
    class Careless(ObjectDisk):
        def create(self, path: PurePath, data: bytes) -> None:
            self.write(path, data)

    with pytest.raises(sempre.StateError, match="puts objects that exist already") as raised:
        database(on(Careless, place)).apply()
    assert raised.value.diagnostics[0].code == "E608"


def test_a_system_that_renames(server: S3Server) -> None:
    place = f"memory://renaming{next(_numbers)}"
    with database(on(RenamingDisk, place)) as db:
        db.apply(insert={"edge": [("b", "c")]})
        with database(on(RenamingDisk, place)) as other:
            other.apply(insert={"edge": [("b", "d")]})
        assert code(lambda: db.apply(insert={"edge": [("b", "e")]})) == "E609"
    assert edges_at(place) == (2, [("a", "b"), ("b", "c"), ("b", "d")])


# -------------------------------------------------------------------------------------------------- the command


def test_the_commands(s3: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    program, changes = tmp_path / "reach.dl", tmp_path / "monday.txt"
    program.write_text(RULES)
    changes.write_text('+edge("b", "c").\ncommit.\n-edge("a", "b").\ncommit.\n')

    def said(*words: str) -> str:
        assert main(list(words)) == 0
        return capsys.readouterr().out

    assert said("init", s3, str(program)).startswith("epoch 0: edge +1 -0")
    assert "epoch 2: edge +0 -1" in said("apply", s3, str(changes))
    assert said("query", s3, 'reach("b", X)') == "X\nc\n"
    assert said("query", s3, 'reach("a", X)', "--epoch", "1") == "X\nb\nc\n"
    assert said("verify", s3).startswith("ok: epoch 2")
    assert len(said("history", s3).splitlines()) == 3
    assert "freed" in said("vacuum", s3)
    assert said("history", s3).split("\t")[2] == "vacuum"
    assert main(["init", s3, str(program)]) == 1
    assert "E611" in capsys.readouterr().err


@pytest.mark.parametrize(
    "test",
    [
        test_stores.test_a_database_goes_on_where_the_store_is,
        pytest.param(test_stores.test_past_epochs, marks=pytest.mark.slow),
        test_stores.test_a_failed_epoch_is_not_stored,
        pytest.param(test_stores.test_what_does_not_matter_may_change, marks=pytest.mark.slow),
        test_stores.test_another_program_is_refused_and_says_what_changed,
        pytest.param(test_stores.test_migration_keeps_explicit_facts, marks=pytest.mark.slow),
        pytest.param(test_stores.test_migration_to_the_same_program_does_nothing, marks=pytest.mark.slow),
        pytest.param(test_stores.test_whatif_keeps_nothing, marks=pytest.mark.slow),
        pytest.param(test_stores.test_queries_of_relations_that_are_not_in_memory, marks=pytest.mark.slow),
    ],
    ids=lambda test: test.__name__.removeprefix("test_"),
)
def test_what_holds_of_a_folder_holds_of_a_bucket(test: Callable[[Any], None], s3: str) -> None:
    test_stores.filled(s3)
    test(s3)
