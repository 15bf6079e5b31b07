"""Sources and targets with versions: what they refuse, and what they tell of themselves."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.analysis.model import Relation
from sempre.api import refresh as refreshing
from sempre.api.publish import publish_from_store
from sempre.api.stores import vacuum
from sempre.cli import main
from sempre.diagnostics import DataError
from sempre.files.directive_options import input_endpoint
from sempre.files.sources import folder_source, source_of
from sempre.files.sources.delta_source import DeltaSource
from sempre.files.sources.file_source import FileSource

PROGRAM = """
.decl edge(x: symbol, y: number)
.input edge({source})
.decl big(x: symbol, y: number)
big(x, y) :- edge(x, y), y > 10.
.output big({target})
"""
ROWS = pa.table({"y": pa.array([5, 50, 60]), "x": ["a", "b", "c"], "more": [1.0, 2.0, 3.0]})


def checked(source: str = "", target: str = "") -> sempre.Program:
    return sempre.Program(PROGRAM.format(source=source, target=target))


def first_source(program: sempre.Program, folder: Path) -> tuple[FileSource | DeltaSource, Relation]:
    relation = program.checked.relations["edge"]
    found = source_of(input_endpoint(relation, relation.inputs[0]), relation, program.checked.types, folder)
    assert isinstance(found, FileSource | DeltaSource)
    return found, relation


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "edge.facts").write_text("a\t1\n")
    source, _ = first_source(checked(), tmp_path)
    version = source.version(None)
    (tmp_path / "edge.facts").write_text("a\t2\n")
    with pytest.raises(DataError, match="E662"):
        source.rows(version)


def test_a_file_that_is_as_it_was_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sempre.files.sources import file_source

    (tmp_path / "edge.facts").write_text("a\t1\n")
    source, _ = first_source(checked(), tmp_path)
    known = source.version(None)
    assert source.version(known) is known, "the content is the same"
    monkeypatch.setattr(file_source, "UNSURE_NS", -(10**18))
    monkeypatch.setattr("hashlib.file_digest", None)
    assert source.version(known) is known, "the times say so"


def test_columns_of_a_table_go_by_name(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", ROWS)
    with pytest.raises(DataError, match="E502"):
        sempre.Database(checked("IO=delta, table=t")).load(tmp_path)
    db = sempre.Database(checked("IO=delta, table=t, extra=ignore"))
    db.load(tmp_path)
    assert set(db["big"]) == {("b", 50), ("c", 60)}


def test_a_table_that_is_not_there_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot open table `nothing`"):
        sempre.Database(checked("IO=delta, table=nothing")).load(tmp_path)


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(DataError, match=r"E663.*\n.*sempre\[delta\]"):
        sempre.Database(checked("IO=delta, table=t")).load(tmp_path)


def test_a_table_that_removes_what_it_never_had_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(3):
        deltalake.write_deltalake(tmp_path / "t", ROWS.drop(["more"]).slice(at, 1), mode="append")
    with sempre.Database(checked("IO=delta, table=t"), store=tmp_path / "s") as db:
        db.refresh(tmp_path)
        deltalake.DeltaTable(tmp_path / "t").delete("x = 'a'")
        taken = DeltaSource.changes

        def doubled(*args: object) -> object:
            found = taken(*args)  # type: ignore[arg-type]
            assert found is not None
            return type(found)(found.plus, pa.concat_tables([found.minus, found.minus]))

        monkeypatch.setattr(DeltaSource, "changes", doubled)
        with pytest.raises(DataError, match="E664"):
            db.refresh()
        assert set(db["edge"]) == {("a", 5), ("b", 50), ("c", 60)}
        db.refresh(overwrite=True)
        assert set(db["edge"]) == {("b", 50), ("c", 60)}


def shown(folder: Path) -> set[tuple[str, int]]:
    rows = deltalake.DeltaTable(folder / "big").to_pyarrow_table().to_pylist()
    return {(row["x"], row["y"]) for row in rows}


@pytest.mark.parametrize("mode", ["", ", mode=merge"])
def test_a_published_table_gets_what_changed_once(mode: str, tmp_path: Path) -> None:
    with sempre.Database(checked(target=f"IO=delta, table=big{mode}"), store=tmp_path / "s") as db:
        for rows in ([("a", 11)], [("b", 12), ("c", 1)], [("d", 13)]):
            db.apply(insert={"edge": rows}, delete={"edge": [("a", 11)]} if rows[0][0] == "d" else {})
            db.publish(tmp_path)
            assert shown(tmp_path) == set(db["big"])
        before = deltalake.DeltaTable(tmp_path / "big").version()
        db.publish(tmp_path)
        assert deltalake.DeltaTable(tmp_path / "big").version() == before
        db.apply(insert={"edge": [("e", 14)]})
        db.apply(insert={"edge": [("f", 15)]}, delete={"edge": [("b", 12)]})
        db.publish(tmp_path)  # two epochs at once
        assert shown(tmp_path) == set(db["big"])


def test_a_table_of_changes_needs_the_epoch_that_it_shows(tmp_path: Path) -> None:
    with sempre.Database(checked(target="IO=delta, table=big, mode=changes"), store=tmp_path / "s") as db:
        db.apply(insert={"edge": [("a", 11)]})
        db.publish(tmp_path)
        db.apply(insert={"edge": [("b", 12)]})
        db.apply(insert={"edge": [("c", 13)]})
    vacuum(tmp_path / "s")
    with (
        sempre.Database(checked(target="IO=delta, table=big, mode=changes"), store=tmp_path / "s") as db,
        pytest.raises(DataError, match="E666"),
    ):
        publish_from_store(db, str(tmp_path))


def test_merging_is_for_tables() -> None:
    with pytest.raises(sempre.ProgramError, match="`mode=merge` is for tables that can change in part"):
        sempre.Database(checked(target="mode=merge"), store=None).publish(".")


def test_a_run_writes_a_table_anew(tmp_path: Path) -> None:
    (tmp_path / "p.dl").write_text(PROGRAM.format(source="", target="IO=delta, table=big"))
    command = ["run", str(tmp_path / "p.dl"), "-F", str(tmp_path), "-D", str(tmp_path), "--on", "local"]
    for rows in ("a\t11\nb\t2\n", "c\t12\n"):
        (tmp_path / "edge.facts").write_text(rows)
        assert main(command) == 0
    assert shown(tmp_path) == {("c", 12)}
    (tmp_path / "p.dl").write_text(PROGRAM.format(source="", target="IO=delta, table=big, mode=changes"))
    assert main(command) == 2


def test_a_table_of_iceberg_shows_what_was_published(tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    catalog = load_catalog("tests", uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    target = f'IO=iceberg, table="db.big", catalog="tests", uri="{uri}", warehouse="{warehouse}", mode=merge'
    with sempre.Database(checked(target=target), store=tmp_path / "s") as db:
        for insert, delete in (([("a", 11)], []), ([("b", 12)], []), ([("c", 13)], [("a", 11)])):
            db.apply(insert={"edge": insert}, delete={"edge": delete})
            db.publish(tmp_path)
            rows = catalog.load_table("db.big").scan().to_arrow().to_pylist()
            assert {(row["x"], row["y"]) for row in rows} == set(db["big"])
            before = catalog.load_table("db.big").current_snapshot()
            db.publish(tmp_path)
            assert catalog.load_table("db.big").current_snapshot() == before


def test_files_that_are_added_to_a_folder_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where folders say values of a column; files that were there are not opened, once their times are sure."""
    rows = ROWS.drop(["more", "x"])
    for at, name in enumerate("abc"):
        (tmp_path / f"edge.parquet/x={name}").mkdir(parents=True)
        pq.write_table(rows.slice(at, 1), tmp_path / f"edge.parquet/x={name}/0.parquet")
    monkeypatch.setattr(folder_source, "UNSURE_NS", -(10**18))
    with sempre.Database(checked("IO=parquet"), store=tmp_path / "s") as db:
        db.refresh(tmp_path)
        (tmp_path / "edge.parquet/x=d").mkdir()
        pq.write_table(rows.slice(1, 2), tmp_path / "edge.parquet/x=d/0.parquet")
        opened: list[Path] = []
        digest = folder_source._digest

        def noted(file: Path) -> str:
            opened.append(file)
            return digest(file)

        monkeypatch.setattr(folder_source, "_digest", noted)
        found = refreshing.refresh(db, None, overwrite=False, maintain_only=False)
        assert found.read == {"edge": "2 rows came and 0 went"}
        assert {file.parent.name for file in opened} == {"x=d"}
        assert set(db["edge"]) == {("a", 5), ("b", 50), ("c", 60), ("d", 50), ("d", 60)}
        assert db.refresh() is None
        (tmp_path / "edge.parquet/x=a/0.parquet").unlink()
        found = refreshing.refresh(db, None, overwrite=False, maintain_only=False)
        assert found.read == {"edge": "all 4 rows compared: files are gone, or were written again"}


def test_a_table_that_was_put_in_order_is_not_read(tmp_path: Path) -> None:
    for at in range(3):
        deltalake.write_deltalake(tmp_path / "t", ROWS.drop(["more"]).slice(at, 1), mode="append")
    with sempre.Database(checked("IO=delta, table=t"), store=tmp_path / "s") as db:
        db.refresh(tmp_path)
        deltalake.DeltaTable(tmp_path / "t").optimize.compact()
        found = refreshing.refresh(db, None, overwrite=False, maintain_only=False)
        assert found.read == {"edge": "0 rows came and 0 went"}
        deltalake.DeltaTable(tmp_path / "t").delete("x = 'a'")
        deltalake.DeltaTable(tmp_path / "t").optimize.compact()
        db.refresh()
        assert set(db["edge"]) == {("b", 50), ("c", 60)}


def test_history_says_which_versions_an_epoch_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deltalake.write_deltalake(tmp_path / "t", ROWS.drop(["more"]))
    program = """
        .decl edge(x: symbol, y: number)
        .input edge(IO=delta, table=t)
        .decl name(x: symbol)
        .input name
    """
    (tmp_path / "name.facts").write_text("a\n")
    (tmp_path / "p.dl").write_text(program)
    store, report = str(tmp_path / "s"), tmp_path / "report.json"
    assert main(["init", store, str(tmp_path / "p.dl"), "-F", str(tmp_path)]) == 0
    deltalake.write_deltalake(tmp_path / "t", ROWS.drop(["more"]), mode="append")
    assert main(["refresh", store, "--report", str(report)]) == 0
    told = json.loads(report.read_text())["epochs"][0]["sources"]
    content = told["name"]["versions"][0]
    assert told["edge"] == {"versions": ["version 1"], "read": "3 rows came and 0 went"}
    assert content.startswith("content ")
    capsys.readouterr()
    assert main(["history", store, "--sources"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" ")]
    assert lines == [f"  edge: version {at}" if row else f"  name: {content}" for at in (0, 1) for row in (1, 0)]
    with sempre.Database.open(store) as db:
        db.apply(insert={"name": [("b",)]})
    assert main(["history", store, "--sources"]) == 0
    assert f"  name: {content}, then changed by hand" in capsys.readouterr().out
