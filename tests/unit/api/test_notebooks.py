"""What notebooks show, and how far an epoch is in one; IPython is played by a few lines."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import sempre
from sempre.api import notebooks
from sempre.api.explanations import Proof, WhyNot
from sempre.engine import Progress

PROGRAM = """
.decl edge(x: number, y: symbol)
.decl path(x: number, y: symbol)
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(x + 1, z), y != z.
.decl yes()
yes() :- edge(0, _).
"""


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A notebook's kernel; what it was told to show, and what it showed instead later."""
    shown: list[str] = []

    def display(bundle: dict[str, str], **options: bool) -> SimpleNamespace:
        assert options == {"raw": True, "display_id": True}
        shown.append(bundle["text/html"])
        return SimpleNamespace(update=lambda bundle, raw: shown.append(bundle["text/html"]))

    module: Any = ModuleType("IPython")
    module.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = ModuleType("IPython.display")
    module.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    return shown


def test_relations_and_changes_are_tables() -> None:
    with sempre.Database(PROGRAM) as db:
        changes = db.apply(insert={"edge": [(n, f"<{n}>") for n in range(30)]})
        page = db["edge"]._repr_html_()
        assert page.count("<tr>") == 1 + notebooks.NOTEBOOK_ROWS
        assert "<b>edge</b>: 30 rows, the first 20" in page
        assert "<td>&lt;0&gt;</td>" in page
        assert "<b>yes</b>: 1 row</p>" in db["yes"]._repr_html_()
        told = changes._repr_html_()
        assert "<tr><td>edge</td><td>+30</td><td>−0</td></tr>" in told
        assert "nothing changed" in db.apply()._repr_html_()
        db.apply(insert={"edge": [(99, "x" * 500)]}, delete={"edge": [(n, f"<{n}>") for n in range(30)]})
        assert "x" * 79 + "…</td>" in db["edge"]._repr_html_()
        empty = changes.report._repr_html_()
        assert empty.startswith("<iframe sandbox=")


def test_proofs_are_pages_in_frames() -> None:
    with sempre.Database(PROGRAM) as db:
        db.apply(insert={"edge": [(0, "a"), (1, "b")]})
        for explained in (db.explain('path(0, "b")'), db.explain('path(7, "b")', absent=True)):
            assert isinstance(explained, Proof | WhyNot)
            frame = explained._repr_html_()
            assert frame.startswith("<iframe")
            assert "&lt;!doctype html&gt;" in frame
            assert frame.count('"') == 6  # nothing of the page ends the attribute


def test_an_epoch_tells_how_far_it_is(kernel: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(notebooks, "NOTEBOOK_SECONDS", 0.0)
    with sempre.Database(PROGRAM, modules="off") as db:
        db.apply(insert={"edge": [(n, str(n)) for n in range(5)]})
        assert 'max="3"' in kernel[0]
        assert "round 2" in kernel[1]
        assert kernel[-1] == ""
    kernel.clear()
    with sempre.Database(PROGRAM, progress=lambda progress: None) as db:
        db.apply(insert={"edge": [(0, "a")]})
    assert kernel == []


def test_short_epochs_and_scripts_show_nothing(kernel: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with sempre.Database(PROGRAM) as db:
        db.apply(insert={"edge": [(0, "a")]})
    assert kernel == []
    shown = notebooks.notebook_progress()
    assert shown is not None
    shown(Progress(1, 2, 3, 4_000, 1.0))
    assert kernel == []
    shown(Progress(2, 2, 3, 4_000, 4.0))
    assert "stratum 2 of 2 · round 3 · 4,000 facts · 1,000 facts/s · 4 s" in kernel[0]
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())  # a shell on a terminal
    assert notebooks.notebook_progress() is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert notebooks.notebook_progress() is None
