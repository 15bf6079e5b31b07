"""A disk without room: a clear error, the last epoch intact, and the next apply works."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.storage.disk import Disk
from sempre.storage.store import Store
from tests.disks import FullDisk

pytestmark = pytest.mark.folder

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
BEFORE = [("a", "b"), ("b", "c")]


def steps_of_an_epoch(path: Path) -> tuple[int, int]:
    disk = FullDisk(1 << 60)
    with sempre.Database(PROGRAM, store=Store(path, disk)) as db:
        db.apply(insert={"edge": BEFORE})
        before = disk.steps
        db.apply(insert={"edge": [("c", "d")]}, delete={"edge": [("a", "b")]})
        return before, disk.steps - 1  # the last is the note in `HEAD`, which may fail


def test_no_room_at_any_step(tmp_path: Path) -> None:
    start, end = steps_of_an_epoch(tmp_path / "counted")
    assert end - start >= 8
    for room in range(start, end):
        path, disk = tmp_path / str(room), FullDisk(room)
        with sempre.Database(PROGRAM, store=Store(path, disk)) as db:
            db.apply(insert={"edge": BEFORE})
            with pytest.raises(sempre.StateError, match="no space left on device") as raised:
                db.apply(insert={"edge": [("c", "d")]}, delete={"edge": [("a", "b")]})
            assert raised.value.diagnostics[0].code == "E606"
            assert (db.epoch, set(db["reach"])) == (1, {("a", "b"), ("a", "c"), ("b", "c")})
            with sempre.Database(PROGRAM, store=path) as reader:
                assert (reader.epoch, set(reader["edge"])) == (1, set(BEFORE))
            disk.cleared()
            db.apply(insert={"edge": [("c", "d")]})
            assert db.epoch == 2
        check_files(path)
        with sempre.Database(PROGRAM, store=path) as db:
            assert set(db["edge"]) == {*BEFORE, ("c", "d")}
            assert db.verify().ok


def test_a_disk_that_cannot_even_remove(tmp_path: Path) -> None:
    """Nobody knows what a restart would find: the database refuses until the store is opened again."""
    _, end = steps_of_an_epoch(tmp_path / "counted")
    disk = FullDisk(end - 1, dead=True)
    with sempre.Database(PROGRAM, store=Store(tmp_path / "store", disk)) as db:
        db.apply(insert={"edge": BEFORE})
        with pytest.raises(sempre.StateError, match="no space left"):
            db.apply(insert={"edge": [("c", "d")]}, delete={"edge": [("a", "b")]})
        disk.cleared()
        with pytest.raises(sempre.StateError, match="could not be written to before"):
            db.apply(insert={"edge": [("c", "d")]})
    with sempre.Database(PROGRAM, store=tmp_path / "store") as db:
        assert db.verify().ok
        db.apply(insert={"edge": [("c", "d")]})
    check_files(tmp_path / "store")


class Crammed(Disk):
    """Takes no more data after so many writes; removing and syncing work."""

    def __init__(self, writes: int) -> None:
        self.writes = writes

    def write_some(self, handle: int, path: PurePath, data: memoryview) -> int:
        self.writes -= 1
        if self.writes < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return super().write_some(handle, path, data)


@pytest.mark.parametrize("writes", range(4))
def test_a_vacuum_makes_room_where_there_is_none(tmp_path: Path, writes: int) -> None:
    with sempre.Database(PROGRAM, store=tmp_path) as db:
        for i in range(5):
            db.apply(insert={"edge": [(f"n{i}", f"n{i + 1}")]})
        reach = set(db["reach"])
    freed, _ = vacuum(Store(tmp_path, Crammed(writes)))
    assert freed > 0
    assert Store(tmp_path).epochs() == [5]
    check_files(tmp_path)
    with sempre.Database.open(tmp_path) as db:
        assert set(db["reach"]) == reach
        assert db.verify().ok


LIMITED = """
import random, resource, signal, sys
import sempre
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
program = ".decl n(x: number)"
with sempre.Database(program, store=sys.argv[1]) as db:
    db.apply(insert={"n": [1, 2, 3]})
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    try:
        db.apply(insert={"n": [random.getrandbits(60) for _ in range(20_000)]})
    except sempre.StateError as error:
        print(error.diagnostics[0].message)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    db.apply(insert={"n": [4]})
    print(db.epoch, sorted(db["n"]))
"""


def test_the_real_file_system_with_a_limit(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("cannot write")
    assert first.endswith("file too large")
    assert second == "2 [(1,), (2,), (3,), (4,)]"
    check_files(tmp_path / "store")
