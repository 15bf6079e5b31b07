"""Refreshes of stores that are killed at one step after the other; run by `test_refresh_kills`.

python -m tests.e2e.refreshing FOLDER KIND SEED KILLS [STRIDE]

A step is an effect on the files of the store, a rename of a published file, and what lies before and after each commit
of a published table, each statement of a database, and each file and commit of a catalog. This process only forks, so
that no child spends its life on imports. One child changes the source and refreshes, and dies at a step; every third
time the one that makes up for it dies, too. Then another refreshes and looks: the store and everything outside have
what the source says, each once. The steps are taken in turn, and the last line says how often each was died at.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import pyarrow.parquet
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile

import sempre
import sempre.storage.keeper
import sempre.verify
from sempre.api.publish import publish_from_store
from sempre.files.targets.delta_target import DeltaTarget
from sempre.files.targets.iceberg_target import IcebergTarget
from sempre.files.targets.sql_target import SqlTarget
from sempre.files.targets.sqlite_target import SqliteConnection
from sempre.files.write import Staging
from sempre.kernel import compiled
from sempre.storage.disk import Disk
from sempre.storage.store import Store
from tests.e2e.lakes import LAKES, Edge, Lake

# Loaded once, before the first fork.
LOADED = (pyarrow.parquet, sempre.verify, sempre.storage.keeper)
NODES = "abcdef"
Tell = Callable[[str], None]


class Steps:
    """Counts steps, and dies at one of them; without one to die at, it tells all that there are."""

    def __init__(self, last: int | None, tell: Tell) -> None:
        self.taken: list[str] = []
        self.last = last
        self.tell = tell

    def take(self, name: str) -> None:
        if len(self.taken) == self.last:
            self.tell(f"died {name}")
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken.append(name)


class CountedDisk(Disk):
    """A disk whose every effect is a step."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def step(self, what: str, path: PurePath) -> None:
        is_inside = path.parent.name in ("epochs", "log", "segments", "programs")
        self.steps.take(f"{what} {path.parent.name if is_inside else path.name}")


def count(steps: Steps, owner: type, *names: str) -> None:
    """Make a step of what lies before each of some methods, and of what lies after it."""
    for name in names:
        setattr(owner, name, _counted(steps, f"{owner.__name__}.{name}", getattr(owner, name)))


def _counted(steps: Steps, name: str, function: Any) -> Any:
    def with_steps(*args: Any, **options: Any) -> Any:
        steps.take(f"before {name}")
        result = function(*args, **options)
        steps.take(f"after {name}")
        return result

    return with_steps


def refresh(folder: Path, store: Any) -> None:
    """What `sempre refresh` does."""
    with sempre.Database.open(store) as db:
        changes = db.refresh()
        publish_from_store(db, str(folder / "out"), changes)


def counted_refresh(folder: Path, steps: Steps) -> None:
    """The same, in a process that may die of it."""
    for target in (DeltaTarget, IcebergTarget, SqlTarget):
        count(steps, target, "replace", "change", "append")
    count(steps, SqliteConnection, "make", "stage", "begin", "run")
    count(steps, SqlCatalog, "create_table", "commit_table")
    count(steps, PyArrowFile, "create")
    count(steps, Staging, "_rename")
    store = Store(folder / "store")
    store.disk = CountedDisk(steps)
    refresh(folder, store)
    for name in steps.taken:
        steps.tell(f"passed {name}")


# ---------------------------------------------------------------------------------------------------- the children


def begin(folder: Path, kind: str, edges: list[Edge], tell: Tell) -> None:
    (folder / "out").mkdir(parents=True)
    lake = LAKES[kind](folder)
    lake.make(edges)
    with sempre.Database(lake.program, store=folder / "store") as db:
        db.refresh(folder / "facts")


def change_and_die(folder: Path, kind: str, change: Callable[[Lake], None], last: int, tell: Tell) -> None:
    change(LAKES[kind](folder))
    counted_refresh(folder, Steps(last, tell))


def die_again(folder: Path, last: int, tell: Tell) -> None:
    counted_refresh(folder, Steps(last, tell))


def recover(folder: Path, kind: str, edges: list[Edge], tell: Tell) -> None:
    """Everything is what the source says, in the store and outside."""
    refresh(folder, folder / "store")
    lake = LAKES[kind](folder)
    reach = set(edges)
    while more := {(x, z) for x, y in reach for a, z in edges if a == y} - reach:
        reach |= more
    with sempre.Database.open(folder / "store") as db:
        assert set(db["edge"]) == set(edges)
        assert set(db["reach"]) == reach
        assert db.verify().ok
    found = Counter((row["x"], row["y"]) for row in lake.read("reach"))
    assert found == Counter(reach), (found, reach)
    lines = (folder / "out/reach.csv").read_text().splitlines()
    assert sorted(lines) == sorted(f"{x}\t{y}" for x, y in reach)
    total: Counter[str] = Counter()
    for row in lake.read("node_changes"):
        total[row["x"]] += 1 if row["_change"] == "added" else -1
    assert +total == Counter({x for x, _ in edges}), total
    assert not -total, total


def in_child(work: Callable[[Tell], None]) -> tuple[int, list[str]]:
    """Run `work` in a child; its status, and the lines that it told."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            work(lambda line: _tell(writing, line))
            status = 0
        except BaseException:  # noqa: BLE001  # it ends here, whatever it is, and must be seen
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().split("\n")[:-1]
    return os.waitpid(child, 0)[1], lines


def _tell(out: int, line: str) -> None:
    os.write(out, f"{line}\n".encode())


def changed(rng: random.Random, edges: list[Edge]) -> tuple[Callable[[Lake], None], list[Edge]]:
    """A change of the source, and the edges after it."""
    if rng.random() < 0.5:
        more = [(rng.choice(NODES), rng.choice(NODES)) for _ in range(3)]
        return lambda lake: lake.append(more), edges + more
    gone = rng.choice(edges)
    left = [each for each in edges if each != gone]
    if not left:
        return lambda lake: lake.append([("a", "b")]), [*edges, ("a", "b")]
    return lambda lake: lake.delete(gone), left


def main(folder: Path, kind: str, seed: int, kills: int, stride: int = 1) -> None:
    compiled.load(wait=True)
    rng = random.Random(seed)
    edges: list[Edge] = [("a", "b"), ("b", "c"), ("a", "b")]
    status, _ = in_child(partial(begin, folder, kind, edges))
    assert status == 0, status
    died: Counter[str] = Counter()
    passed: set[str] = set()
    last, killed = seed % stride, 0
    while killed < kills:
        change, edges = changed(rng, edges)
        status, lines = in_child(partial(change_and_die, folder, kind, change, last))
        ended = _note(status, lines, died, passed)
        killed, last = (killed, rng.randrange(stride)) if ended else (killed + 1, last + stride)
        if not ended and rng.random() < 0.3:
            status, lines = in_child(partial(die_again, folder, rng.randrange(last + 1)))
            killed += not _note(status, lines, died, passed)
        status, _ = in_child(partial(recover, folder, kind, edges))
        assert status == 0, f"after {killed} kills, the last at {last - stride}: {lines[-1:]}"
    missed = sorted(passed - set(died))
    print(f"killed {killed} at {len(died)} different steps: {dict(sorted(died.items()))}; not at {missed}")


def _note(status: int, lines: list[str], died: Counter[str], passed: set[str]) -> bool:
    """Whether a refresh came to its end."""
    for line in lines:
        word, _, name = line.partition(" ")
        if word == "died":
            died[name] += 1
        else:
            passed.add(name)
    assert status == 0 or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL), status
    return status == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *(int(word) for word in sys.argv[3:]))
