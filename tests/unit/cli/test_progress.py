"""How far long work is: on a terminal, in a log, and nowhere."""

from __future__ import annotations

import argparse
import io
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import sempre
from sempre.cli import progress
from sempre.cli.progress import CLEAR_LINE, ProgressLine, ProgressLines, Silent, progress_of, progress_text, told_by

PROGRESS = SimpleNamespace(stratum=2, strata=5, round=1200, facts=3_000_000, seconds=4.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_says_where_it_is() -> None:
    assert progress_text(PROGRESS) == "stratum 2/5 · round 1,200 · 3,000,000 facts · 750,000 facts/s · 4 s"


def test_the_line_appears_after_two_seconds_and_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    stream = Terminal()
    line = ProgressLine(stream)
    now = 101.9
    line(PROGRESS)
    assert stream.getvalue() == ""
    now = 102.1
    line(PROGRESS)
    now = 102.15
    line(PROGRESS)
    assert stream.getvalue() == CLEAR_LINE + progress_text(PROGRESS)
    line.clear()
    line.clear()
    assert stream.getvalue().endswith(CLEAR_LINE)
    assert stream.getvalue().count(CLEAR_LINE) == 2


def test_lines_in_a_log_come_now_and_then_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    stream = io.StringIO()
    lines = ProgressLines(stream)
    for at in (101.0, 102.5, 103.0, 112.0, 112.6):
        now = at
        lines(PROGRESS)
    lines.clear()
    assert stream.getvalue() == 2 * f"{progress_text(PROGRESS)}\n"


def test_who_waits_is_told_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(progress, "WAITING_SECONDS", 0.001)
    told = threading.Event()

    class Watched(Terminal):
        def write(self, text: str) -> int:
            if "reading" in text:
                told.set()
            return super().write(text)

    stream = Watched()
    line = ProgressLine(stream)
    with line.waiting("reading"):
        assert told.wait(60)
    assert stream.getvalue().startswith(f"{CLEAR_LINE}reading · 0 s")
    assert stream.getvalue().endswith(CLEAR_LINE)
    with pytest.raises(KeyboardInterrupt), line.waiting("reading"):
        raise KeyboardInterrupt
    assert not [thread for thread in threading.enumerate() if thread.name == "sempre-progress"]


def test_where_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")

    def shown(stream: io.StringIO, **options: bool) -> type[ProgressLine]:
        monkeypatch.setattr(sys, "stderr", stream)
        return type(progress_of(argparse.Namespace(**options)))

    assert shown(Terminal(), quiet=False, progress=False) is ProgressLine
    assert shown(Terminal(), quiet=True, progress=False) is Silent
    assert shown(io.StringIO(), quiet=False, progress=False) is Silent
    assert shown(io.StringIO(), quiet=False, progress=True) is ProgressLines
    assert shown(io.StringIO()) is Silent
    assert told_by(Silent(io.StringIO())) is None


def test_the_line_is_gone_when_an_epoch_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    stream = Terminal()
    rules = (
        ".decl e(x: number, y: number) .decl p(x: number, y: number) p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z)."
    )
    with sempre.Database(rules, modules="off", progress=ProgressLine(stream)) as db:
        db.apply(insert={"e": [(x, x + 1) for x in range(9)]})
    assert "stratum 2/2 · round" in stream.getvalue()
    assert stream.getvalue().endswith(CLEAR_LINE)
