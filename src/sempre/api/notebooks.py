"""What notebooks show: relations and changes as tables, proofs as the page they are, and how far an epoch is.

Everything is HTML that holds all it needs, and shows a few rows of what may be large.
"""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from sempre.engine import Progress

NOTEBOOK_ROWS = 20
LONGEST_TEXT = 80
QUIET_SECONDS = 2.0
NOTEBOOK_SECONDS = 0.5


def rows_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], count: int) -> str:
    """A table of the first rows, and how many there are."""
    shown = [[_cell(value) for value in row] for row in rows]
    more = f", the first {len(shown)}" if len(shown) < count else ""
    return f"<p><b>{_text(title)}</b>: {count:,} row{'' if count == 1 else 's'}{more}</p>{_table(columns, shown)}"


def changes_html(added: Mapping[str, int], removed: Mapping[str, int], seconds: float, why: str) -> str:
    """What an epoch changed, relation by relation."""
    rows = [
        [_text(name), f"+{added.get(name, 0):,}", f"−{removed.get(name, 0):,}"]
        for name in dict.fromkeys((*added, *removed))
        if added.get(name) or removed.get(name)
    ]
    told = f"<p>{seconds:.3f} s · {_text(why)}</p>"
    return (_table(("relation", "added", "removed"), rows) if rows else "<p>nothing changed</p>") + told


def page_html(page: str, lines: int) -> str:
    """A page of its own inside of a notebook, about as high as so many lines."""
    height = min(40, 8 + 2 * lines)
    style = f"width:100%;height:{height}rem;border:1px solid #8884;border-radius:6px"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page, quote=True)}"></iframe>'


class NotebookProgress:
    """How far an epoch is, below the cell that waits for it; shown once it has taken two seconds, gone at its end."""

    def __init__(self, display: Any) -> None:
        self._display = display  # IPython's `display`
        self._handle: Any = None
        self._shown = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.perf_counter()
        if progress.seconds < QUIET_SECONDS or now - self._shown < NOTEBOOK_SECONDS:
            return
        self._shown = now
        bundle = {"text/html": progress_html(progress), "text/plain": ""}
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        """Show nothing any more."""
        if self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)
            self._handle = None


def progress_html(progress: Progress) -> str:
    """Stratum, round, facts, and how many a second, with a bar for the strata that are done."""
    rate = progress.facts / progress.seconds if progress.seconds > 0 else 0.0
    told = (
        f"stratum {progress.stratum} of {progress.strata} · round {progress.round:,} · {progress.facts:,} facts"
        f" · {rate:,.0f} facts/s · {progress.seconds:.0f} s"
    )
    return f'<progress max="{progress.strata}" value="{progress.stratum - 1}"></progress> <span>{told}</span>'


def notebook_progress() -> Callable[[Progress], None] | None:
    """Shows how far epochs are if this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    return NotebookProgress(import_module("IPython.display").display)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    text = str(value)
    return _text(text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…")


def _text(text: object) -> str:
    return html.escape(str(text))
