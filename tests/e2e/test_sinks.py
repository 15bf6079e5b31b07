"""Where a command writes that is no ordinary file: full, closed, a pipe, a device, a link."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from sempre.cli.reports import write_reports
from sempre.diagnostics import DataError

PROGRAM = '.decl a(x: number)\na(1). a(2).\n.output a(filename="/dev/stdout")\n.printsize a\n'


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sempre.cli", *arguments, "--on", "local"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.dl").write_text(PROGRAM, "utf-8")
    return tmp_path


def test_standard_output_as_a_file_of_facts(folder: Path) -> None:
    run = command("run", "a.dl")
    piped = subprocess.run(run, cwd=folder, capture_output=True, check=True, text=True)
    assert piped.stdout == "1\n2\na\t2\n"
    log = folder / "log"
    log.write_text("before\n", "utf-8")
    with log.open("a", encoding="utf-8") as more:
        subprocess.run(run, cwd=folder, stdout=more, check=True)
    assert log.read_text("utf-8") == "before\n1\n2\na\t2\n"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no device that is always full")
def test_standard_output_that_is_full(folder: Path) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command("run", "a.dl", "-D", "-"), cwd=folder, stdout=full, stderr=-1, text=True)
    assert (done.returncode, done.stderr) == (
        1, "error[E512]: cannot write standard output: no space left on device\n",
    )  # fmt: skip


def test_standard_output_that_is_closed(folder: Path) -> None:
    text = f"exec {' '.join(command('run', 'a.dl', '-D', '-'))} >&-"
    done = subprocess.run(["sh", "-c", text], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def written(path: Path) -> None:
    write_reports(SimpleNamespace(report=path, profile=None), "title", [], 0.0)  # type: ignore[arg-type]  # what it has


def test_a_report_goes_into_a_pipe_and_through_a_link(tmp_path: Path) -> None:
    pipe, real, link = tmp_path / "pipe", tmp_path / "real.json", tmp_path / "link.json"
    os.mkfifo(pipe)
    link.symlink_to(real)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    written(pipe)
    assert os.read(reader, 1000).startswith(b"{")
    os.close(reader)
    assert pipe.is_fifo(), "a pipe was replaced by a file"
    written(link)
    assert link.is_symlink()
    assert real.read_text("utf-8").startswith("{")
    for wrong in (tmp_path, Path("/")):
        with pytest.raises(DataError, match="is a directory"):
            written(wrong)


def test_a_pipe_gets_utf8_whatever_the_locale(folder: Path) -> None:
    (folder / "text.dl").write_text('.decl t(x: symbol)\nt("ż😀").\n', "utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    done = subprocess.run(command("query", "text.dl", "t(X)"), cwd=folder, env=env, capture_output=True)
    assert (done.returncode, done.stdout.decode("utf-8").splitlines()) == (0, ["X", "ż😀"])


def test_a_terminal_that_cannot_show_a_character_shows_its_number(folder: Path) -> None:
    (folder / "text.dl").write_text('.decl t(x: symbol)\nt("ż").\n', "utf-8")
    ours, theirs = pty.openpty()
    env = {**os.environ, "PYTHONIOENCODING": "latin-1", "TERM": "dumb"}
    done = subprocess.run(command("query", "text.dl", "t(X)"), cwd=folder, env=env, stdout=theirs, stderr=-1)
    os.close(theirs)
    shown = os.read(ours, 10_000)
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert b"\\u017c" in shown
