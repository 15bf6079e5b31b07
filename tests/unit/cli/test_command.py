"""The command line itself, over a stand-in for the engine: arguments, exit codes, reports, what is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import sempre.cli
from sempre.cli.arguments import parse
from sempre.cli.progress import Silent
from sempre.diagnostics import BackendError, Diagnostic, InternalError, ProgramError, StateError
from tests.unit.files.build import program, relation

CHECKED = program(
    relation("edge", "x:number", "y:number", input={}), relation("reach", "x:number", "y:number", output={})
)


def main(arguments: list[str]) -> int:
    """The command without Spark, unless the arguments say where."""
    here = [] if arguments[:1] != ["run"] or "--on" in arguments else ["--on", "local"]
    return sempre.cli.main([*arguments, *here])


class FakeProgram:
    checked = CHECKED

    @classmethod
    def from_file(cls, path: Path, semantics: str | None = None, **reading: Any) -> FakeProgram:
        assert path.exists()
        return cls()

    def for_outputs(self, *, magic: bool = False) -> FakeProgram:
        return self


class FakeDatabase:
    """Copies `edge` to `reach`."""

    options: dict[str, Any] = {}  # noqa: RUF012  # the tests look at what the last one was given
    fail: Callable[[], None] | None = None

    def __init__(self, program: FakeProgram, **options: Any) -> None:
        FakeDatabase.options = options
        self.edge: pa.Table = None

    def materialise(self, tables: dict[str, pa.Table]) -> SimpleNamespace:
        if FakeDatabase.fail is not None:
            FakeDatabase.fail()
        self.edge = tables["edge"]
        return self._changes(self.edge)

    def apply(self, insert: dict[str, pa.Table], delete: dict[str, pa.Table]) -> SimpleNamespace:
        self.edge = pa.concat_tables([self.edge, insert["edge"]])
        return self._changes(insert["edge"])

    def _changes(self, added: pa.Table) -> SimpleNamespace:
        tables = {"edge": added, "reach": added}
        empty = {name: table.slice(0, 0) for name, table in tables.items()}
        report = SimpleNamespace(to_json=lambda: {"seconds": 0.5, "added": {"reach": added.num_rows}})
        changes = SimpleNamespace(added=tables, removed=empty, report=report)
        changes.streamed = lambda: changes
        return changes

    def __getitem__(self, name: str) -> Any:
        return View(self.edge)


class View:
    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def to_arrow(self) -> pa.Table:
        return self.table

    def _stream(self) -> pa.Table:
        return self.table

    def __len__(self) -> int:
        return int(self.table.num_rows)


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sempre.api.Program", FakeProgram)
    monkeypatch.setattr("sempre.api.Database", FakeDatabase)
    monkeypatch.setattr(FakeDatabase, "fail", None)
    monkeypatch.setattr(FakeProgram, "checked", CHECKED)
    monkeypatch.delenv("SEMPRE_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").touch()
    (tmp_path / "edge.facts").write_text("1\t2\n")


def failing_with(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_run_reads_and_writes_here_by_default(tmp_path: Path) -> None:
    assert main(["run", "p.dl"]) == 0
    assert (tmp_path / "reach.csv").read_text() == "1\t2\n"


def test_run_prints(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["run", "p.dl", "-D", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert (out, err) == (b"---------------\nreach\nx\ty\n===============\n1\t2\n===============\n", b"")


def test_epochs_are_applied_reported_and_written(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"c{number}").mkdir()
        (tmp_path / f"c{number}" / "edge.insert.facts").write_text(f"{number}\t9\n")
    arguments = ["run", "p.dl", "-D", "out", "--changes", "c1", "--changes", "c2"]
    assert main([*arguments, "--changes-out", "d", "--report", "r.json"]) == 0
    assert (tmp_path / "out" / "reach.csv").read_text() == "1\t2\n1\t9\n2\t9\n"
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["0", "1", "2"]
    assert (tmp_path / "d" / "2" / "reach.added.csv").read_text() == "2\t9\n"
    assert (tmp_path / "d" / "2" / "reach.removed.csv").read_text() == ""
    report = json.loads((tmp_path / "r.json").read_text())
    assert set(report) == {"epochs", "session_seconds"}
    assert [epoch["added"] for epoch in report["epochs"]] == [{"reach": 1}] * 3
    for epoch in report["epochs"]:
        assert set(epoch) == {"seconds", "added", "read_seconds", "write_seconds"}
    assert report["epochs"][0]["read_seconds"] > 0
    assert report["epochs"][2]["write_seconds"] > 0


def test_options_reach_the_database() -> None:
    flags = ["--strategy", "recompute", "--modules", "off", "--threads", "2", "--memory", "1.5G", "--place", "driver"]
    assert main(["run", "p.dl", *flags]) == 0
    assert FakeDatabase.options == {
        "strategy": "recompute",
        "modules": "off",
        "place": "driver",
        "spark": None,
        "semantics": None,
        "threads": 2,
        "workers": None,
        "switch": None,
        "memory": 1_610_612_736,
        "cycles": None,
        "progress": None,
        "profile": False,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["aply", "s", "c.dl"], "error: unknown command `aply`\nhint: sempre apply s c.dl\n"),
        (["fly"], "error: unknown command `fly`\nhint: the commands are run, check, format, lsp, init, "),
        (
            ["run"],
            "error: the following arguments are required: PROGRAM.dl\nhint: sempre run --help lists the options\n",
        ),
        (["run", "p.dl", "--on", "local", "--workers", "2"], "error: --workers needs --on spark\n"),
        (["apply", "s", "c.txt", "--workers", "2"], "error: --workers needs --on spark\n"),
        (
            ["run", "p.dl", "--on", "spark", "--master", "local", "--remote", "sc://h"],
            "error: --master and --remote exclude each other\n",
        ),
        (["run", "p.dl", "--on", "spark", "--conf", "a"], "error: argument --conf: `a` is not a setting such as spark"),
        (["run", "p.dl", "--place", "workers"], "error: --place workers needs --on spark\n"),
        (["run", "p.dl", "--place", "cluster", "--on", "local"], "error: --place cluster needs --on spark\n"),
        (["run", "p.dl", "--master", "local"], "error: --master needs --on spark\n"),
        (["apply", "s", "c.txt", "--place", "cluster"], "error: --place cluster needs --on spark\n"),
        (["query", "s", "e(X)", "--conf", "a=b"], "error: --conf needs --on spark\n"),
        (["run", "p.dl", "--threads", "0"], "error: argument -j/--threads/--jobs: `0` is not a number from 1\n"),
        (["run", "p.dl", "--memory", "big"], "error: argument --memory: `big` is not a size such as 512M or 2G\n"),
        (["run", "p.dl", "--strategy", "magic"], "error: argument --strategy: invalid choice: 'magic'"),
        (["run", "p.dl", "--strat", "auto"], "error: unrecognized arguments: --strat auto\n"),
        (["run", "p.dl", "--report", "no/r.json"], "error: --report: there is no folder `no`\n"),
        (["check"], "error: the following arguments are required: PROGRAM.dl\n"),
    ],
)
def test_usage_errors_exit_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(message)
    assert not (tmp_path / "reach.csv").exists()


def test_bad_facts_exit_with_1_and_write_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "edge.facts").write_text("1\tx\n2\n")
    assert main(["run", "p.dl", "-D", "out", "--report", "r.json"]) == 1
    err = capsys.readouterr().err
    assert "edge.facts:1:3" in err
    assert err.endswith("2 errors\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edge.facts", "p.dl"]


def test_a_missing_program_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "q.dl"]) == 1
    assert capsys.readouterr().err == "error[E501]: file `q.dl` does not exist\nhint: `.` has `p.dl`.\n"


def test_missing_changes_exit_with_1_before_anything_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["run", "p.dl", "--changes", "c.dl"]) == 1
    assert capsys.readouterr().err.startswith("error[E501]: file `c.dl` does not exist\n")
    assert not (tmp_path / "reach.csv").exists()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ProgramError("bad rule"), 1, "error[E100]: bad rule\n"),
        (StateError("closed"), 1, "error[E600]: closed\n"),
        (BackendError("no such place"), 2, "error[E700]: no such place\n"),
        (InternalError("lost a fact"), 3, "error[E900]: lost a fact\nThis is a defect of sempre"),
        (ZeroDivisionError("oops"), 3, "error[E900]: ZeroDivisionError: oops\nThis is a defect of sempre"),
        (MemoryError(), 1, "error[E701]: out of memory\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_exit_codes(error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    FakeDatabase.fail = staticmethod(failing_with(error))
    assert main(["run", "p.dl"]) == code
    assert capsys.readouterr().err.startswith(message)


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMPRE_DEBUG", "1")
    FakeDatabase.fail = staticmethod(failing_with(ZeroDivisionError("oops")))
    with pytest.raises(ZeroDivisionError):
        main(["run", "p.dl"])


def test_warnings_are_shown_and_do_not_change_the_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    warning = Diagnostic("W301", "relation `z` is never used", severity="warning")
    monkeypatch.setattr(FakeProgram, "checked", dataclasses.replace(CHECKED, warnings=(warning,)))
    assert main(["run", "p.dl"]) == 0
    assert capsys.readouterr().err == "warning[W301]: relation `z` is never used\n"


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"], ["-h"]])
def test_no_arguments_explain_the_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert "sempre run PROGRAM.dl" in capsys.readouterr().out


def test_help_of_a_command_lists_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "run"]) == 0
    assert "--changes-out DIR" in capsys.readouterr().out


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("sempre ")


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("2k", 2048), ("512M", 2**29), ("2GiB", 2**31), ("1.5g", 3 * 2**29)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse(["run", "p.dl", "--memory", text]).memory == size


def test_options_of_a_spark_run() -> None:
    options = parse(["run", "p.dl", "--master", "local[2]", "--conf", "a=b=c"])
    assert (options.on, options.master, options.conf) == ("spark", "local[2]", [("a", "b=c")])
    assert parse(["run", "p.dl", "--remote", "sc://h:1"]).remote == "sc://h:1"


def test_bad_directives_are_found_by_check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeProgram, "checked", program(relation("r", "x:number", input={"IO": "sql"})))
    assert main(["check", "p.dl"]) == 1
    assert capsys.readouterr().err.startswith("error[E511]: `IO=sql` is unknown for .input\n  --> p.dl:1:1\n")


def test_loading_the_command_line_loads_no_engine() -> None:
    code = "import sys, sempre.cli; print([m for m in ('pyarrow', 'numpy', 'numba', 'rich') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert out.stdout == "[]\n"


def test_a_small_run_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    """Each of these takes a tenth of a small run, or more."""
    (tmp_path / "p.dl").write_text(".decl r(x: number)\nr(1).\n.output r\n", "utf-8")
    unused = ("pyarrow.compute", "sempre.active.active_engine", "sempre.network.node", "sempre.workers.crew", "numba")
    code = f"import sys, sempre.cli; sempre.cli.main(); print([m for m in {unused} if m in sys.modules])"
    command = [sys.executable, "-c", code, "run", "p.dl", "-D", ".", "--on", "local"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ, cwd=tmp_path)
    assert out.stdout.splitlines()[-1] == "[]"
    assert (tmp_path / "r.csv").read_text("utf-8") == "1\n"


def test_the_progress_line_is_gone_before_anything_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Line(Silent):
        def __init__(self, options: object) -> None:
            seen.append("shown")

        def clear(self) -> None:
            seen.append("cleared")

    def write(*_: object, **__: object) -> SimpleNamespace:
        seen.append("written")
        return SimpleNamespace(warnings=())

    monkeypatch.setattr("sempre.cli.run_command.progress_of", Line)
    monkeypatch.setattr("sempre.cli.pipelines.write_outputs", write)
    assert main(["run", "p.dl"]) == 0
    assert seen == ["shown", "cleared", "written"]
