"""Whatever is wrong with the data: an error with its place, exit code 1, and outputs as they were."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_run import sempre

PROGRAM = """\
.decl p(x: number, y: number)
.input p
.decl quotient(q: number)
quotient(x / y) :- p(x, y).
.decl large(z: number)
large(x * 4611686018427387904) :- p(x, _).
.output quotient, large
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.dl").write_text(PROGRAM, "utf-8")
    (tmp_path / "p.facts").write_text("1\t1\n", "utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "quotient.csv").write_text("before\n", "utf-8")
    (tmp_path / "out" / "neighbor.txt").write_text("not ours\n", "utf-8")
    return tmp_path


def untouched(folder: Path) -> bool:
    texts = {path.name: path.read_text("utf-8") for path in (folder / "out").iterdir()}
    return texts == {"quotient.csv": "before\n", "neighbor.txt": "not ours\n"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (b"1\t1\n2\n", ("expected 2 columns, found 1", "p.facts:2:1")),
        (b"1\t1\n1\t2\t3\n", ("expected 2 columns, found 3", "p.facts:2:1")),
        (b"1\tone\n", ("`one` is not a number", "p.facts:1:3")),
        (b"1\t1.5\n", ("`1.5` is not a number", "p.facts:1:3")),
        (b"1\t9223372036854775808\n", ("`9223372036854775808` is out of range", "p.facts:1:3")),
        (b"1\t-9223372036854775809\n", ("is out of range", "p.facts:1:3")),
        (b"1\t1\n\xff\t1\n", ("byte 0xff is not UTF-8", "p.facts:2:1")),
        (b"8\t2\n7\t0\n", ("7 / 0 has no value", "p.dl:4:1", "quotient(x / y) :- p(x, y).")),
        (b"2\t1\n", ("2 * 4611686018427387904 does not fit in 64 bits", "p.dl:6:1", "large(x * 4611686018427387904)")),
        (None, ("file `p.facts` for relation `p` does not exist",)),
    ],
)
def test_bad_facts(facts: bytes | None, expected: tuple[str, ...], folder: Path) -> None:
    if facts is None:
        (folder / "p.facts").unlink()
    else:
        (folder / "p.facts").write_bytes(facts)
    done = sempre("run", "p.dl", "--on", "local", "-D", "out", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert [part for part in expected if part not in done.stderr] == []
    assert done.stderr.startswith("error[E5")
    assert "Traceback" not in done.stderr
    assert untouched(folder)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (".input pp", "unknown relation `pp`"),
        (".output quotients", "unknown relation `quotients`"),
        ("quotient(x) :- r(x).", "unknown relation `r`"),
    ],
)
def test_undeclared_relations(line: str, expected: str, folder: Path) -> None:
    (folder / "p.dl").write_text(PROGRAM + line + "\n", "utf-8")
    done = sempre("run", "p.dl", "--on", "local", "-D", "out", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert expected in done.stderr
    assert "p.dl:8:" in done.stderr
    assert untouched(folder)


def test_a_change_that_fails_writes_nothing(folder: Path) -> None:
    (folder / "c.changes").write_text("+p(0, 1).\ncommit.\n+p(1, 0).\ncommit.\n", "utf-8")
    done = sempre("run", "p.dl", "-D", "out", "--changes", "c.changes", "--changes-out", "diff", cwd=folder)
    assert done.returncode == 1
    assert "1 / 0 has no value" in done.stderr
    assert untouched(folder)


def test_good_facts_replace_the_outputs_and_leave_neighbors_alone(folder: Path) -> None:
    done = sempre("run", "p.dl", "--on", "local", "-D", "out", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name: path.read_text("utf-8") for path in (folder / "out").iterdir()} == {
        "quotient.csv": "1\n", "large.csv": "4611686018427387904\n", "neighbor.txt": "not ours\n",
    }  # fmt: skip


KILLED = """
import os, pathlib, signal, sys
pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from sempre.cli import main
sys.exit(main(["run", "p.dl", "--on", "local", "-D", "out"]))
"""


def test_a_kill_before_the_first_rename_leaves_every_output_whole(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=folder, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert (folder / "out" / "quotient.csv").read_text("utf-8") == "before\n"
    assert not (folder / "out" / "large.csv").exists()
    again = sempre("run", "p.dl", "--on", "local", "-D", "out", cwd=folder)
    assert again.returncode == 0
    assert (folder / "out" / "quotient.csv").read_text("utf-8") == "1\n"
