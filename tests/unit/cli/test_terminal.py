"""Color."""

from __future__ import annotations

import io

import pytest

from sempre.cli.terminal import paint, wants_color


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
