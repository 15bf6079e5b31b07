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


def test_explain_tells_the_history_of_a_fact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = '.pragma "semantics" "active"\n.decl todo(x: number) .decl done(x: number)\ntodo(1).\n'
    program, store = tmp_path / "rules.dl", str(tmp_path / "store")
    program.write_text(rules + "done(x), -todo(x) :- todo(x).\n", "utf-8")
    assert main(["init", store, str(program)]) == 0
    capsys.readouterr()
    assert main(["explain", store, "done(1)"]) == 0
    assert capsys.readouterr().out == "done(1) holds\ncycle 1: added\n  done(x), -todo(x) :- todo(x).\n"
    assert main(["explain", store, "todo(1)", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(event["cycle"], event["added"]) for event in told["events"]] == [(0, True), (1, False)]
    assert main(["explain", store, "done(1)", "--check"]) == 2
    text = "error: --check is for stratified rules; of rules that run in cycles a history is told\n"
    assert capsys.readouterr().err == text
