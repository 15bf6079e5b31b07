"""Color and the progress line."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest

from sempre.cli import terminal
from sempre.cli.terminal import ProgressLine, paint, progress_text, wants_color

PROGRESS = SimpleNamespace(stratum=2, strata=5, round=1200, facts=3_000_000, seconds=4.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_color_marks_the_parts_and_keeps_the_text() -> None:
    text = "error[E502]: bad\n  --> r.facts:2:1\n 2 | 3\n   | ^\nhint: mend it\nwarning[W501]: hm"
    painted = paint(text)
    assert "\x1b[1;31merror[E502]:\x1b[0m bad" in painted
    assert "\x1b[36mhint:\x1b[0m mend it" in painted
    assert "\x1b[1;33mwarning[W501]:\x1b[0m hm" in painted
    for color in ("1;31", "36", "1;33", "34", "0"):
        painted = painted.replace(f"\x1b[{color}m", "")
    assert painted == text


def test_color_needs_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_color(Terminal())
    assert not wants_color(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_color(Terminal())


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
    assert stream.getvalue() == terminal.CLEAR_LINE + progress_text(PROGRESS)
    line.clear()
    line.clear()
    assert stream.getvalue().endswith(terminal.CLEAR_LINE)
    assert stream.getvalue().count(terminal.CLEAR_LINE) == 2
