"""Active rules from outside: the command, the example, the benchmark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sempre
from sempre.cli import main

ROOT = Path(__file__).parents[2]
RULES = """
.decl link(x: number, y: number)
.decl sick(x: number)
.decl down(x: number)
.input link, sick
.output sick, link
sick(y) :- sick(x), link(x, y).
-link(x, y) :- down(x), link(x, y).
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "p.dl").write_text(RULES)
    (tmp_path / "link.facts").write_text("1\t2\n2\t3\n3\t4\n")
    (tmp_path / "sick.facts").write_text("1\n")
    (tmp_path / "c.changes").write_text("+down(3). commit.\n-link(1, 2). commit.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_runs_active_rules(folder: Path) -> None:
    command = ["run", "p.dl", "--on", "local", "--semantics", "active", "--changes", "c.changes"]
    assert main([*command, "--changes-out", "out", "--report", "r.json", "--cycles", "9"]) == 0
    assert (folder / "sick.csv").read_text() == "1\n"
    assert (folder / "link.csv").read_text() == "2\t3\n"
    assert (folder / "out" / "1" / "link.removed.csv").read_text() == "3\t4\n"
    epochs = json.loads((folder / "r.json").read_text())["epochs"]
    assert [epoch["rounds"] for epoch in epochs] == [4, 3, 2]
    assert {epoch["strategy"] for epoch in epochs} == {"active"}


def test_without_the_semantics_heads_that_delete_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "p.dl", "--on", "local"]) == 1
    assert "E128" in capsys.readouterr().err


def test_every_command_on_a_store_of_active_rules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "p.dl").write_text('.pragma "semantics" "active"\n' + RULES)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments))
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    assert run("init", "s", "p.dl")[0] == 0
    (folder / "one.changes").write_text("+down(2). commit.\n")
    code, text = run("whatif", "s", "one.changes")
    changed = {line.strip() for line in text.splitlines() if line.startswith(("  +", "  -"))}
    assert (code, changed) == (0, {"+down(2)", "-link(2, 3)", "-sick(3)", "-sick(4)"})
    assert run("apply", "s", "c.changes")[0] == 0
    assert run("query", "s", "sick(X)") == (0, "X\n1\n")
    assert run("query", "s", "sick(X)", "--epoch", "0") == (0, "X\n1\n2\n3\n4\n")
    code, text = run("explain", "s", "link(3, 4)")
    assert (code, text.splitlines()) == (
        0,
        [
            "link(3, 4) does not hold",
            "cycle 0: in the input",
            "cycle 1: deleted",
            "  -link(x, y) :- down(x), link(x, y).",
        ],
    )
    code, text = run("explain", "s", "sick(2)", "--epoch", "0", "--json")
    assert json.loads(text) == {
        "fact": "sick(2)",
        "present": True,
        "events": [
            {
                "cycle": 1,
                "added": True,
                "causes": [{"rule": "sick(y) :- sick(x), link(x, y).", "deletes": False, "instances": 1}],
            }
        ],
    }
    for options in (["--not"], ["--all", "2"], ["--check"], ["--between", "0", "1"], ["--dot"], ["--depth", "1"]):
        assert run("explain", "s", "sick(2)", *options) == (
            2,
            f"error: {options[0]} is for stratified rules\n"
            "hint: leave it out: active rules have a history of cycles, no proofs\n",
        )
    assert run("explain", "s", "sic(2)")[1].startswith("error[E500]: no relation is called `sic`")
    assert [line.split("\t")[0] for line in run("history", "s")[1].splitlines()] == ["0", "1", "2"]
    assert run("verify", "s")[1].startswith("ok: epoch 2, ")
    assert run("vacuum", "s")[0] == 0
    assert run("refresh", "s")[1].startswith("error[E600]: refresh() is for stratified rules")
    (folder / "q.dl").write_text(
        '.pragma "semantics" "active"\n' + RULES.replace("link(x, y).", "link(x, y), x < 9.", 1)
    )
    assert run("migrate", "s", "q.dl")[0] == 0
    assert run("verify", "s")[1].startswith("ok: epoch 3, ")


@pytest.mark.parametrize(
    ("rule", "code"),
    [("sick(x) :- link(x, _), !sick(x). -sick(x) :- sick(x).", "E540"), ("sick(x + 1) :- sick(x).", "E541")],
)
def test_rules_without_end_are_an_error_of_the_program(
    folder: Path, rule: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "p.dl").write_text('.pragma "semantics" "active"\n' + RULES + rule)
    assert main(["run", "p.dl", "--on", "local", "--cycles", "200"]) == 1
    said = capsys.readouterr().err
    assert code in said
    assert "hint:" in said
    assert "Traceback" not in said
    assert not (folder / "sick.csv").exists()


def test_check_knows_active_rules(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "p.dl").write_text('.pragma "semantics" "active"\n' + RULES)
    assert main(["check", "p.dl"]) == 0
    assert capsys.readouterr().out == (
        "3 relations, 2 rules, 0 facts\nactive rules: all are matched in every cycle, until one changes nothing\n"
    )


def test_the_diagnosis_absorbs_what_it_is_told() -> None:
    command = [sys.executable, str(ROOT / "examples" / "watch" / "watch.py"), "--delay", "0", "--columns", "8"]
    done = _run(command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("absorbed") == 4
    assert "LINK s4.0 s5.0 is down" in done.stdout
    assert "5 suspects: s4.1, s4.2, s4.3, s4.4, s4.5" in done.stdout
    assert "from the start: True" in done.stdout


def test_the_benchmark_measures_a_run_and_its_updates(tmp_path: Path) -> None:
    script = str(ROOT / "benchmarks" / "active.py")
    done = _run([sys.executable, script, "--lines", "80", "--json", str(tmp_path / "r.json")])
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads((tmp_path / "r.json").read_text())
    assert (found["rules"], found["ok"]) == (20, True)
    assert found["cycles"] >= 50
    assert all(int(why.split()[0].replace(",", "")) < 1_000 for why in [*found["updates"], found["late"]])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, with this very package."""
    assert sempre.__file__ is not None
    environment = {**os.environ, "COLUMNS": "110", "PYTHONPATH": str(Path(sempre.__file__).parents[1])}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
