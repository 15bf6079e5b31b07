"""What a person sees: errors with color on a terminal, and the progress line."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Protocol, TextIO

from sempre.diagnostics import Diagnostic, SempreError, render

QUIET_SECONDS = 2.0
REFRESH_SECONDS = 0.1
CLEAR_LINE = "\r\x1b[K"

_COLORS = (
    (re.compile(r"^(error(?:\[\w+\])?:)", re.MULTILINE), "1;31"),
    (re.compile(r"^(warning(?:\[\w+\])?:)", re.MULTILINE), "1;33"),
    (re.compile(r"^((?:hint|note|detail):)", re.MULTILINE), "36"),
    (re.compile(r"^(\s+-->.*)$", re.MULTILINE), "34"),
    (re.compile(r"^\s+\|\s+(\^+)$", re.MULTILINE), "1;31"),
)


class ProgressState(Protocol):
    """How far a run is."""

    @property
    def stratum(self) -> int: ...
    @property
    def strata(self) -> int: ...
    @property
    def round(self) -> int: ...
    @property
    def facts(self) -> int: ...
    @property
    def seconds(self) -> float: ...


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_color(stream: TextIO) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def paint(text: str) -> str:
    """`text` as `render` made it, with its parts in color."""
    for pattern, color in _COLORS:
        text = pattern.sub(partial(_painted, color), text)
    return text


def _painted(color: str, match: re.Match[str]) -> str:
    whole, part = match[0], match[1]
    return whole.replace(part, f"\x1b[{color}m{part}\x1b[0m")


def show_text(text: str) -> None:
    """Print to standard error."""
    stream = sys.stderr
    print(paint(text) if wants_color(stream) else text, file=stream)


def show_error(error: SempreError) -> None:
    """Print every diagnostic of `error`, and how many there are when more than one."""
    show_text(str(error))
    count = sum(diagnostic.severity == "error" for diagnostic in error.diagnostics)
    if count > 1:
        show_text(f"{count} errors")


def show_warnings(warnings: Iterable[Diagnostic], sources: dict[str, str]) -> None:
    warnings = tuple(warnings)
    if warnings:
        show_text(render(warnings, sources))


class ProgressLine:
    """One line on a terminal that says how far a run is; shown once it has taken two seconds."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.started = self.shown = time.perf_counter()
        self.visible = False

    def __call__(self, progress: ProgressState) -> None:
        now = time.perf_counter()
        if now - self.started < QUIET_SECONDS or (self.visible and now - self.shown < REFRESH_SECONDS):
            return
        self.shown = now
        self.visible = True
        self.stream.write(CLEAR_LINE + progress_text(progress))
        self.stream.flush()

    def clear(self) -> None:
        """Remove the line, if there is one."""
        if self.visible:
            self.stream.write(CLEAR_LINE)
            self.stream.flush()
            self.visible = False


def progress_text(progress: ProgressState) -> str:
    rate = progress.facts / progress.seconds if progress.seconds > 0 else 0.0
    return (
        f"stratum {progress.stratum}/{progress.strata} · round {progress.round:,} · {progress.facts:,} facts"
        f" · {rate:,.0f} facts/s · {progress.seconds:.0f} s"
    )
