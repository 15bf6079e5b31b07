"""What cannot be stored, written or honored is refused where it comes in, whatever way it takes; no tracebacks."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sempre
from sempre.diagnostics import BackendError, DataError, ProgramError, SempreError, StateError

HALF = "\ud800"
SYMBOLS = ".type R = [s: symbol]\n.decl e(x: symbol)\n.decl r(x: R)\n.decl f(x: float)\n.decl n(x: number)\n"
LISTS = ".type L = [h: number, t: L]\n.decl e(x: L)\n.decl size(n: number)\nsize(f_size(x)) :- e(x).\n"


@pytest.fixture
def db() -> sempre.Database:
    db = sempre.Database(SYMBOLS)
    db.apply(insert={"e": ["a"]})
    return db


WAYS: dict[str, Callable[[sempre.Database], Any]] = {
    "rows": lambda db: db.apply(insert={"e": [(HALF,)]}),
    "scalars": lambda db: db.apply(insert={"e": [HALF]}),
    "dicts": lambda db: db.apply(insert={"e": [{"x": f"a{HALF}"}]}),
    "deletions": lambda db: db.apply(delete={"e": ["\udfff"]}),
    "whatif": lambda db: db.whatif(insert={"e": [HALF]}),
    "pandas": lambda db: db.apply(insert={"e": pytest.importorskip("pandas").DataFrame({"x": [HALF]})}),
    "records": lambda db: db.apply(insert={"r": [((HALF,),)]}),
    "records as text": lambda db: db.apply(insert={"r": [f"[{HALF}]"]}),
    "bytes in Arrow": lambda db: db.apply(insert={"e": not_utf8()}),
}


def not_utf8() -> pa.Table:
    buffers = [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    return pa.table({"x": pa.Array.from_buffers(pa.string(), 1, buffers)})


@pytest.mark.parametrize("way", WAYS)
def test_half_characters_do_not_come_in(db: sempre.Database, way: str) -> None:
    before = db.epoch
    with pytest.raises(DataError):
        WAYS[way](db)
    assert db.epoch == before
    assert list(db["e"]) == [("a",)]


def test_the_words_for_half_a_character(db: sempre.Database) -> None:
    with pytest.raises(DataError) as caught:
        db.apply(insert={"e": [HALF]})
    assert str(caught.value) == (
        "error[E500]: relation `e`: column `x`: '\\ud800' is no text that can be stored or written\n"
        "hint: Half of a surrogate pair is no character: replace it before inserting."
    )


@pytest.mark.parametrize(
    "text", [f'.decl e(x: symbol)\ne("{HALF}").', f"// {HALF}\n.decl e(x: symbol)"], ids=["constant", "comment"]
)
def test_half_characters_are_no_program(text: str) -> None:
    with pytest.raises(ProgramError, match=r"E102.*U\+D800 is no character"):
        sempre.Program(text)


def test_half_characters_are_no_query(db: sempre.Database) -> None:
    with pytest.raises(ProgramError, match=r"U\+D800 is no character"):
        db.query(f'e("{HALF}")')
    assert HALF not in db["e"]


def test_half_characters_are_no_change(tmp_path: Path) -> None:
    (tmp_path / "half.changes").write_bytes(b'+e("\xed\xa0\x80"). commit.\n')
    (tmp_path / "e.insert.facts").write_bytes(b"\xed\xa0\x80\n")
    checked = sempre.Program(SYMBOLS).checked
    from sempre.files import read_changes

    for path in (tmp_path / "half.changes", tmp_path):
        with pytest.raises(DataError):
            list(read_changes(checked, path))


@pytest.mark.parametrize(
    ("relation", "value", "words"),
    [
        ("f", 10**400, "does not fit in a float"),
        ("n", 10**5000, "this value does not fit"),
        ("f", "x" * 1000, r"'x{199}\.\.\. \(str\) is not"),
    ],
    ids=["float", "number", "text"],
)
def test_large_values_are_refused_in_few_words(db: sempre.Database, relation: str, value: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        db.apply(insert={relation: [(value,)]})


@pytest.mark.parametrize("size", [900, 30_000])
def test_long_lists_come_in_as_tuples(size: int) -> None:
    value: Any = None
    for number in range(size):
        value = (number, value)
    db = sempre.Database(LISTS)
    db.apply(insert={"e": [(value,)]})
    assert list(db["size"]) == [(size,)]
    assert (value,) in db["e"]


def test_lists_that_contain_themselves_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sempre.ingest.DEEPEST_RECORD", 1000)
    endless: list[Any] = [1, None]
    endless[1] = endless
    with pytest.raises(DataError, match="more than 1,000 in each other"):
        sempre.Database(LISTS).apply(insert={"e": [(endless,)]})


def test_records_in_all_spellings() -> None:
    db = sempre.Database(LISTS)
    db.apply(insert={"e": [("nil",), (None,), ("[1, nil]",), ([2, "[3, nil]"],), ((4, (5, None)),)]})
    assert set(db["e"]) == {(None,), ((1, None),), ((2, (3, None)),), ((4, (5, None)),)}


def test_a_transaction_that_has_ended_says_so(db: sempre.Database) -> None:
    with db.transaction() as ended:
        ended.insert("e", ["b"])
    for change in (ended.insert, ended.delete):
        with pytest.raises(StateError, match="this transaction has ended"):
            change("e", ["c"])
    with pytest.raises(ZeroDivisionError), db.transaction() as failed:
        raise ZeroDivisionError
    with pytest.raises(StateError, match="this transaction has ended"):
        failed.insert("e", ["c"])
    assert sorted(db["e"]) == [("a",), ("b",)]


def test_a_file_of_a_store_that_cannot_be_read(tmp_path: Path) -> None:
    with sempre.Database(SYMBOLS, store=tmp_path / "store") as db:
        db.apply(insert={"e": ["a"]})
    (log,) = (tmp_path / "store" / "log").iterdir()
    log.unlink()
    log.mkdir()
    with pytest.raises(StateError, match=r"E606.*cannot read `.*log.*`: is a directory"):
        list(sempre.Database.open(tmp_path / "store")["e"])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"workers": 7}, BackendError, "`workers` has no effect without a Spark session"),
        ({"workers": 7, "place": "driver"}, BackendError, "`workers` has no effect with place `driver`"),
        ({"workers": 0, "place": "workers"}, StateError, "`workers` is 0"),
        ({"workers": 2, "place": "workers"}, BackendError, "place `workers` needs a Spark session"),
        ({"memory": "1g", "place": "workers"}, StateError, "`memory` has no effect with place `workers`"),
        ({"place": "workers", "semantics": "active"}, BackendError, "place `workers` needs a Spark session"),
        ({"workers": 2, "semantics": "active"}, BackendError, "active rules have no use for `workers` here"),
        ({"place": "cluster", "semantics": "active"}, StateError, "place `cluster` is for stratified rules"),
        ({"memory": 5.5}, StateError, "`5.5` is not a size"),
        ({"memory": 0}, StateError, "`0` is not a size"),
        ({"memory": -1}, StateError, "`-1` is not a size"),
        ({"memory": True}, StateError, "`True` is not a size"),
        ({"memory": "2G"}, StateError, "no effect without a Spark session"),
        ({"threads": 0}, StateError, "`threads` is 0"),
        ({"threads": -2}, StateError, "`threads` is -2"),
        ({"threads": 1.5}, StateError, "`threads` is 1.5"),
        ({"threads": "2"}, StateError, "`threads` is '2'"),
        ({"cycles": 5}, StateError, "`cycles` is for active rules"),
        ({"epoch": 1}, StateError, "`epoch` is for databases in stores"),
        ({"migrate": True}, StateError, "`migrate` is for databases in stores"),
        ({"modules": 5}, StateError, "`modules` is 5"),
        ({"strategy": None}, StateError, "unknown strategy"),
        ({"place": "moon"}, BackendError, "unknown place"),
    ],
)
def test_options_that_cannot_be_honored(options: dict[str, Any], error: type[SempreError], words: str) -> None:
    with pytest.raises(error, match=words):
        sempre.Database(SYMBOLS, **options)


def test_every_option_of_a_database_is_looked_at() -> None:
    """An option that `__init__` takes and never mentions would be dropped without a word."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(sempre.Database.__init__))).body
    assert isinstance(function, ast.FunctionDef)
    taken = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    assert "workers" in taken
    read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    assert taken - read == set()


def test_gzip_has_a_bound_that_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    monkeypatch.setattr("sempre.files.read.SMALL_ENOUGH", 10_000)
    (tmp_path / "e.facts.gz").write_bytes(gzip.compress(b"a" * 100_000) + gzip.compress(b"a" * 100_000))
    size = (tmp_path / "e.facts.gz").stat().st_size
    program = ".decl e(x: symbol)\n.input e\n"
    with pytest.raises(DataError) as caught:
        sempre.Database(program).load(tmp_path)
    assert str(caught.value) == (
        f"error[E520]: `{tmp_path}/e.facts.gz` unpacks to more than {100 * size:,} bytes, from {size:,}\n"
        f"  --> {tmp_path}/e.facts.gz\n"
        "hint: If it is what you expect, allow more: SEMPRE_MOST_UNPACKED=8G in the environment."
    )
    monkeypatch.setenv("SEMPRE_MOST_UNPACKED", "1M")
    db = sempre.Database(program)
    db.load(tmp_path)
    assert list(db["e"]) == [("a" * 200_000,)]


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("io", "name", "data"),
    [
        ("", "e.facts", b"a\nb\n"),
        ("IO=csv, headers=true", "e.csv", b"x\na\nb\n"),
        ("rfc4180=true", "e.facts", b'"a"\n"b"\n'),
        ("IO=json", "e.json", b'[["a"], ["b"]]'),
        ("IO=json, format=lines", "e.json", b'{"x": "a"}\n{"x": "b"}\n'),
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_facts(tmp_path: Path, io: str, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(MARK + data)
    (tmp_path / "p.dl").write_bytes(MARK + f".decl e(x: symbol)\n.input e({io})\n".encode())
    (tmp_path / "c.changes").write_bytes(MARK + b'+e("c"). commit.\n')
    from sempre.files import read_changes

    program = sempre.Program.from_file(tmp_path / "p.dl")
    db = sempre.Database(program)
    db.load(tmp_path)
    (epoch,) = read_changes(program.checked, tmp_path / "c.changes")
    db.apply(insert=epoch.insert)
    assert sorted(db["e"]) == [("a",), ("b",), ("c",)]


def coded(texts: list[str | None], rows: list[int]) -> pa.Table:
    """Texts with a null in their dictionary, which Arrow does not count among the nulls of the rows."""
    return pa.table({"x": pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(rows), pa.array(texts))])})


@pytest.mark.parametrize("relation", ["e", "r"])
def test_a_null_in_a_dictionary_is_a_null_of_the_rows_that_have_it(db: sempre.Database, relation: str) -> None:
    texts = ["[a]", None, "[b]"]
    if relation == "e":
        with pytest.raises(DataError, match="column `x` has 2 null values"):
            db.apply(insert={"e": coded(texts, [0, 1, 1])})
        assert list(db["e"]) == [("a",)]
    else:
        db.apply(insert={"r": coded(texts, [0, 1, 1])})
        assert set(db["r"]) == {(("a",),), (None,)}
    db.apply(insert={relation: coded(texts, [2, 2])})
    assert len(db[relation]) == (2 if relation == "e" else 3)


def test_frames_of_other_shapes(db: sempre.Database) -> None:
    pandas = pytest.importorskip("pandas")
    db.apply(insert={"e": pa.table({"x": ["b"]}).to_reader(), "n": pandas.Series([1, 2, 2])})
    db.apply(insert={"n": pandas.DataFrame({"x": []}, dtype=object)}, delete={"n": pa.table({"x": pa.nulls(0)})})
    assert sorted(db["e"]) == [("a",), ("b",)]
    assert sorted(db["n"]) == [(1,), (2,)]
    with pytest.raises(DataError, match=r"\(Int64Scalar\) is not"):
        db.apply(insert={"n": pa.array([3])})


def test_arguments_of_other_types_are_refused_in_words(db: sempre.Database) -> None:
    rows: Any = [("b",)]
    for change, side in ((db.apply, "insert"), (db.apply, "delete"), (db.whatif, "insert")):
        with pytest.raises(DataError, match="what changes is given by relation, and this is list"):
            change(**{side: rows})
    with pytest.raises(DataError, match="no relation is called `1`"):
        db.apply(insert={1: rows})  # type: ignore[dict-item]
    makers: tuple[Any, ...] = (sempre.Database, sempre.Network, sempre.Program)
    for make in makers:
        with pytest.raises(ProgramError, match="a program is a text, and this is PosixPath"):
            make(Path("reach.dl"))
    assert list(db["e"]) == [("a",)]
