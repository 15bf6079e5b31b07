"""Workers as processes: they answer, a lost one is noticed, and none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import sempre
from sempre.diagnostics import BackendError
from sempre.workers import start
from tests.workers import on_workers

REACH = """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
.output reach
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
CHAIN = [(i, i + 1) for i in range(10)]


def processes_of(db: sempre.Database) -> list[int]:
    assert db._workers is not None
    return [int(each["process"]) for each in db._workers.report()]


def is_running(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # a zombie waits for whoever started it, and does nothing


def wait_for_the_end(processes: Sequence[int], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while any(map(is_running, processes)):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.02)


def test_two_processes_follow_changes_and_end() -> None:
    with on_workers(2, start.processes) as options, sempre.Database(REACH, **options) as db:
        changes = db.apply(insert={"edge": CHAIN})
        assert changes.report.placement == "driver, workers"
        assert len(db["reach"]) == 55
        db.apply(delete={"edge": [(4, 5)]})
        assert sorted(db["reach"]) == [(i, j) for i in range(11) for j in range(i + 1, 11) if j <= 4 or i >= 5]
        workers = processes_of(db)
        assert len({*workers, os.getpid()}) == 3
    wait_for_the_end(workers)


ALL = [(i, j) for i in range(11) for j in range(i + 1, 11)]
CUT = [(i, j) for i, j in ALL if j <= 4 or i >= 5]


def killed(db: sempre.Database, signal_: int = signal.SIGKILL) -> list[int]:
    workers = processes_of(db)
    os.kill(workers[1], signal_)
    return workers


def test_a_killed_process_is_replaced() -> None:
    with on_workers(2, start.processes) as options, sempre.Database(REACH, **options) as db:
        db.apply(insert={"edge": CHAIN})
        view, workers = db["reach"], killed(db)
        assert sorted(view) == ALL  # the state of the last epoch is there for readers
        assert not {*processes_of(db)} & {*workers}
        wait_for_the_end(workers)
        again = killed(db)
        began = time.monotonic()
        assert len(db.apply(delete={"edge": [(4, 5)]}).removed["reach"]) == 30
        assert time.monotonic() - began < 30
        assert sorted(view) == sorted(db["reach"]) == CUT
        assert db.epoch == 2
        assert db.verify().ok
        db.apply(insert={"edge": [(4, 5)]})
        assert sorted(db["reach"]) == ALL
        last = processes_of(db)
    wait_for_the_end([*again, *last])


def test_workers_that_are_lost_twice_are_an_error() -> None:
    """One retry is made; then the epoch has not happened, and the next one finds workers again."""
    with on_workers(2, start.processes) as options, sempre.Database(REACH, modules="off", **options) as db:
        db.apply(insert={"edge": CHAIN})
        assert db._workers is not None
        original = db._workers.view

        def view(*args: object, **options: object) -> object:
            killed(db)
            return original(*args, **options)  # type: ignore[arg-type]

        db._workers.view = view  # type: ignore[method-assign, assignment]
        with pytest.raises(BackendError, match="E741"):
            db.apply(insert={"edge": [(20, 21)]})
        del db._workers.view
        assert sorted(db["reach"]) == ALL
        assert len(db.apply(insert={"edge": [(20, 21)]}).added["reach"]) == 1


def test_a_process_that_stopped_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not hung up: its silence tells."""
    monkeypatch.setattr("sempre.workers.crew.SILENT_SECONDS", 2.0)
    with on_workers(2, start.processes) as options, sempre.Database(REACH, **options) as db:
        db.apply(insert={"edge": CHAIN})
        began, workers = time.monotonic(), killed(db, signal.SIGSTOP)
        assert len(db.apply(delete={"edge": [(4, 5)]}).removed["reach"]) == 30
        assert time.monotonic() - began < 30
    wait_for_the_end(workers)


DRIVER = f"""
import time, sempre
from sempre.workers import start
from tests.workers import on_workers
from tests.unit.workers.test_processes import REACH, processes_of
with on_workers(2, start.processes) as options:
    db = sempre.Database(REACH, **options)
    db.apply(insert={{"edge": {CHAIN}}})
    print(*processes_of(db), flush=True)
    time.sleep(60)
"""


def test_no_process_outlives_a_killed_driver() -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, cwd=root) as driver:
        assert driver.stdout is not None
        workers = [int(each) for each in driver.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(is_running, workers))
        driver.kill()
    wait_for_the_end(workers)
