"""What a stopwatch leaves out."""

from __future__ import annotations

import time

import pytest

from sempre.kernel import compiled
from sempre.maintain.stopwatch import Stopwatch


def test_waiting_is_no_work() -> None:
    watch = Stopwatch()
    time.sleep(0.5)
    assert watch.passed >= 0.5
    assert watch.seconds < 0.4


def test_work_of_several_threads_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch()
    monkeypatch.setattr(time, "process_time", lambda: watch._processor + 100.0)
    assert watch.seconds < 50


@pytest.mark.parametrize(("before", "left_out"), [(0.0, 3.0), (2.0, 1.0), (9.0, 0.0)])
def test_loading_beside_the_work_is_none(before: float, left_out: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three seconds of loading, so many of them before the watch was started; work goes on for ten."""
    monkeypatch.setattr(compiled, "_took", {})
    monkeypatch.setattr(compiled, "_when", {})
    watch = Stopwatch()
    watch._clock -= 10.0
    watch._processor -= 10.0
    assert watch.seconds == pytest.approx(10.0, abs=0.5)
    compiled._when[compiled.LOOPS] = (watch._clock - before, watch._clock - before + 3.0)
    compiled._took[compiled.LOOPS] = 3.0
    assert watch.seconds == pytest.approx(10.0 - left_out, abs=0.5)


def test_no_work_takes_less_than_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_when", {compiled.LOOPS: (time.perf_counter(), time.perf_counter() + 1.0)})
    monkeypatch.setattr(compiled, "_took", {compiled.LOOPS: 5.0})
    assert Stopwatch().seconds == 0
