"""Every flag of every command is looked at by the command: none is accepted and dropped."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import pytest

from sempre import cli
from sempre.cli import arguments

PROGRAM = ".decl e(@x: symbol, y: symbol)\n.input e\n.decl p(@x: symbol, y: symbol)\np(x, y) :- e(x, y).\n.output p\n"

# What is needed for a run of each command that ends well; stores are made before.
RUNS: dict[str, list[str]] = {
    "run": ["p.dl", "--on", "local", "-D", "out"],
    "check": ["p.dl"],
    "format": ["rough.dl"],
    "lsp": [],
    "init": ["new", "p.dl"],
    "apply": ["store", "c.changes"],
    "refresh": ["store"],
    "query": ["store", "p(X, Y)"],
    "shell": ["store"],
    "explain": ["store", 'p("a", "b")'],
    "whatif": ["store", "c.changes"],
    "verify": ["store"],
    "history": ["store"],
    "vacuum": ["store"],
    "migrate": ["store", "other.dl"],
    "network": ["p.dl", "-D", "out", "--on", "local", "--workers", "1", "--changes", "c.changes"],
}
# Asked for only where the store differs (`test_stores.py` has that case); and what editors add to say how it is anyway.
LATER = {"verify": {"repair"}, "lsp": {"stdio"}}


class Watched(argparse.Namespace):
    """Options that know which of them were asked for."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        object.__setattr__(self, "looked_at", set())

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name != "looked_at":
            object.__getattribute__(self, "looked_at").add(name)
        return super().__getattribute__(name)


def flags(command: str) -> set[str]:
    return {action.dest for action in arguments._parser(command)._actions if action.dest not in ("help", "refused")}


def test_every_command_is_here() -> None:
    assert set(RUNS) | {"help"} == set(arguments.COMMANDS)


@pytest.mark.parametrize("command", RUNS)
def test_every_flag_is_looked_at(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "other.dl").write_text(PROGRAM + "p(y, x) :- e(x, y).\n")
    (tmp_path / "rough.dl").write_text(".decl  a(x:number)\n")
    (tmp_path / "e.facts").write_text("a\tb\n")
    (tmp_path / "c.changes").write_text('+e("b", "c"). commit.\n')
    assert cli.main(["init", "store", "p.dl"]) == 0
    real = arguments.parse(["history", "store"] if command == "help" else [command, *RUNS[command]])
    watched = Watched(**vars(real))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.setattr(cli, "parse", lambda argv: watched)
    assert cli.main([command]) == 0
    # `parse` refuses what cannot be honored, with the flags of its own checks: these count, too.
    again = Watched(**vars(real))
    if command in ("run", *arguments.PLACED_COMMANDS):
        arguments._check_place(again)
    if command in arguments.UNPLACED_COMMANDS:
        arguments._check_session(again)
    if command == "run":
        arguments._check_run(again)
    if command == "network":
        arguments._check_network(again)
    assert flags(command) - watched.looked_at - again.looked_at == LATER.get(command, set())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["run", "p.dl", "--on", "local", "--workers", "7"], "--workers needs --on spark"),
        (
            ["run", "p.dl", "--on", "spark", "--place", "driver", "--workers", "7"],
            "--workers needs --place auto or workers",
        ),
        (["run", "p.dl", "--threads", "0"], "`0` is not a number from 1"),
        (["run", "p.dl", "--memory", "0"], "`0` is not a size such as 512M or 2G"),
        (["run", "p.dl", "--memory=-1"], "`-1` is not a size such as 512M or 2G"),
        (["init", "s", "p.dl", "--memory", "lots"], "`lots` is not a size such as 512M or 2G"),
        (["init", "s", "p.dl", "--threads=-3"], "`-3` is not a number from 1"),
    ],
)
def test_what_cannot_be_honored_is_refused(given: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(given) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["run", "p.dl", "-c"], "-c is an option of Soufflé"),
        (["run", "p.dl", "-r", "r.html"], "sempre check -v PROGRAM.dl"),
        (["run", "p.dl", "-p", "log"], "--report FILE.json"),
        (["run", "p.dl", "--show=transformed-ast"], "sempre check PROGRAM.dl --show"),
        (["run", "p.dl", "-m", "path"], "`magic` at a declaration"),
        (["run", "p.dl", "-M", "1=2"], "`1=2` is not a macro"),
        (["run", "p.dl", "-j", "0"], "`0` is not a number from 1"),
        (["check", "p.dl", "-o", "a.out"], "no executable is made"),
        (["query", "store", "p(X, Y)", "-M", "A"], "a store has its program"),
        (["p.dl", "-F", "facts"], "sempre run p.dl -F facts"),
    ],
)
def test_options_of_souffle_are_refused_with_what_to_type(
    given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(given) == 2
    assert words in capsys.readouterr().err


def test_options_of_souffle_that_mean_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "q.dl").write_text(".symbol_type B\n.decl q(x: B) output\n")
    (tmp_path / "p.dl").write_text("#include <q.dl>\n.type A <: symbol\n.decl p(x: A)\np(NAME).\nq(x) :- p(x).\n")
    given = [
        "run",
        "p.dl",
        "--on",
        "local",
        "-I",
        "lib",
        "-M",
        'OTHER NAME="x"',
        "--legacy",
        "-w",
        "-j",
        "auto",
        "-D",
        "-",
    ]
    assert cli.main([*given, "-m", "*"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[4] == "x"
    assert said.err == ""
