"""`sempre run` as a Spark pipeline: a process, files, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REACH = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
"""


def sempre(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sempre.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=300)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reach.dl").write_text(REACH, "utf-8")
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\n", "utf-8")
    return tmp_path


def test_facts_in_results_out(folder: Path, where: list[str]) -> None:
    done = sempre("run", "reach.dl", "-D", "out", "--report", "r.json", *where, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "out" / "reach.csv").read_text("utf-8") == "a\tb\na\tc\nb\tc\n"
    report = json.loads((folder / "r.json").read_text("utf-8"))
    assert report["session_seconds"] > 0
    assert report["epochs"][0]["sources"] == {"edge": [{"source": "edge.facts", "rows": 2}]}
