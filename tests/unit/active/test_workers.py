"""Databases whose active rules run on workers: threads and processes, failures, stores, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import sempre
from sempre.active import hired_run
from sempre.active.cycle_process import MODULE
from sempre.active.cycle_worker import CycleWorker
from sempre.active.hired_run import SYNCHRONOUS, HiredRun
from sempre.workers import start
from sempre.workers.crew import Crew, WorkersLost
from tests.unit.active.test_stores import FIRST, RULES, up
from tests.workers import UnusedSession

ACTIVE = RULES + '.pragma "semantics" "active"\n'
NAMES = ACTIVE + ".decl pair(x: symbol)\npair(cat(x, y)) :- up(x), up(y), link(x, _)."


def threads(checked: Any, workers: int, driver: Any) -> Crew:
    return start.threads(checked, workers, driver.values, driver.limits, CycleWorker)


def processes(checked: Any, workers: int, driver: Any) -> Crew:
    return start.processes(checked, workers, driver.values, driver.limits, MODULE)


@contextmanager
def on_workers(starting: Callable[..., Crew] = threads, workers: int = 2) -> Iterator[dict[str, Any]]:
    """The options of databases whose workers are started so."""

    def hire(spark: Any, checked: Any, count: int, driver: Any) -> Crew:
        return starting(checked, count, driver)

    with patch("sempre.api.epochs.hire_for_cycles", hire):
        yield {"place": "workers", "workers": workers, "spark": UnusedSession()}


@pytest.mark.parametrize(("starting", "workers"), [(threads, 1), (threads, 3), (processes, 2)])
def test_the_first_run_is_on_workers(starting: Callable[..., Crew], workers: int) -> None:
    with on_workers(starting, workers) as options, sempre.Database(NAMES, **options) as db:
        changes = db.materialise(FIRST)
        assert changes.report.placement == "workers"
        assert (up(db), len(db["pair"]), up(db.at_cycle(1))) == ("abcd", 12, "ab")
        assert changes.added["up"].num_rows == 4
        assert db.verify().ok
        changes = db.apply(insert={"down": [("c",)]}, cycle=1)
        assert (changes.report.placement, up(db)) == ("driver", "ab")
        assert db.verify().ok


def test_workers_may_go_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hired_run.on_workers, "__defaults__", (SYNCHRONOUS,))
    asked: list[int] = []
    original = HiredRun.timeline

    def timeline(run: HiredRun, given: Any) -> Any:
        asked.append(run.asked)
        return original(run, given)

    monkeypatch.setattr(HiredRun, "timeline", timeline)
    with on_workers() as options, sempre.Database(NAMES, **options) as db:
        db.materialise(FIRST)
        assert asked[0] >= db.cycle
        assert db.verify().ok


def test_what_there_is_in_a_store_came_from_workers(tmp_path: Path) -> None:
    with on_workers() as options, sempre.Database(NAMES, store=tmp_path / "s", **options) as db:
        db.materialise(FIRST)
    with sempre.Database.open(tmp_path / "s") as db:
        assert (up(db), up(db.at_cycle(2))) == ("abcd", "abc")
        assert db.verify().ok


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("up(x) :- link(x, _), !up(x). -up(x) :- up(x).", "with a period of 2"),
        (".decl n(x: number)\nn(1). n(x + 1) :- n(x).", "after 100 cycles"),
        (".decl n(x: number)\nn(3). n(6 / (x - 1)) :- n(x). n(x - 1) :- n(x).", "E510"),
    ],
)
def test_what_has_no_end_or_fails_is_told_as_in_one_process(rule: str, error: str) -> None:
    with on_workers() as options, sempre.Database(ACTIVE + rule, cycles=100, **options) as db:
        with pytest.raises(sempre.DataError, match=error):
            db.materialise(FIRST)
        assert db._engine.snapshot.epoch == -1


def test_a_worker_that_is_lost_is_replaced_once() -> None:
    hired: list[Crew] = []

    def failing(checked: Any, workers: int, driver: Any) -> Crew:
        crew = threads(checked, workers, driver)
        hired.append(crew)
        if len(hired) < 2:
            crew._channels[1].close()
        return crew

    with on_workers(failing) as options, sempre.Database(NAMES, **options) as db:
        db.materialise(FIRST)
        assert (len(hired), up(db)) == (2, "abcd")
    hired.clear()

    def always(checked: Any, workers: int, driver: Any) -> Crew:
        crew = failing(checked, workers, driver)
        crew._channels[0].close()
        return crew

    with on_workers(always) as options, sempre.Database(NAMES, **options) as db:
        with pytest.raises(WorkersLost):
            db.materialise(FIRST)
        assert db._engine.snapshot.epoch == -1


def test_places_that_there_are_not_are_refused() -> None:
    with pytest.raises(sempre.BackendError, match="needs a Spark session"):
        sempre.Database(ACTIVE, place="workers")
    with pytest.raises(sempre.StateError, match="place `cluster` is for stratified rules"):
        sempre.Database(ACTIVE, place="cluster", spark=UnusedSession())
    with pytest.raises(sempre.BackendError, match="no use for `workers` here"):
        sempre.Database(ACTIVE, workers=2, spark=UnusedSession())
