"""A process that refreshes and publishes a store, and is killed at one of its steps; run by `test_refresh_kills`.

python -m tests.e2e.refreshing FOLDER STEP

A step is an effect on the files of the store, a rename of a published file, and what lies before and after each commit
of a published table, and of its catalog. It prints how many steps it took, if it was not killed.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path, PurePath
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

import sempre
from sempre.api.publish import publish_from_store
from sempre.files.targets.delta_target import DeltaTarget
from sempre.files.targets.iceberg_target import IcebergTarget
from sempre.files.write import Staging
from sempre.storage.disk import Disk
from sempre.storage.store import Store

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge({at}"edge"{catalog})
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
.output reach({at}"reach"{catalog}, mode=merge)
.decl node(x: symbol)
node(x) :- edge(x, _).
.output node({at}"node_changes"{catalog}, mode=changes)
"""
DELTA = PROGRAM.format(at="IO=delta, table=", catalog="")


def iceberg(folder: Path) -> str:
    """The program with tables of Iceberg, in a catalog in a folder."""
    options = "".join(f', {name}="{value}"' for name, value in catalog_of(folder).items())
    return PROGRAM.replace('{at}"', 'IO=iceberg, table="db.').format(catalog=options)


def catalog_of(folder: Path) -> dict[str, str]:
    return {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder / 'warehouse'}"}


class Steps:
    """Counts steps, and dies at one of them."""

    def __init__(self, last: int) -> None:
        self.taken = 0
        self.last = last

    def take(self) -> None:
        if self.taken == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken += 1


class CountedDisk(Disk):
    """A disk whose every effect is a step."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def step(self, what: str, path: PurePath) -> None:
        self.steps.take()


def counted(steps: Steps, function: Any) -> Any:
    """The function, with a step before it and one after it."""

    def with_steps(*args: Any, **options: Any) -> Any:
        steps.take()
        result = function(*args, **options)
        steps.take()
        return result

    return with_steps


def refresh(folder: Path, store: Any) -> None:
    """What `sempre refresh` does."""
    with sempre.Database.open(store) as db:
        changes = db.refresh()
        publish_from_store(db, str(folder / "out"), changes)


def main(folder: Path, last: int) -> None:
    steps = Steps(last)
    for target in (DeltaTarget, IcebergTarget):
        for name in ("replace", "change", "append"):
            setattr(target, name, counted(steps, getattr(target, name)))
    for name in ("create_table", "commit_table"):
        setattr(SqlCatalog, name, counted(steps, getattr(SqlCatalog, name)))
    Staging._rename = counted(steps, Staging._rename)  # type: ignore[method-assign]
    store = Store(folder / "store")
    store.disk = CountedDisk(steps)
    refresh(folder, store)
    print(steps.taken)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
