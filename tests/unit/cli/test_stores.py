"""The commands on stores: what they print and how they end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sempre import Database, Program
from sempre.analysis.model import CheckedProgram
from sempre.cli import main, store_commands

PROGRAM = """
.decl edge(x: symbol, y: number)
.input edge
.decl big(x: symbol)
big(x) :- edge(x, y), y > 10.
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "edge.facts").write_text("a\t5\nb\t50\n")
    (tmp_path / "c.txt").write_text('+edge("c, d", 11).\ncommit.\n-edge("b", 50).\ncommit.\n')
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.mark.folder
def test_from_init_to_migrate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "init", "s", "p.dl", "-F", "facts")
    assert (code, out.split(" (")[0]) == (0, "epoch 0: edge +2 -0, big +1 -0")
    code, out, _ = run(capsys, "whatif", "s", "c.txt")
    assert code == 0
    assert '  +big("c, d")\n' in out
    assert run(capsys, "query", "s", "big(X)") == (0, "X\nb\n", "")
    code, out, _ = run(capsys, "apply", "s", "c.txt")
    assert [line.split(" (")[0] for line in out.splitlines()] == [
        "epoch 1: edge +1 -0, big +1 -0",
        "epoch 2: edge +0 -1, big +0 -1",
    ]
    assert run(capsys, "query", "s", "big(X)") == (0, 'X\n"c, d"\n', "")
    assert run(capsys, "query", "s", "big(X)", "--epoch", "0") == (0, "X\nb\n", "")
    assert run(capsys, "query", "s", 'edge("a", 5)') == (0, "true\n", "")
    assert run(capsys, "query", "s", 'edge("a", 6)') == (0, "false\n", "")
    assert run(capsys, "verify", "s")[:2] == (0, "ok: epoch 2, 2 relations, 3 facts, 0 counters\n")
    code, out, _ = run(capsys, "history", "s")
    assert [line.split("\t")[0::2][:2] for line in out.splitlines()] == [["0", "init"], ["1", "apply"], ["2", "apply"]]
    code, out, _ = run(capsys, "history", "s", "--metrics")
    assert 'sempre_facts{relation="edge"} 2\n' in out
    code, out, _ = run(capsys, "vacuum", "s")
    assert out.startswith("freed ")
    assert run(capsys, "query", "s", "big(X)", "--epoch", "0")[0] == 1
    (folder / "p2.dl").write_text(PROGRAM.replace("> 10", "> 2"))
    code, out, _ = run(capsys, "migrate", "s", "p2.dl")
    assert code == 0
    assert "rule removed: big(x) :- edge(x, y), y > 10.\n" in out
    assert out.endswith("epoch 3: edge 2, big 2\n")
    assert run(capsys, "migrate", "s", "p2.dl")[1] == "nothing to do: the rules, relations and facts are the same\n"


def test_init_without_facts_takes_what_is_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, error = run(capsys, "init", "s", "p.dl")
    assert (code, out.split(" (")[0]) == (0, "epoch 0: nothing changed")
    assert error.startswith("note: not here, and taken as empty: edge.facts\n")
    (folder / "edge.facts").write_text("z\t99\n")
    code, out, error = run(capsys, "init", "t", "p.dl")
    assert (code, out.split(" (")[0], error) == (0, "epoch 0: edge +1 -0, big +1 -0", "")


@pytest.mark.folder
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["init", "s", "p.dl"], 1, "error[E611]: `s` is a store already"),
        (["init", "t", "p.dl", "-F", "nowhere"], 1, "error[E501]: file `nowhere/edge.facts`"),
        (
            ["init", "facts", "p.dl", "-F", "facts"],
            1,
            "error[E612]: `facts` is no store, and has other things in it: `edge.facts`",
        ),
        (["init", "viewfs://b/s", "p.dl"], 1, "error[E608]: a store cannot be kept at `viewfs://b/s`"),
        (["apply", "t", "c.txt"], 1, "error[E601]: `t` is not there"),
        (["apply", "facts", "c.txt"], 1, "error[E601]: `facts` has no store in it"),
        (["apply", "s", "none.txt"], 1, "error[E501]: file `none.txt` does not exist"),
        (["apply", "s"], 2, "error: the following arguments are required: FILE_OR_DIR"),
        (["query", "s", "big(X"], 1, "error[E101]"),
        (["query", "s", "bug(X)"], 1, "error[E500]: no relation is called `bug`"),
        (["query", "s", "big(X, Y)"], 1, "error[E502]: `big` has 1 columns, not 2"),
        (["query", "s", "big(X)", "--epoch", "9"], 1, "error[E607]: `s` does not have epoch 9"),
        (["query", "s", "big(X)", "--epoch", "x"], 2, "error: argument --epoch: `x` is not a number from 0"),
        (["vacuum", "s", "--keep", "0"], 2, "error: argument --keep: `0` is not a number from 1"),
    ],
)
def test_mistakes(
    arguments: list[str], code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "init", "s", "p.dl", "-F", "facts")[0] == 0
    found, _, error = run(capsys, *arguments)
    assert (found, error[: len(message)]) == (code, message)


def test_a_script_with_a_mistake_applies_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "init", "s", "p.dl", "-F", "facts")[0] == 0
    (folder / "bad.txt").write_text('+edge("x", 1).\ncommit.\n+edge("y", 2).\n')
    assert run(capsys, "apply", "s", "c.txt", "bad.txt")[0] == 1
    assert len(run(capsys, "history", "s")[1].splitlines()) == 1


def test_refresh_follows_files_and_publishes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "p.dl").write_text(PROGRAM + ".output big\n")
    facts = folder / "facts" / "edge.facts"
    assert run(capsys, "init", "s", "p.dl", "-F", "facts", "-D", "out")[0] == 0
    assert (folder / "out" / "big.csv").read_text() == "b\n"
    assert run(capsys, "refresh", "s") == (0, "epoch 0: nothing new\n", "")
    facts.write_text("a\t5\nc\t60\n")
    code, out, _ = run(capsys, "refresh", "s", "-v")
    assert [line.split(" (")[0] for line in out.splitlines()] == [
        "edge: all 2 rows compared",
        "epoch 1: edge +1 -1, big +1 -1",
    ]
    assert (code, (folder / "out" / "big.csv").read_text()) == (0, "c\n")
    (folder / "out" / "big.csv").unlink()
    assert run(capsys, "refresh", "s") == (0, "epoch 1: nothing new\n", "")
    assert not (folder / "out" / "big.csv").exists(), "it was published already"
    assert run(capsys, "refresh", "s", "-D", "other")[0] == 0
    assert (folder / "other" / "big.csv").read_text() == "c\n"
    (folder / "d.txt").write_text('+edge("d", 70).\ncommit.\n')
    assert run(capsys, "apply", "s", "d.txt")[0] == 0
    assert (folder / "other" / "big.csv").read_text() == "c\nd\n"
    code, _, shown = run(capsys, "refresh", "s")
    assert (code, "error[E660]: relation `edge` was changed by hand" in shown) == (1, True)
    assert run(capsys, "refresh", "s", "--overwrite")[0] == 0
    assert run(capsys, "query", "s", "big(X)") == (0, "X\nc\n", "")


def test_a_file_that_is_gone_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "init", "s", "p.dl", "-F", "facts")
    (folder / "facts" / "edge.facts").unlink()
    code, _, shown = run(capsys, "refresh", "s")
    assert (code, "error[E501]" in shown) == (1, True)
    assert run(capsys, "query", "s", "big(X)") == (0, "X\nb\n", "")


def test_recomputing_can_be_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = (
        PROGRAM + ".decl path(x: symbol, y: number)\npath(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(x, z).\n"
    )
    (folder / "p.dl").write_text(rules)
    run(capsys, "init", "s", "p.dl", "-F", "facts", "--strategy", "recompute")
    (folder / "facts" / "edge.facts").write_text("c\t60\n")
    code, _, shown = run(capsys, "refresh", "s", "--strategy", "recompute", "--fail-on-recompute")
    assert code == 1
    assert "error[E665]" in shown
    assert run(capsys, "query", "s", "edge(X, Y)") == (0, "X,Y\na,5\nb,50\n", "")
    assert run(capsys, "refresh", "s", "--fail-on-recompute")[0] == 1  # the way it was kept says nothing of changes
    assert run(capsys, "refresh", "s")[0] == 0


def test_standard_input_is_not_followed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "p.dl").write_text(PROGRAM.replace(".input edge", ".input edge(IO=stdin)"))
    with Database(Program.from_file(folder / "p.dl"), store=folder / "s") as db:
        db.apply(insert={"edge": [("a", 5)]})
    code, _, shown = run(capsys, "refresh", "s")
    assert (code, "error[E661]: relation `edge` is read from standard input" in shown) == (1, True)


def test_facts_of_unknown_origin_are_not_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Database(Program.from_file(folder / "p.dl"), store=folder / "s") as db:
        db.apply(insert={"edge": [("z", 99)]})
    code, _, shown = run(capsys, "refresh", "s", "-F", "facts")
    assert (code, "error[E660]: relation `edge` has facts that are not from its source" in shown) == (1, True)
    assert run(capsys, "refresh", "s", "-F", "facts", "--overwrite")[0] == 0
    assert run(capsys, "query", "s", "big(X)") == (0, "X\nb\n", "")


def test_what_would_change_is_shown_as_facts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of a relation without columns that stays as it is, and records and branches as a program has them."""
    (folder / "v.dl").write_text(
        ".type C = Red {} | Mixed {s: symbol}\n.type P = [c: C, n: number]\n.decl e(c: C, p: P)\n.decl any()\n"
        '.decl red()\nany() :- e(_, _).\nred() :- e($Red, _).\ne($Mixed("a"), nil).\n'
    )
    assert run(capsys, "init", "v", "v.dl")[0] == 0
    (folder / "v.txt").write_text('+e($Red, [$Mixed("q\\""), 1]).\ncommit.\n')
    code, out, _ = run(capsys, "whatif", "v", "v.txt")
    assert (code, out.splitlines()[2:]) == (0, ['  +e($Red, [$Mixed("q\\""), 1])', "  +red()"])
    (folder / "v.txt").write_text("commit.\n")
    code, out, _ = run(capsys, "whatif", "v", "v.txt")
    assert (code, out.splitlines()[2:]) == (0, [])


def test_init_without_facts_reads_tables_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no files by the name of the relation; one that is not there is an error, as ever."""
    import deltalake
    import pyarrow as pa

    monkeypatch.chdir(tmp_path)
    deltalake.write_deltalake("lake", pa.table({"x": [1, 2]}))
    Path("p.dl").write_text('.decl e(x: number)\n.input e(IO=delta, table="lake")\n')
    assert main(["init", "s", "p.dl"]) == 0
    assert capsys.readouterr().out.startswith("epoch 0: e +2 -0")
    Path("q.dl").write_text('.decl e(x: number)\n.input e(IO=delta, table="nowhere")\n')
    assert main(["init", "t", "q.dl"]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_tables_with_versions_have_them_with_spark_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(
        """.decl edge(x: symbol, y: number)
        .input edge(IO=delta, table="edge")
        .decl other(x: symbol)
        .input other"""
    )
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(folder / "edge", pa.table({"x": ["a", "a", "b"], "y": [1, 1, 2]}), configuration=feed)
    read: list[str] = []

    class Pipeline:
        """What a session would read."""

        def read(self, checked: CheckedProgram, database: Database) -> tuple[dict[str, pa.Table], dict[str, Any]]:
            read.extend(each.name for each in checked.relations.values() if each.inputs)
            return {"other": pa.table({"x": ["o"]})}, {}

        def session(self) -> None:
            return None

    (folder / "other.facts").write_text("o\n")
    options: Any = SimpleNamespace(on="spark", facts=str(folder), quiet=True, progress=False)
    pipeline: Any = Pipeline()
    with Database(program, store=folder / "s") as database:
        changes = store_commands._first_epoch(options, program.checked, pipeline, database, "")
        assert changes.report.added == {"edge": 2, "other": 1}
    assert read == ["other"]
    write_deltalake(folder / "edge", pa.table({"x": ["c"], "y": [3]}), mode="append")
    DeltaTable(folder / "edge").delete("x = 'b'")
    code, out, _ = run(capsys, "refresh", "s", "-v")
    assert code == 0
    assert "edge: 1 rows came and 1 went\n" in out


def test_an_epoch_that_changes_nothing_adds_nothing_to_a_table_of_changes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "q.dl").write_text(PROGRAM + '.output big(IO=delta, table="big_changes", mode=changes)\n')
    assert run(capsys, "init", "s", "q.dl", "-F", "facts", "-D", "out")[0] == 0
    (folder / "c.txt").write_text('+edge("b", 50).\ncommit.\n')
    assert run(capsys, "apply", "s", "c.txt")[1].startswith("epoch 1: nothing changed")
    told = DeltaTable(folder / "out" / "big_changes").to_pyarrow_table().to_pylist()
    assert told == [{"x": "b", "_epoch": 0, "_change": "added"}]
