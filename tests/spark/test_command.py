"""`sempre run` as a Spark pipeline: a process, files, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.conftest import KIND, ON_CONNECT

REACH = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
"""


def sempre(
    *arguments: str | Path, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sempre.cli", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=300
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reach.dl").write_text(REACH, "utf-8")
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\n", "utf-8")
    return tmp_path


def test_facts_in_results_out(folder: Path, where: list[str]) -> None:
    environment = os.environ | {"SEMPRE_SPARK_LOG": str(folder / "spark.log"), "TMPDIR": str(folder)}
    done = sempre("run", "reach.dl", "-D", "out", "--report", "r.json", *where, cwd=folder, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # The log of a server is its own; that of a session of ours is where it was wanted.
    assert (folder / "spark.log").exists() == (KIND == "classic")
    assert not list(folder.glob("sempre-spark-*"))
    assert (folder / "out" / "reach.csv").read_text("utf-8") == "a\tb\na\tc\nb\tc\n"
    report = json.loads((folder / "r.json").read_text("utf-8"))
    assert report["session_seconds"] > 0
    assert report["epochs"][0]["sources"] == {"edge": [{"source": "edge.facts", "rows": 2}]}


@ON_CONNECT
def test_tables_in_results_and_changes_out(folder: Path, where: list[str]) -> None:
    pq.write_table(pa.table({"src": ["a", "b"], "dst": ["b", "c"]}), folder / "edge.parquet")
    program = REACH.replace(".input edge", '.input edge(IO=parquet, columns="0:1")')
    program += ".output reach(IO=parquet)\n.output reach(IO=parquet, mode=changes, filename=log)\n.printsize reach\n"
    (folder / "tables.dl").write_text(program, "utf-8")
    (folder / "c.dl").write_text('+edge("c", "d"). commit. -edge("a", "b"). commit.\n', "utf-8")
    flags = ["-D", "out", "--changes", "c.dl", "--changes-out", "d", "--report", "r.json"]
    done = sempre("run", "tables.dl", *flags, *where, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "reach\t3\n", "")
    assert pq.read_table(folder / "out" / "reach.parquet").num_rows == 3
    assert (folder / "out" / "reach.csv").read_text("utf-8") == "b\tc\nb\td\nc\td\n"
    log = pq.read_table(folder / "out" / "log")
    counts = log.group_by(["_epoch", "_change"]).aggregate([([], "count_all")]).sort_by("_epoch").to_pylist()
    assert [tuple(row.values()) for row in counts] == [(0, "added", 3), (1, "added", 3), (2, "removed", 3)]
    assert (folder / "d" / "2" / "reach.removed.csv").read_text("utf-8") == "a\tb\na\tc\na\td\n"
    report = json.loads((folder / "r.json").read_text("utf-8"))
    (note,) = report["epochs"][0]["sources"]["edge"]
    assert (note["columns"], note["source_columns"]) == ("by position", ["src", "dst"])
    assert [epoch["by_position"] for epoch in report["epochs"]] == [["edge"], [], []]
    assert [epoch["added"]["reach"] for epoch in report["epochs"]] == [3, 3, 0]
    assert all({"seconds", "read_seconds", "write_seconds"} <= set(epoch) for epoch in report["epochs"])


def test_a_run_on_the_cluster(folder: Path, where: list[str]) -> None:
    (folder / "reach.dl").write_text(f"{REACH}.output reach(IO=parquet)\n", "utf-8")
    (folder / "c").mkdir()
    (folder / "c" / "edge.insert.facts").write_text("c\td\n", "utf-8")
    (folder / "c" / "edge.delete.facts").write_text("a\tb\n", "utf-8")
    flags = ["--place", "cluster", "-D", "out", "--changes", "c", "--changes-out", "d", "--report", "r.json"]
    environment = os.environ | {"SEMPRE_SCRATCH": str(folder / "scratch")}
    done = sempre("run", "reach.dl", *flags, *where, cwd=folder, environment=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    lines = (folder / "out" / "reach.csv").read_text("utf-8").splitlines()
    assert sorted(lines) == ["b\tc", "b\td", "c\td"]
    assert pq.read_table(folder / "out" / "reach.parquet").num_rows == 3
    assert sorted((folder / "d" / "1" / "reach.removed.csv").read_text("utf-8").splitlines()) == ["a\tb", "a\tc"]
    report = json.loads((folder / "r.json").read_text("utf-8"))
    assert report["epochs"][0]["sources"] == {"edge": [{"source": "edge.facts", "rows": 2, "place": "cluster"}]}
    assert [epoch["placement"] for epoch in report["epochs"]] == ["cluster", "cluster"]
    assert not list((folder / "scratch").iterdir())


@pytest.mark.skipif(KIND == "classic", reason="the start of two sessions, for what the tests of stores show")
def test_a_store_on_the_cluster(folder: Path, where: list[str]) -> None:
    on_spark = ["--on", "spark", "--place", "cluster", *where]
    done = sempre("init", "store", "reach.dl", *on_spark, cwd=folder)
    assert (done.returncode, done.stdout.partition(" (")[0]) == (0, "epoch 0: edge +2 -0, reach +3 -0"), done.stderr
    (folder / "c.dl").write_text('+edge("c", "d"). commit.\n', "utf-8")
    done = sempre("apply", "store", "c.dl", *on_spark, cwd=folder)
    assert (done.returncode, done.stdout.partition(" (")[0]) == (0, "epoch 1: edge +1 -0, reach +3 -0"), done.stderr
    assert list((folder / "store" / "tables").iterdir())
    done = sempre("query", "store", 'reach("a", X)', cwd=folder)
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["X", "b", "c", "d"]), done.stderr
    done = sempre("verify", "store", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "ok: epoch 1, 2 relations, 9 facts, 0 counters\n"), done.stderr


@pytest.mark.skipif(KIND == "classic", reason="the start of another session, for what the sources' own tests show")
def test_bad_facts_leave_the_outputs_alone(folder: Path, where: list[str]) -> None:
    (folder / "edge.facts").write_text("a\tb\nc\n", "utf-8")
    (folder / "reach.csv").write_text("before\n", "utf-8")
    done = sempre("run", "reach.dl", *where, cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[E502]: expected 2 columns, found 1\n  --> edge.facts:2:1\n 2 | c" in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "reach.csv").read_text("utf-8") == "before\n"


def test_an_error_in_the_program_does_not_wait_for_spark(folder: Path, where: list[str]) -> None:
    (folder / "bad.dl").write_text("p(1).\n", "utf-8")
    started = time.perf_counter()
    done = sempre("run", "bad.dl", *where, cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error[E202]")
    assert len(done.stderr.splitlines()) < 8
    assert time.perf_counter() - started < 10


@pytest.mark.skipif(KIND == "connect", reason="the settings of a server are its own")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--master", "nonsense"], "error[E704]: no Spark session could be started on `nonsense`: "),
        (["--remote", "sc://127.0.0.1:1"], "error[E704]: no Spark session could be started on `sc://127.0.0.1:1`: "),
        (["--master", "local[2]"], "error[E703]: Spark needs Java 17 or later, and there is none\n"),
    ],
)
def test_a_session_that_does_not_start(folder: Path, options: list[str], message: str) -> None:
    environment = os.environ | ({"JAVA_HOME": "/nowhere", "PATH": "/nowhere"} if "E703" in message else {})
    done = sempre("run", "reach.dl", *options, cwd=folder, environment=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert "--on local" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "reach.csv").exists()


@pytest.mark.skipif(KIND == "connect", reason="a process of its own either way")
@pytest.mark.parametrize(
    ("number", "early"),
    [(signal.SIGTERM, False), pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow), (signal.SIGINT, True)],
    ids=["terminated", "terminated early", "interrupted early"],
)
def test_a_run_that_is_ended_tidies_up(folder: Path, where: list[str], number: signal.Signals, early: bool) -> None:
    """In the middle of rounds on the cluster, and while the session starts."""
    # More than are held in the driver, and rounds enough.
    (folder / "edge.facts").write_text("".join(f"{n}\t{n + 1}\n" for n in range(40_000) if n % 100), "utf-8")
    (folder / "tmp").mkdir()
    flags = ["--place", "cluster", "--strategy", "counting", "-D", "out", "--report", "r.json", *where]
    environment = {name: value for name, value in os.environ.items() if name != "SEMPRE_SCRATCH"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sempre.cli", "run", "reach.dl", *flags],
        cwd=folder,
        env=environment | {"TMPDIR": str(folder / "tmp")},
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    wanted = "sempre-spark-*.log" if early else "sempre-*/t*"
    deadline = time.monotonic() + 120
    while not list((folder / "tmp").glob(wanted)) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    modes = [path.parent.stat().st_mode & 0o777 for path in (folder / "tmp").glob(wanted)]
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert early or set(modes) == {0o700}
    assert (process.returncode, said) == (128 + number, "terminated\n" if number == signal.SIGTERM else "interrupted\n")
    deadline = time.monotonic() + 30
    while list((folder / "tmp").glob("sempre-*")) and time.monotonic() < deadline:
        time.sleep(0.2)  # what Java still writes is Java's to remove
    assert list((folder / "tmp").glob("sempre-*")) == []
    assert not (folder / "r.json").exists()
    assert not (folder / "out").exists() or list((folder / "out").iterdir()) == []
