"""Links in the documents lead somewhere; the guides for those who change the code name what is there, and what happens.

In `docs/dev`, `path.py:name` is a function or class in a file below `src/sempre`. A path with a folder is one from the
root or from `src/sempre`; a file without one is somewhere in `src` or `tests`. In the life of an update, blocks marked
`setup` are run, and those marked `run` are run under a profiler: what the section names must be called by its block.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sempre

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "sempre"
LIFE = ROOT / "docs" / "dev" / "life-of-an-update.md"
PAGES = sorted((ROOT / "docs" / "dev").glob("*.md"))
NAMED = re.compile(r"\b([\w/]+\.py):([A-Za-z_][\w.]*\w)")
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")
MENTIONED = re.compile(r"`([\w./*-]+/[\w./*-]*|[\w*-]+\.py)`")
BLOCK = re.compile(r"^```python (setup|run)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@functools.cache
def definitions(file: Path) -> frozenset[str]:
    def within(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield prefix + child.name
                yield from within(child, f"{prefix}{child.name}.")

    return frozenset(within(ast.parse(file.read_text("utf-8")), ""))


def missing(page: str) -> list[str]:
    """What the text names that is not there."""
    gone = []
    for path, name in NAMED.findall(page):
        file = SOURCES / path
        if not file.is_file() or name not in definitions(file):
            gone.append(f"{path}:{name}")
    return gone


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_functions_that_are_named_are_there(page: Path) -> None:
    assert missing(page.read_text("utf-8")) == []


def test_a_function_that_is_gone_is_found() -> None:
    text = "See `engine.py:Engine.apply`, `engine.py:Engine.aply` and `engines.py:Engine`."
    assert missing(text) == ["engine.py:Engine.aply", "engines.py:Engine"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    assert [path for path in MENTIONED.findall(page.read_text("utf-8")) if not is_there(path)] == []


def is_there(path: str) -> bool:
    places = (ROOT, SOURCES) if "/" in path else (ROOT / "src", ROOT / "tests")
    pattern = path.rstrip("/") if "/" in path else f"**/{path}"
    return any(any(place.glob(pattern)) for place in places)


def anchors(page: Path) -> set[str]:
    """What a link into the page may name: its headings, as GitHub spells them in addresses."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in LINK.findall(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def called_by(action: Callable[[], object]) -> set[str]:
    """What of the package the action calls, in whatever thread."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(package):
            name = frame.f_code.co_qualname
            called.add(f"{file.relative_to(package).as_posix()}:{name}")

    package = Path(sempre.__file__).parent
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return called


def test_the_life_of_an_update_is_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    seen = 0
    for section in re.split(r"^## ", LIFE.read_text("utf-8"), flags=re.MULTILINE):
        called: set[str] = set()
        for kind, text in BLOCK.findall(section):
            code = compile(text, LIFE.name, "exec")
            if kind == "setup":
                exec(code, names)  # the page's own text
            else:
                called |= called_by(functools.partial(exec, code, names))
                seen += 1
        if called:
            functions = {f"{path}:{name}" for path, name in NAMED.findall(section) if not _is_class(name)}
            assert functions - called == set(), section.splitlines()[0]
    assert seen == 3


def _is_class(name: str) -> bool:
    return name.rpartition(".")[2].lstrip("_")[:1].isupper()
