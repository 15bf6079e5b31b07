"""Ctrl-C and SIGTERM at random moments: an exit code that says so, and nothing half-done."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """\
.decl edge(x: number, y: number)
.input edge
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
.output edge
"""
MOMENTS = 3


def started(folder: Path) -> subprocess.Popen[str]:
    # As installed: `python -m` imports `runpy` first, and an interrupt there exits with 1, before any line of ours.
    sempre = str(Path(sys.executable).with_name("sempre"))
    command = [sempre, "run", "p.dl", "-D", "out", "--report", "r.json", "--on", "local"]
    environment = os.environ | {"TMPDIR": str(folder / "tmp")}
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_a_command_that_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(PROGRAM, "utf-8")
    (tmp_path / "edge.facts").write_text("".join(f"{n}\t{n + 1}\n" for n in range(150)), "utf-8")
    (tmp_path / "tmp").mkdir()
    begun = time.perf_counter()
    first = started(tmp_path)
    _, said = first.communicate(timeout=60)
    assert (first.returncode, said) == (0, "")
    whole = time.perf_counter() - begun
    rng = random.Random(number)
    for _ in range(MOMENTS):
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "out").mkdir()
        process = started(tmp_path)
        time.sleep(rng.random() * whole)
        ended_before = process.poll() is not None
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        names = sorted(path.name for path in (tmp_path / "out").iterdir())
        # Before the command has taken the signals over, and after the interpreter has given them up, they kill.
        ends = {128 + number, -number} | ({0} if names else set())
        # An interpreter that is interrupted while it starts says that it cannot, and no line of ours has run.
        never_began = process.returncode == 1 and said.startswith("Fatal Python error: init_")
        assert process.returncode in ends or never_began, said
        assert names in ([], ["edge.csv", "reach.csv"])
        assert ended_before or process.returncode or names
        assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []
        assert list((tmp_path / "tmp").iterdir()) == []
