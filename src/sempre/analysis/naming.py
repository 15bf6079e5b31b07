"""How messages name things."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean ...?` for a misspelled name; empty when nothing is near."""
    close = get_close_matches(name, sorted(known), 1)
    return f"Did you mean `{close[0]}`?" if close else ""


def shown(name: str) -> str:
    """A variable's name as the user wrote it: what the analysis appended stands behind `#`."""
    return name.split("#")[0]


def counted(count: int, noun: str) -> str:
    """`1 column`, `2 columns`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
