"""Ctrl-C at every moment of a commit, one by one: the epoch is there in memory and on the disk, or in neither."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import sempre
from tests.interrupts import COMMITTING, interrupted

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


# Insertions and deletions differ in how many moments they have: the last is past when both of every row came to their
# end.
ROWS = 7
ROWS_AND_WAYS = 2 * ROWS
# Where the epoch becomes durable and known, and all of it.
AT_THE_END = ("/sempre/storage/keeper.py", "/sempre/unsplit.py", "/sempre/api/epochs.py")


def left_behind(store: Path) -> set[str]:
    """The files of rows that no epoch names."""
    named = "".join(path.read_text() for path in (store / "epochs").iterdir())
    files = {
        f"{folder}/{path.name}" for folder in ("log", "segments", "programs") for path in (store / folder).iterdir()
    }
    return {name for name in files if name not in named}


# Files that were being read when the interrupt came are closed when nobody has them any more.
@pytest.mark.folder
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("files", [AT_THE_END, pytest.param(COMMITTING, marks=pytest.mark.slow)])
def test_every_moment_of_an_epoch(files: tuple[str, ...], tmp_path: Path) -> None:
    store, outcomes, unsent = tmp_path / "store", {"before": 0, "after": 0}, 0
    with sempre.Database(PROGRAM, store=store, modules="off") as db:
        db.apply(insert={"edge": [("a", "b"), ("b", "c")]})
        for moment in range(5_000):
            last, row = db.epoch, (f"n{moment % ROWS}", "a")
            change = {"delete": {"edge": [row]}} if row in db["edge"] else {"insert": {"edge": [row]}}
            before = set(db["edge"])
            sent = interrupted(partial(db.apply, **change), moment, files)
            unsent = 0 if sent.sent else unsent + 1
            if unsent == ROWS_AND_WAYS:
                break
            if not sent.sent:
                continue
            happened = db.epoch == last + 1
            outcomes["after" if happened else "before"] += 1
            assert set(db["edge"]) == (before ^ {row} if happened else before), sent
            with sempre.Database.open(store) as fresh:
                assert fresh.epoch == db.epoch, sent
                assert set(fresh["edge"]) == set(db["edge"]), sent
                assert set(fresh["reach"]) == set(db["reach"]), sent
            assert not left_behind(store), sent
        assert db.verify().ok
    assert outcomes["before"] > 50, outcomes
    assert outcomes["after"] > 2, outcomes
