"""Change scripts and change folders."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sempre.diagnostics import DataError
from sempre.files import Epoch, read_changes
from tests.unit.files.build import program, relation

CHECKED = program(
    relation("edge", "x:symbol", "y:number"),
    relation("list", "x:List"),
    relation("real", "x:float"),
    relation("big", "x:unsigned"),
    relation("on"),
)


def script(text: str, tmp_path: Path) -> list[Epoch]:
    (tmp_path / "c.dl").write_text(text, "utf-8")
    return list(read_changes(CHECKED, tmp_path / "c.dl"))


def plain(tables: dict[str, pa.Table]) -> dict[str, list[tuple[object, ...]]]:
    return {
        name: list(zip(*(column.to_pylist() for column in table.columns), strict=True)) or [()] * table.num_rows
        for name, table in tables.items()
    }


def errors(text: str, tmp_path: Path) -> list[tuple[str, str, str]]:
    with pytest.raises(DataError) as caught:
        script(text, tmp_path)
    return [(d.code, d.message, f"{d.span.line}:{d.span.column}") for d in caught.value.diagnostics]


def test_a_script_gives_one_epoch_per_commit(tmp_path: Path) -> None:
    first, second = script('+edge("a", 1). -edge("b", -2). commit.\n+edge("ż", 3). commit.\n', tmp_path)
    assert (plain(first.insert), plain(first.delete)) == ({"edge": [("a", 1)]}, {"edge": [("b", -2)]})
    assert (plain(second.insert), plain(second.delete)) == ({"edge": [("ż", 3)]}, {})


def test_the_last_operation_on_a_fact_wins(tmp_path: Path) -> None:
    (epoch,) = script('+edge("a", 1). -edge("a", 1). -edge("b", 1). +edge("b", 1). commit.', tmp_path)
    assert (plain(epoch.insert), plain(epoch.delete)) == ({"edge": [("b", 1)]}, {"edge": [("a", 1)]})


def test_every_kind_of_constant(tmp_path: Path) -> None:
    (epoch,) = script(
        "+list([1, [2, nil]]). +list(nil). +real(-1.5). +real(2). +big(18446744073709551615). +on(). commit.", tmp_path
    )
    assert plain(epoch.insert) == {
        "list": [("[1, [2, nil]]",), ("nil",)],
        "real": [(-1.5,), (2.0,)],
        "big": [(2**64 - 1,)],
        "on": [()],
    }


def test_an_empty_script_has_no_epochs(tmp_path: Path) -> None:
    assert script("", tmp_path) == []


def test_all_mistakes_of_a_script_are_reported(tmp_path: Path) -> None:
    text = '+edgy("a", 1).\n+edge("a").\n+edge(1, 1).\n+edge("a", 9223372036854775808).\n+big(-1).\ncommit.\n'
    assert errors(text, tmp_path) == [
        ("E514", "relation `edgy` is not declared", "1:2"),
        ("E502", "`edge` takes 2 arguments, found 1", "2:2"),
        ("E503", "expected a constant of type `symbol`", "3:7"),
        ("E504", "9223372036854775808 is out of range", "4:12"),
        ("E504", "-1 is out of range", "5:6"),
    ]


def test_a_tail_without_commit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        script('+edge("a", 1). commit. +edge("b", 1).', tmp_path)


def test_a_script_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "c.dl").write_bytes(b'+edge("a", 1).\n+edge("\xff", 1).')
    with pytest.raises(DataError, match=r"error\[E505\]: byte 0xff is not UTF-8\n  --> .*c.dl:2:8\n"):
        list(read_changes(CHECKED, tmp_path / "c.dl"))


def test_a_folder_is_one_epoch(tmp_path: Path) -> None:
    (tmp_path / "edge.insert.facts").write_text("a\t1\n")
    (tmp_path / "edge.insert.csv").write_text("b\t2\n")
    (tmp_path / "edge.delete.csv").write_text("")
    (tmp_path / "on.delete.facts").write_text("()\n")
    pq.write_table(pa.table({"x": ["[1,nil]"]}), tmp_path / "list.insert.parquet")
    (epoch,) = read_changes(CHECKED, tmp_path)
    assert plain(epoch.insert) == {"edge": [("b", 2), ("a", 1)], "list": [("[1, nil]",)]}
    assert plain(epoch.delete) == {"edge": [], "on": [()]}


def test_an_empty_folder_is_an_empty_epoch(tmp_path: Path) -> None:
    (epoch,) = read_changes(CHECKED, tmp_path)
    assert (epoch.insert, epoch.delete) == ({}, {})


def test_all_mistakes_of_a_folder_are_reported(tmp_path: Path) -> None:
    (tmp_path / "edge.facts").write_text("a\t1\n")
    (tmp_path / "edgy.insert.facts").write_text("a\t1\n")
    (tmp_path / "edge.insert.facts").write_text("a\tb\n")
    with pytest.raises(DataError) as caught:
        read_changes(CHECKED, tmp_path)
    assert sorted((d.code, d.hint) for d in caught.value.diagnostics) == [
        ("E503", ""),
        ("E513", "Call it R.insert.facts or R.delete.facts (or .csv, .parquet), or remove it."),
        ("E514", "Did you mean `edge`?"),
    ]


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"error\[E501\]: file `.*/none.dl` does not exist"):
        read_changes(CHECKED, tmp_path / "none.dl")
