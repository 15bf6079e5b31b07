"""What a person sees: errors and warnings, with color on a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from functools import partial
from typing import TextIO

from sempre.diagnostics import Diagnostic, SempreError, render

_COLORS = (
    (re.compile(r"^(error(?:\[\w+\])?:)", re.MULTILINE), "1;31"),
    (re.compile(r"^(warning(?:\[\w+\])?:)", re.MULTILINE), "1;33"),
    (re.compile(r"^((?:hint|note|detail):)", re.MULTILINE), "36"),
    (re.compile(r"^(\s+-->.*)$", re.MULTILINE), "34"),
    (re.compile(r"^\s+\|\s+(\^+)$", re.MULTILINE), "1;31"),
)


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
