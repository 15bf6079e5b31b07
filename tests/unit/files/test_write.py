"""Outputs: the exact bytes, and all files or none."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from sempre.analysis.model import Relation
from sempre.diagnostics import DataError
from sempre.files import read_inputs, schema_of, unit_table, write_changes, write_outputs
from sempre.files.directive_options import TextFormat
from sempre.files.encode import write_text
from tests.unit.files.build import program, relation


def table(made: Relation, *rows: tuple[object, ...]) -> pa.Table:
    schema = schema_of(made)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


def written(tmp_path: Path, columns: tuple[str, ...], rows: list[tuple[object, ...]], **options: str) -> bytes:
    made = relation("r", *columns, output=options)
    write_outputs(program(made), lambda _: table(made, *rows), tmp_path)
    (path,) = tmp_path.iterdir()
    return path.read_bytes()


GOOD = [
    (("x:number", "y:number"), [(1, 2), (-3, 4)], {}, b"1\t2\n-3\t4\n"),
    (("x:number",), [], {}, b""),
    (("x:unsigned",), [(2**64 - 1,)], {}, b"18446744073709551615\n"),
    (("x:float",), [(1.0,), (0.1,), (1e300,), (float("nan"),)], {}, b"1\n0.1\n1e+300\nnan\n"),
    (("x:symbol", "y:number"), [("a b", 1), ("", 2)], {}, b"a b\t1\n\t2\n"),
    (("x:symbol",), [('say "hi", you',), ("żółć",)], {}, 'say "hi", you\nżółć\n'.encode()),
    (("x:List",), [("[1, [2, nil]]",)], {}, b"[1, [2, nil]]\n"),
    (("x:number", "y:number"), [(1, 2)], {"delimiter": ",", "headers": "true"}, b"x,y\n1,2\n"),
    (("x:number", "y:number"), [(1, 2)], {"delimiter": "::"}, b"1::2\n"),
    (("x:symbol", "y:number"), [('a"b,c', 1)], {"rfc4180": "true"}, b'"a""b,c",1\n'),
    (("x:symbol", "y:number"), [("a,b", 1)], {"delimiter": ","}, b"a,b,1\n"),
    (("x:number", "y:List"), [(1, "[2, nil]")], {"IO": "jsonfile"}, b"[[1, [2, null]]]\n"),
    (("x:number", "y:symbol"), [(1, "ż")], {"IO": "jsonfile", "format": "object"}, '[{"x": 1, "y": "ż"}]\n'.encode()),
    (("x:number",), [], {"IO": "jsonfile"}, b"[]\n"),
]


@pytest.mark.parametrize(("columns", "rows", "options", "expected"), GOOD)
def test_writes(
    columns: tuple[str, ...], rows: list[tuple[object, ...]], options: dict[str, str], expected: bytes, tmp_path: Path
) -> None:
    assert written(tmp_path, columns, rows, **options) == expected


def test_compressed_output_is_the_same_every_time(tmp_path: Path) -> None:
    first = written(tmp_path, ("x:number",), [(1,)], compress="true")
    assert [path.name for path in tmp_path.iterdir()] == ["r.csv.gz"]
    assert gzip.decompress(first) == b"1\n"
    assert written(tmp_path, ("x:number",), [(1,)], compress="true") == first


@pytest.mark.parametrize("others", [1, 5_000])
def test_a_tab_in_a_symbol_passes_with_a_warning(others: int, tmp_path: Path) -> None:
    made = relation("r", "x:symbol", output={})
    result = write_outputs(program(made), lambda _: table(made, ("a\tb",), ("c\nd",), *[("e",)] * others), tmp_path)
    assert (tmp_path / "r.csv").read_bytes() == b"a\tb\nc\nd\n" + b"e\n" * others
    (warning,) = result.warnings
    assert (warning.code, warning.severity) == ("W501", "warning")
    assert warning.message == "2 values of `r` contain the delimiter or a line break"


@pytest.mark.parametrize("holds", [True, False])
def test_a_relation_without_columns(holds: bool, tmp_path: Path) -> None:
    made = relation("r", output={})
    write_outputs(program(made), lambda _: unit_table(holds), tmp_path)
    assert (tmp_path / "r.csv").read_bytes() == (b"()\n" if holds else b"")


@pytest.mark.parametrize(
    "options", [{}, {"rfc4180": "true"}, {"IO": "jsonfile"}, {"IO": "parquet"}, {"compress": "true"}]
)
def test_what_is_written_is_read_back(options: dict[str, str], tmp_path: Path) -> None:
    columns = ("a:number", "b:unsigned", "c:float", "d:symbol", "e:Pair")
    rows = [(-(2**63), 2**64 - 1, 0.1, "ż ", '["a, b", 1.5]'), (0, 0, -1e-300, '"', "nil")]
    name = {"jsonfile": "r.json", "parquet": "r.parquet"}.get(options.get("IO", ""), "r.data")
    options = {**options, "filename": name}
    made = relation("r", *columns, input=options, output=options)
    write_outputs(program(made), lambda _: table(made, *rows), tmp_path)
    assert read_inputs(program(made), tmp_path)["r"].to_pylist() == table(made, *rows).to_pylist()


def test_a_stream_of_batches_and_dictionary_columns_are_accepted(tmp_path: Path) -> None:
    made = relation("r", "x:symbol", output={})
    coded = pa.table({"x": pa.array(["a", "b", "a"]).dictionary_encode()})
    write_outputs(program(made), lambda _: coded.to_reader(2), tmp_path)
    assert (tmp_path / "r.csv").read_bytes() == b"a\nb\na\n"


def test_printing_is_as_souffle_prints(tmp_path: Path) -> None:
    first = relation("r", "x:number", "y:number", output={})
    second = relation("s", "x:symbol", output={"IO": "stdout", "headers": "true"}, printsize=True)
    tables = {"r": table(first, (1, 2)), "s": table(second, ("a",))}
    sink = io.BytesIO()
    write_outputs(program(first, second), tables.__getitem__, "-", stdout=sink)
    assert sink.getvalue().decode() == (
        "---------------\nr\nx\ty\n===============\n1\t2\n===============\n"
        "---------------\ns\nx\n===============\na\n===============\n"
        "s\t1\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_counted_without_a_table_where_possible() -> None:
    made = relation("r", "x:number", printsize=True, output={"IO": "stdoutprintsize"})
    sink = io.BytesIO()

    def no_table(name: str) -> pa.Table:
        raise AssertionError(name)

    write_outputs(program(made), no_table, ".", count=lambda _: 7, stdout=sink)
    assert sink.getvalue() == b"r\t7\nr\t7\n"


def test_a_failure_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    made = [relation(name, "x:number", output={}) for name in ("a", "b")]
    (tmp_path / "a.csv").write_text("old\n")
    (tmp_path / "mine.txt").write_text("mine\n")

    def get(name: str) -> pa.Table:
        if name == "b":
            raise RuntimeError("no table")
        return table(made[0], (1,))

    with pytest.raises(RuntimeError):
        write_outputs(program(*made), get, tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "old\n", "mine.txt": "mine\n"}


def test_missing_folders_are_made_and_neighbors_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine\n")
    made = relation("r", "x:number", output={"filename": "deep/er.tsv"})
    write_outputs(program(made), lambda _: table(made, (1,)), tmp_path)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["deep/er.tsv", "mine.txt"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file\n")
    made = relation("r", "x:number", output={})
    with pytest.raises(DataError) as caught:
        write_outputs(program(made), lambda _: table(made, (1,)), tmp_path / "out")
    assert str(caught.value).replace(str(tmp_path), "DIR") == (
        "error[E512]: cannot write `DIR/out/r.csv`: file exists\nhint: Choose another folder with -D."
    )


def test_a_link_is_followed_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    made = relation("r", "x:number", output={})
    (tmp_path / "real.csv").write_text("old\n")
    (tmp_path / "r.csv").symlink_to(tmp_path / "real.csv")
    write_outputs(program(made), lambda _: table(made, (1,)), tmp_path)
    assert (tmp_path / "r.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "1\n"
    (tmp_path / "r.csv").unlink()
    os.mkfifo(tmp_path / "r.csv")
    reader = os.open(tmp_path / "r.csv", os.O_RDONLY | os.O_NONBLOCK)
    write_outputs(program(made), lambda _: table(made, (2,)), tmp_path)
    assert os.read(reader, 10) == b"2\n"
    os.close(reader)


def test_changes_are_written_for_outputs(tmp_path: Path) -> None:
    changes = SimpleNamespace(
        added={"r": table(relation("r", "x:number"), (1,)), "s": unit_table(False)},
        removed={"r": table(relation("r", "x:number")), "s": unit_table(True)},
    )
    r, s = relation("r", "x:number", output={}), relation("s")
    write_changes(program(r, s), changes, tmp_path / "1")
    assert {path.name: path.read_text() for path in (tmp_path / "1").iterdir()} == {
        "r.added.csv": "1\n",
        "r.removed.csv": "",
    }
    write_changes(program(s), changes, tmp_path / "2")
    assert {path.name: path.read_text() for path in (tmp_path / "2").iterdir()} == {
        "s.added.csv": "",
        "s.removed.csv": "()\n",
    }


def test_json_of_a_relation_without_columns(tmp_path: Path) -> None:
    made = relation("r", output={"IO": "jsonfile"})
    write_outputs(program(made), lambda _: unit_table(True), tmp_path)
    assert json.loads((tmp_path / "r.json").read_text()) == [[]]


@pytest.mark.parametrize("size", [5, 5000])
@pytest.mark.parametrize("texts", [("a,b", "<init>(int,int)"), ('"a"', "b"), ("a\rb", "c"), ("é,→", ""), ("x", "y")])
def test_texts_are_written_as_they_are(texts: tuple[str, str], size: int) -> None:
    """By whichever way: Arrow's own writer, or columns joined where it would refuse."""
    rows = pa.table({"x": [texts[0]] * size, "y": [texts[1]] * size, "z": list(range(size))}).slice(1)
    sink = io.BytesIO()
    broken = write_text(rows, sink, relation("r", "x:symbol", "y:symbol", "z:number"), TextFormat())
    assert sink.getvalue() == "".join(f"{texts[0]}\t{texts[1]}\t{at}\n" for at in range(1, size)).encode()
    assert broken == 0


@pytest.mark.parametrize("size", [5, 5000])
def test_values_that_break_lines_are_counted(size: int) -> None:
    rows = pa.table({"x": ["a\tb", "c\nd", "e"] * size, "y": ["\t", "f", "g"] * size})
    assert write_text(rows, io.BytesIO(), relation("r", "x:symbol", "y:symbol"), TextFormat()) == 3 * size


def test_json_without_the_name_of_a_file_is_printed(tmp_path: Path) -> None:
    """As in Soufflé; with `-D -` it is a table as everything else."""
    made = relation("r", "x:List", output={"IO": "json", "format": "object"})
    tables = {"r": table(made, ("[1, [2, nil]]",))}
    for where, expected in (
        (tmp_path, '[{"x": {"head": 1, "tail": {"head": 2, "tail": null}}}]\n'),
        ("-", "---------------\nr\nx\n===============\n[1, [2, nil]]\n===============\n"),
    ):
        sink = io.BytesIO()
        write_outputs(program(made), tables.__getitem__, where, stdout=sink)
        assert sink.getvalue().decode() == expected
    assert list(tmp_path.iterdir()) == []
