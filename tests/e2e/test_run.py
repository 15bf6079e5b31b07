"""The command as a user has it: a process, files, exit codes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine import STRATEGIES

pytest.importorskip("sempre.api")

REACH = """\
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
.printsize reach
"""


def sempre(*arguments: str | Path, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sempre.cli", *map(str, arguments)]
    command += ["--on", "local"] if arguments[0] == "run" else []
    return subprocess.run(command, cwd=cwd, input=text, capture_output=True, text=True, encoding="utf-8", timeout=300)


def facts_of(path: Path) -> set[tuple[str, ...]]:
    return {tuple(line.split("\t")) for line in path.read_text("utf-8").splitlines()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "reach.dl").write_text(REACH, "utf-8")
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\n", "utf-8")
    return tmp_path


def test_facts_in_results_out(folder: Path) -> None:
    done = sempre("run", "reach.dl", "-D", "out", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "reach\t3\n", "")
    assert facts_of(folder / "out" / "reach.csv") == {("a", "b"), ("b", "c"), ("a", "c")}


def test_the_plans_that_were_used_are_shown(folder: Path) -> None:
    (folder / "reach.dl").write_text(REACH.replace("edge(y, z).", "edge(y, z), z != x.\n.plan 0:(2, 1)"), "utf-8")
    done = sempre("run", "reach.dl", "-D", "out", "--modules", "off", "--show", "plans", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "reach\t3\n")
    assert done.stderr.splitlines() == [
        "rule 0: reach(x, y) :- edge(x, y).",
        "  scan edge -> x, y",
        "  emit reach(x, y)",
        "rule 1, new facts in literal 1: reach(x, z) :- reach(x, y), edge(y, z), z != x.",
        "  scan new facts of reach -> x, y",
        "  look up old edge by x = y -> z",
        "  keep where z != x",
        "  emit reach(x, z)",
    ]


def test_every_epoch_is_applied_and_reported(folder: Path) -> None:
    (folder / "c.dl").write_text('+edge("c", "ż"). commit. -edge("b", "c"). commit.\n', "utf-8")
    flags = ["--changes", "c.dl", "--changes-out", "d", "--report", "r.json"]
    done = sempre("run", "reach.dl", "-D", "out", *flags, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert facts_of(folder / "out" / "reach.csv") == {("a", "b"), ("c", "ż")}
    assert facts_of(folder / "d" / "1" / "reach.added.csv") == {("a", "ż"), ("b", "ż"), ("c", "ż")}
    assert facts_of(folder / "d" / "2" / "reach.removed.csv") == {("a", "c"), ("b", "c"), ("a", "ż"), ("b", "ż")}
    report = json.loads((folder / "r.json").read_text("utf-8"))
    keys = {"seconds", "read_seconds", "write_seconds", "strategy", "placement", "rounds", "instances"}
    keys |= {"added", "removed", "peak_rss", "why", "strata"}
    assert len(report["epochs"]) == 3
    for epoch in report["epochs"]:
        assert keys <= set(epoch)
    assert report["epochs"][0]["added"]["reach"] == 3
    assert report["epochs"][2]["removed"]["reach"] == 4
    assert report["session_seconds"] == 0.0


REPORT = {"seconds", "read_seconds", "write_seconds", "strategy", "placement", "rounds", "instances"}
REPORT |= {
    "added",
    "removed",
    "peak_rss",
    "why",
    "strata",
    "ignored_insertions",
    "ignored_deletions",
    "by_position",
    "jobs",
    "workers",
    "skew",
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_changes_by_every_strategy(strategy: str, folder: Path) -> None:
    """A script of two epochs and a folder that is one; all that changes is written, all that happened reported."""
    script = '+edge("c", "a"). -edge("x", "y"). commit.\n-edge("b", "c"). +edge("b", "c"). -edge("a", "b"). commit.\n'
    (folder / "c.dl").write_text(script, "utf-8")
    (folder / "more").mkdir()
    (folder / "more" / "edge.insert.facts").write_text("a\tb\na\td\n", "utf-8")
    (folder / "more" / "edge.delete.facts").write_text("c\ta\na\tb\n", "utf-8")
    flags = ["--changes", "c.dl", "--changes", "more", "--changes-out", "d", "--report", "r.json"]
    done = sempre("run", "reach.dl", "-D", "out", "--strategy", strategy, *flags, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert facts_of(folder / "out" / "reach.csv") == {("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")}
    written = {
        number: tuple(len(facts_of(folder / "d" / number / f"reach.{side}.csv")) for side in ("added", "removed"))
        for number in "0123"
    }
    assert written == {"0": (3, 0), "1": (6, 0), "2": (0, 6), "3": (3, 2)}
    report = json.loads((folder / "r.json").read_text("utf-8"))
    assert set(report) == {"epochs", "session_seconds"}
    assert [set(epoch) for epoch in report["epochs"]] == [REPORT] * 4
    assert [(e["added"].get("reach", 0), e["removed"].get("reach", 0)) for e in report["epochs"]] == list(
        written.values()
    )
    assert [epoch["ignored_deletions"] for epoch in report["epochs"]] == [0, 1, 0, 1]
    assert {epoch["placement"] for epoch in report["epochs"]} == {"driver"}
    if strategy != "auto":
        assert {epoch["strategy"] for epoch in report["epochs"]} == {strategy}


@pytest.mark.parametrize(
    ("facts", "place"),
    [("a\n", "edge.facts:1:1"), ("a\tb\nc\n", "edge.facts:2:1"), ("a\tb\tc\n", "edge.facts:1:1")],
)
def test_bad_facts_leave_the_outputs_alone(facts: str, place: str, folder: Path) -> None:
    (folder / "edge.facts").write_text(facts, "utf-8")
    (folder / "reach.csv").write_text("before\n", "utf-8")
    done = sempre("run", "reach.dl", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert place in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "reach.csv").read_text("utf-8") == "before\n"
    assert sorted(path.name for path in folder.iterdir()) == ["edge.facts", "reach.csv", "reach.dl"]


def test_a_bad_program_lists_every_error(folder: Path) -> None:
    (folder / "bad.dl").write_text(".decl p(x: number)\np(x) :- q(x).\np(1, 2).\n", "utf-8")
    for command in ("run", "check"):
        done = sempre(command, "bad.dl", cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert "bad.dl:2:" in done.stderr
        assert "bad.dl:3:" in done.stderr


def test_check_lists_the_strata(folder: Path) -> None:
    done = sempre("check", "reach.dl", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "2 relations, 2 rules, 0 facts, 2 strata\n"
        "stratum 0: edge  (input)\n"
        "stratum 1: reach  (2 rules, recursive, output)\n"
        "module linear reach: `reach` is extended by `edge` at its end\n"
        "  reach(x, z) :- reach(x, y), edge(y, z).\n"
        "every other rule: generic\n"
    )
    without = sempre("check", "reach.dl", "--modules", "off", cwd=folder)
    assert done.stdout.startswith(without.stdout)
    assert "module" not in without.stdout


@pytest.mark.parametrize("command", [("check",), ("run", "--on", "local")])
def test_an_unknown_kind_of_module(folder: Path, command: tuple[str, ...]) -> None:
    done = sempre(*command, "reach.dl", "--modules", "tc,fast", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "unknown kind of module `fast`" in done.stderr
    assert "tc, stc, linear, rch, seq" in done.stderr


def test_check_prints_plans(folder: Path) -> None:
    done = sempre("check", "-v", "reach.dl", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "reach" in done.stdout.split("\n\n", 1)[1]


def test_empty_everything(tmp_path: Path) -> None:
    (tmp_path / "empty.dl").touch()
    done = sempre("run", "empty.dl", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (tmp_path / "reach.dl").write_text(REACH, "utf-8")
    (tmp_path / "edge.facts").touch()
    done = sempre("run", "reach.dl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "reach\t0\n")
    assert (tmp_path / "reach.csv").read_bytes() == b""


def test_values_of_every_kind_pass_through_unchanged(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(
        ".type List = [head: number, tail: List]\n"
        ".decl r(a: number, b: unsigned, c: float, d: symbol, e: List)\n.input r\n"
        ".decl s(a: number, b: unsigned, c: float, d: symbol, e: List)\n"
        "s(a, b, c, d, e) :- r(a, b, c, d, e).\n.output s\n",
        "utf-8",
    )
    line = '-9223372036854775808\t18446744073709551615\t0.1\tżółć "🦉",\t[1, [-2, nil]]\n'
    (tmp_path / "r.facts").write_text(line, "utf-8")
    done = sempre("run", "p.dl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "s.csv").read_text("utf-8") == line


def test_a_relation_without_columns_holds_or_not(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(
        ".decl on()\n.input on\n.decl yes()\n.decl no()\nyes() :- on().\nno() :- !on().\n.output yes, no\n", "utf-8"
    )
    (tmp_path / "on.facts").write_text("()\n", "utf-8")
    done = sempre("run", "p.dl", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert ((tmp_path / "yes.csv").read_text(), (tmp_path / "no.csv").read_text()) == ("()\n", "")


def test_standard_input_and_output(tmp_path: Path) -> None:
    program = REACH.replace(".input edge", ".input edge(IO=stdin)").replace(".output reach", ".output reach(IO=stdout)")
    (tmp_path / "reach.dl").write_text(program, "utf-8")
    done = sempre("run", "reach.dl", cwd=tmp_path, text="a\tb\n")
    assert done.stdout == "---------------\nreach\n===============\na\tb\n===============\nreach\t1\n"


def test_a_reader_that_leaves_is_no_error(folder: Path) -> None:
    (folder / "edge.facts").write_text("".join(f"{i}\t{i + 1}\n" for i in range(600)), "utf-8")
    command = f"{sys.executable} -m sempre.cli run reach.dl -D - | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("---------------\n", "")


def test_a_tiny_program_starts_quickly(folder: Path) -> None:
    def seconds(*command: str) -> float:
        # Processor time: how busy the machine is must not decide.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], cwd=folder, check=True, capture_output=True, env=os.environ)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    run = ("-m", "sempre.cli", "run", "reach.dl", "--on", "local")
    seconds(*run)
    # Twice what is promised of a quiet machine.
    assert min(seconds(*run) for _ in range(3)) < 1.4
    assert min(seconds("-c", "import sempre") for _ in range(3)) < 0.5
