"""What a stopwatch leaves out."""

from __future__ import annotations

import time

import pytest

from sempre.kernel import compiled
from sempre.maintain.stopwatch import SPARED, Stopwatch


def test_waiting_is_no_work() -> None:
    watch = Stopwatch()
    time.sleep(0.2)
    assert watch.passed >= 0.2
    assert watch.seconds < 0.1


def test_work_of_several_threads_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch()
    monkeypatch.setattr(time, "process_time", lambda: watch._processor + compiled.loading_seconds() + 100.0)
    assert watch.seconds < 50


def test_loading_beside_the_work_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch()
    watch._clock -= 9.0
    watch._processor -= 9.0
    before = watch.seconds
    monkeypatch.setitem(compiled._took, compiled.LOOPS, compiled._took.get(compiled.LOOPS, 0.0) + 3.0)
    assert watch.seconds == pytest.approx(before - 3.0, abs=0.5)
    monkeypatch.setitem(compiled._when, compiled.LOOPS, (watch._clock - 1.0, watch._clock + 3.0))
    assert watch.warm_seconds == pytest.approx(watch.seconds - 3.0 * SPARED, abs=0.5)
