"""`sempre network`, from files to files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sempre.cli import main

PROGRAM = """
.decl link(@s: symbol, d: symbol, c: number)
.input link
.decl best(@s: symbol, d: symbol, c: number)
best(@s, d, min<c>) :- link(@s, d, c).
best(@s, d, min<c1 + c2>) :- link(@s, z, c1), best(@z, d, c2).
.decl next_hop(@s: symbol, d: symbol, z: symbol)
next_hop(@s, d, z) :- link(@s, z, c1), best(@z, d, c2), best(@s, d, c1 + c2).
.output best
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "best.dl").write_text(PROGRAM, "utf-8")
    links = [("a", "b", 1), ("b", "c", 1), ("c", "a", 5), ("a", "c", 9)]
    text = "".join(f"{a}\t{b}\t{c}\n" for a, b, c in links)
    (tmp_path / "link.facts").write_text(text, "utf-8")
    (tmp_path / "cut.changes").write_text('-link("a", "b", 1). commit.\n+link("c", "b", 1). commit.\n', "utf-8")
    return tmp_path


def run(folder: Path, *options: str) -> int:
    """On nodes of this process, unless the options say where."""
    where = () if {"--on", "--simulate", "--replay"} & set(options) else ("--simulate", "rounds")
    return main(["network", str(folder / "best.dl"), "-F", str(folder), "-D", str(folder / "out"), *where, *options])


def test_facts_of_all_nodes_are_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--changes", str(folder / "cut.changes")) == 0
    rows = sorted((folder / "out" / "best.csv").read_text("utf-8").splitlines())
    assert rows == [
        "a\ta\t14", "a\tb\t10", "a\tc\t9", "b\ta\t6", "b\tb\t2", "b\tc\t1", "c\ta\t5", "c\tb\t1", "c\tc\t2",
    ]  # fmt: skip
    assert capsys.readouterr().err.count("burst") == 3


def test_a_report_can_be_replayed(folder: Path) -> None:
    report, again = folder / "report.json", folder / "again.json"
    assert run(folder, "--changes", str(folder / "cut.changes"), "--simulate", "3", "--report", str(report)) == 0
    assert run(folder, "--changes", str(folder / "cut.changes"), "--replay", str(report), "--report", str(again)) == 0
    first, second = json.loads(report.read_text()), json.loads(again.read_text())
    assert first["trace"] == second["trace"]
    assert set(first["bursts"][0]) >= {"messages", "updates", "bytes", "steps", "seconds", "nodes", "timeline"}
    assert sum(node["bytes"] for node in first["bursts"][0]["nodes"].values()) == first["bursts"][0]["bytes"]


def test_a_foreign_trace_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "trace.json").write_text('{"trace": [[99]]}', "utf-8")
    assert run(folder, "--replay", str(folder / "trace.json")) == 1
    (folder / "trace.json").write_text("{}", "utf-8")
    assert run(folder, "--replay", str(folder / "trace.json")) == 1
    assert "E532" in (text := capsys.readouterr().err)
    assert "E534" in text


def test_a_plot_is_a_page_of_its_own(folder: Path) -> None:
    assert run(folder, "--plot", str(folder / "run.html")) == 0
    text = (folder / "run.html").read_text("utf-8")
    assert text.count("<svg") == 2
    assert "http" not in text
    assert "#cc0000" in text  # links on best paths


def test_a_png_needs_matplotlib(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(folder, "--plot", str(folder / "run.png"))
    assert (code, "E534" in capsys.readouterr().err) in ((0, False), (1, True))


@pytest.mark.parametrize(("algorithm", "code"), [("auto", 0), ("proofs", 0), ("sets", 1), ("psn", 1), ("sn", 1)])
def test_algorithms(folder: Path, algorithm: str, code: int) -> None:
    assert run(folder, "--algorithm", algorithm) == code


def test_negative_costs_are_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "link.facts").write_text("a\tb\t-1\nb\ta\t-1\n", "utf-8")
    assert run(folder) == 1
    assert "E530" in capsys.readouterr().err


def test_a_recursion_without_end_stops_at_the_limit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = ".decl n(@x: number, i: number) n(@1, 0). n(@3 - x, i + 1) :- n(@x, i). .output n"
    (folder / "best.dl").write_text(text, "utf-8")
    assert run(folder, "--limit", "100") == 1
    assert "E531" in capsys.readouterr().err


def test_check_prints_the_local_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "-v", str(folder / "best.dl")]) == 0
    assert "best(@s, d, min(c1 + c2)) :- link_1(@z, c1, s), best(@z, d, c2)." in capsys.readouterr().out


# -------------------------------------------------------------------------------------------- other processes


@pytest.mark.parametrize("more", [(), ("--overlap",), ("--placement", "links")])
def test_processes_write_what_a_simulation_writes(
    folder: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    changes = ("--changes", str(folder / "cut.changes"))
    assert run(folder, *changes) == 0
    simulated = (folder / "out" / "best.csv").read_text("utf-8")
    capsys.readouterr()
    report, plot = folder / "report.json", folder / "run.html"
    options = ("--on", "local", "--workers", "2", "--report", str(report), "--plot", str(plot))
    assert run(folder, *options, *changes, *more) == 0
    assert (folder / "out" / "best.csv").read_text("utf-8") == simulated
    assert capsys.readouterr().err.count("burst") == (2 if "--overlap" in more else 3)
    found = json.loads(report.read_text())
    first = found["bursts"][0]
    assert (len(found["tasks"]), found["restarts"]) == (2, 0)
    assert sum(link["bytes"] for link in first["links"]) == first["bytes"] > 0
    assert sum(first["timeline"]) == first["messages"]
    assert "<svg" in plot.read_text("utf-8")


@pytest.mark.parametrize(
    "options",
    [
        ("--simulate", "1", "--workers", "2"),
        ("--simulate", "1", "--on", "local"),
        ("--simulate", "1", "--overlap"),
        ("--replay", "x", "--placement", "hash"),
        ("--replay", "x", "--simulate", "1"),
        ("--simulate", "soon"),
        ("--on", "local", "--master", "local[2]"),
        ("--on", "spark", "--master", "local[2]", "--remote", "sc://here"),
        ("--on", "local", "--workers", "0"),
    ],
)
def test_options_without_effect_are_refused(folder: Path, options: tuple[str, ...]) -> None:
    assert run(folder, *options) == 2


def test_outputs_of_changes_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace(".output best", '.output best(IO="parquet", mode="changes")')
    (folder / "best.dl").write_text(text, "utf-8")
    code = run(folder, "--on", "local")
    assert code in (1, 2)
    assert "changes" in capsys.readouterr().err


def test_faults_in_a_process_are_the_users(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "link.facts").write_text("a\tb\t-1\nb\ta\t-1\n", "utf-8")
    assert run(folder, "--on", "local", "--workers", "2") == 1
    text = ".decl n(@x: number, i: number) n(@1, 0). n(@3 - x, i + 1) :- n(@x, i). .output n"
    (folder / "best.dl").write_text(text, "utf-8")
    assert run(folder, "--on", "local", "--workers", "2", "--limit", "100") == 1
    shown = capsys.readouterr().err
    assert "E530" in shown
    assert "E531" in shown
