"""The examples in the documents do what they show, and the site leaves no page out.

Blocks marked `run` after their language are run, those of one document in one folder, one after the other:

    ```console run     `$ command`, then what it prints. `$ cat FILE` makes the file, if it is not there.
    ```python run      must not raise
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sempre

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "docs/language.md",
    "docs/souffle.md",
    "docs/updates.md",
    "docs/modules.md",
    "docs/active.md",
    "docs/store.md",
    "docs/explain.md",
    "docs/refresh.md",
    "docs/operations.md",
)
BLOCK = re.compile(r"^```(console|python) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text("utf-8"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the command and Python in `.venv/bin`, which is where a reader has them, and on the path."""
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name, arguments in (("sempre", " -m sempre.cli"), ("python", "")):
        command = binaries / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        command.chmod(0o755)
    assert shutil.which("sh")
    monkeypatch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_console(text: str, folder: Path) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        shown = shown.rstrip("\n")
        new = re.fullmatch(r"cat (\S+)", command)
        if new and not (folder / new[1]).exists():
            (folder / new[1]).write_text(shown + "\n", "utf-8")
            continue
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert done.stdout.rstrip("\n") == shown, command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_examples(document: str, folder: Path) -> None:
    found = blocks(document)
    assert found, "nothing in this document is run"
    names: dict[str, Any] = {}
    for language, text in found:
        if language == "console":
            run_console(text, folder)
        else:
            exec(compile(text, document, "exec"), names)  # the document's own text


def test_every_page_is_on_the_site_and_every_public_name_on_the_page_of_python() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert pages | {"index.md"} == set(re.findall(r"[\w/-]+\.md", site.partition("\nnav:")[2]))
    shown = re.findall(r"^::: sempre\.(\w+)$", (ROOT / "docs" / "api.md").read_text("utf-8"), re.MULTILINE)
    assert set(shown) == set(sempre.__all__) - {"__version__"}
