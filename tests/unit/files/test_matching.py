"""Which column is which: by name, and by position only on request."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.diagnostics import DataError, ProgramError
from sempre.files import read_inputs
from sempre.files.columns import is_by_position
from sempre.files.matching import ColumnChoice, matched
from tests.unit.files.build import relation

STAFF = relation("t", "emp:symbol", "mgr:symbol")
DECLARED = ".decl t(emp: symbol, mgr: symbol)\n"


def places(names: list[str], taking: ColumnChoice | None = None) -> tuple[tuple[int, ...], bool]:
    found = matched(STAFF, names, "it", taking or ColumnChoice())
    return found.places, found.by_name


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["emp", "mgr"], (0, 1)),
        (["mgr", "emp"], (1, 0)),
        (["MGR", "EMP"], (1, 0)),
        (["Mgr", "emp"], (1, 0)),
    ],
)
def test_names_decide_whatever_their_case(names: list[str], wanted: tuple[int, ...]) -> None:
    assert places(names) == (wanted, True)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["boss", "worker"], "not found: emp, mgr"),
        (["employee", "mgr"], "select employee as emp, mgr"),
        (["emp", "manager"], "select emp, manager as mgr"),
        (["mgr", "who is it"], "select `who is it` as emp, mgr"),
        (["emp", "mgr", "since"], "the relation has no since"),
        (["emp"], "select emp, ... as mgr"),
        ([], "`t` has the columns emp, mgr; it has none"),
        (["emp", "emp"], "more than one is called emp"),
        (["EMP", "Emp"], "more than one is called emp"),
        (["mgr", "MGR"], "not found: emp"),
        (["0", "2"], "not found: emp, mgr"),
        (["_1"], "relation `t` has 2 columns, it has 1"),
    ],
)
def test_names_that_do_not_match_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(DataError) as caught:
        places(names)
    assert caught.value.diagnostics[0].code == "E502"
    assert said in str(caught.value)


@pytest.mark.parametrize("names", [["_1", "_2"], ["_c0", "_c1"], ["column_0", "column_1"], ["0", "1"]])
def test_names_that_a_tool_made_up_are_none(names: list[str]) -> None:
    assert places(names) == ((0, 1), False)
    with pytest.raises(DataError, match="not found"):
        matched(STAFF, names, "it", made_up=False)


def test_on_request() -> None:
    assert places(["boss", "worker"], ColumnChoice(by_position=True)) == ((0, 1), False)
    assert places(["mgr", "emp"], ColumnChoice(by_position=True)) == ((0, 1), False)
    assert places(["a", "b", "c"], ColumnChoice((2, 0))) == ((2, 0), False)
    assert places(["since", "Mgr", "emp"], ColumnChoice(extra=True)) == ((2, 1), True)
    for names, taking in ((["a", "b", "c"], ColumnChoice(by_position=True)), (["a"], ColumnChoice((1, 0)))):
        with pytest.raises(DataError, match="E502"):
            places(names, taking)
    with pytest.raises(DataError, match="not found: emp"):
        places(["EMP", "Emp", "mgr"], ColumnChoice(extra=True))


def test_names_that_differ_in_case_only_are_told_apart() -> None:
    both = relation("r", "x:number", "X:number")
    assert matched(both, ["X", "x"], "it").places == (1, 0)
    for names in (["x", "Y"], ["X", "X"], ["x", "x"]):
        with pytest.raises(DataError):
            matched(both, names, "it")


def test_no_column_is_ever_taken_for_another() -> None:
    """Whatever is accepted without a request has the names that were asked for, but for case."""
    rng = random.Random(14)
    pool = ["a", "A", "b", "B", "ab", "aB", "AB", "_1", "0"]
    for _ in range(3_000):
        wanted = rng.sample(pool, rng.randint(1, 3))
        names = [rng.choice(pool) for _ in range(rng.randint(0, 4))]
        extra = rng.random() < 0.5
        made = relation("r", *(f"{name}:symbol" for name in wanted))
        try:
            found = matched(made, names, "it", ColumnChoice(extra=extra), made_up=False)
        except DataError:
            exact = len(set(names)) == len(names) and set(wanted) <= set(names)
            assert not (exact and (extra or len(names) == len(wanted)))
            continue
        assert found.by_name
        assert len(set(found.places)) == len(wanted)
        assert extra or len(names) == len(wanted)
        for name, place in zip(wanted, found.places, strict=True):
            assert names[place].casefold() == name.casefold()
            assert names[place] == name or name not in names
            if names[place] != name:  # no other one can be meant, and no other column can mean it
                left = [each for each in names if each not in wanted]
                assert sum(each.casefold() == name.casefold() for each in left) == 1
                rivals = [each for each in wanted if each not in names]
                assert sum(each.casefold() == name.casefold() for each in rivals) == 1


# ------------------------------------------------------------------------------------------- everywhere the same

ROWS = [("worker", "boss"), ("clerk", "worker")]


def written(folder: Path, io: str, names: list[str]) -> str:
    """A file of `ROWS` whose columns are in the order of `names`; the options that read it."""
    column = {"emp": 0, "mgr": 1}
    columns = [[row[column.get(name.casefold(), 0)] for row in ROWS] for name in names]
    lines = list(zip(*columns, strict=True))
    if io == "parquet":
        arrays = [pa.array(column) for column in columns]
        pq.write_table(pa.Table.from_arrays(arrays, names=names), folder / "t.parquet")
        return "IO=parquet"
    if io in ("json", "lines"):
        import json

        objects = [dict(zip(names, line, strict=True)) for line in lines]
        text = json.dumps(objects) if io == "json" else "".join(json.dumps(each) + "\n" for each in objects)
        (folder / "t.json").write_text(text, "utf-8")
        return "IO=json" if io == "json" else "IO=json, format=lines"
    mark = "," if io == "csv" else "\t"
    text = "".join(mark.join(line) + "\n" for line in [tuple(names), *lines])
    (folder / "t.facts").write_text(text, "utf-8")
    return "headers=true" + (", rfc4180=true" if io == "csv" else "")


KINDS_OF_FILES = ("parquet", "json", "lines", "text", "csv")


@pytest.mark.parametrize("io", KINDS_OF_FILES)
@pytest.mark.parametrize("names", [list(each) for each in itertools.permutations(["emp", "MGR"])])
def test_files_go_by_name(io: str, names: list[str], tmp_path: Path) -> None:
    options = written(tmp_path, io, names)
    db = sempre.Database(f"{DECLARED}.input t({options})\n")
    assert db.load(tmp_path).report.by_position == ()
    assert sorted(db["t"]) == sorted(ROWS)


@pytest.mark.parametrize("io", KINDS_OF_FILES)
def test_files_with_other_names_are_refused(io: str, tmp_path: Path) -> None:
    options = written(tmp_path, io, ["boss", "worker"])
    with pytest.raises(DataError, match="E502"):
        sempre.Database(f"{DECLARED}.input t({options})\n").load(tmp_path)


@pytest.mark.parametrize("io", KINDS_OF_FILES)
def test_further_columns_are_left_out_on_request_only(io: str, tmp_path: Path) -> None:
    options = written(tmp_path, io, ["note", "mgr", "emp"])
    with pytest.raises(DataError, match=r"extra=ignore in \.input leaves the others out"):
        sempre.Database(f"{DECLARED}.input t({options})\n").load(tmp_path)
    db = sempre.Database(f"{DECLARED}.input t({options}, extra=ignore)\n")
    assert db.load(tmp_path).report.by_position == ()
    assert sorted(db["t"]) == sorted(ROWS)


@pytest.mark.parametrize("io", ["parquet", "text", "csv"])
def test_places_on_request_are_reported(io: str, tmp_path: Path) -> None:
    options = written(tmp_path, io, ["mgr", "note", "emp"])
    db = sempre.Database(f'{DECLARED}.input t({options}, columns="0:2")\n')
    assert db.load(tmp_path).report.by_position == ("t",)
    assert sorted(db["t"]) == sorted((mgr, emp) for emp, mgr in ROWS)
    assert db.apply(insert={"t": [("a", "b")]}).report.by_position == ()


def test_lines_are_as_long_as_the_first(tmp_path: Path) -> None:
    (tmp_path / "t.facts").write_text("mgr\tnote\temp\na\tb\tc\na\tb\tc\td\n", "utf-8")
    with pytest.raises(DataError, match="expected 3 columns, found 4"):
        sempre.Database(f"{DECLARED}.input t(headers=true, extra=ignore)\n").load(tmp_path)


def test_names_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "t.facts").write_bytes(b'\xef\xbb\xbf"mgr","a ""note""\nof two lines",emp\r\nboss,x,worker\r\n')
    db = sempre.Database(f"{DECLARED}.input t(headers=true, rfc4180=true, extra=ignore)\n")
    db.load(tmp_path)
    assert list(db["t"]) == [("worker", "boss")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("extra=ignore", "needs names to tell columns apart"),
        ("extra=drop", "`extra=drop` is unknown"),
        ('IO=json, columns="0:1"', "`columns` has no use with `IO=json`"),
        ('IO=parquet, columns="0:1", extra=ignore', "Keep one of them"),
        ('IO=parquet, columns="0"', "must name 2 different places"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match=said):
        sempre.Database(f"{DECLARED}.input t({options})\n").load(tmp_path)
    with pytest.raises(ProgramError):
        read_inputs(sempre.Program(f"{DECLARED}.input t({options})\n").checked, tmp_path)


def test_outputs_have_the_columns_of_their_relation(tmp_path: Path) -> None:
    from sempre.files import check_directives

    for options in ("extra=ignore", 'IO=parquet, columns="0:1"', 'columns="1:0"'):
        (found,) = check_directives(sempre.Program(f"{DECLARED}.output t({options})\n").checked)
        assert found.code == "E511"


def test_a_change_folder_goes_by_name(tmp_path: Path) -> None:
    from sempre.files import read_changes

    checked = sempre.Program(DECLARED).checked
    pq.write_table(pa.table({"MGR": ["boss"], "EMP": ["worker"]}), tmp_path / "t.insert.parquet")
    (epoch,) = read_changes(checked, tmp_path)
    assert epoch.insert["t"].to_pylist() == [{"emp": "worker", "mgr": "boss"}]
    pq.write_table(pa.table({"a": ["boss"], "b": ["worker"]}), tmp_path / "t.insert.parquet")
    with pytest.raises(DataError, match="Say which is which"):
        read_changes(checked, tmp_path)
    assert not is_by_position(epoch.insert["t"])


# ----------------------------------------------------------------------------------------------------- in Python


def test_the_report_says_what_went_by_position() -> None:
    db = sempre.Database(DECLARED)
    table = pa.table({"who": ["worker"], "whom": ["boss"]})
    with pytest.raises(DataError, match=r"sempre.by_position\(...\) takes them as they come"):
        db.apply(insert={"t": table})
    report = db.apply(insert={"t": sempre.by_position(table)}).report
    assert (report.by_position, list(db["t"])) == (("t",), [("worker", "boss")])
    assert db.apply(delete={"t": sempre.by_position(table)}).report.by_position == ("t",)
    assert db.apply(insert={"t": table.rename_columns(["EMP", "Mgr"])}).report.by_position == ()
    assert db.whatif(insert={"t": sempre.by_position(table)}).report.by_position == ("t",)
    with db.transaction() as changes:
        changes.insert("t", sempre.by_position(table))
    assert changes.changes is not None
    assert changes.changes.report.by_position == ("t",)
    assert db.apply(insert={"t": [("a", "b"), {"mgr": "c", "emp": "d"}]}).report.by_position == ()


def test_an_epoch_that_failed_leaves_no_note() -> None:
    db = sempre.Database(DECLARED + ".decl n(x: number)\n")
    table = pa.table({"who": ["worker"], "whom": ["boss"]})
    with pytest.raises(DataError):
        db.apply(insert={"t": sempre.by_position(table), "n": [("no number",)]})
    assert db.apply(insert={"n": [(1,)]}).report.by_position == ()


def test_frames_of_pandas_go_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    db = sempre.Database(DECLARED)
    report = db.apply(insert={"t": pandas.DataFrame({"Mgr": ["boss"], "Emp": ["worker"]})}).report
    assert (list(db["t"]), report.by_position) == ([("worker", "boss")], ())
    report = db.apply(insert={"t": pandas.DataFrame([("worker", "boss"), ("clerk", "boss")])}).report
    assert (len(db["t"]), report.by_position) == (2, ("t",))
    with pytest.raises(DataError, match="Say which is which"):
        db.apply(insert={"t": pandas.DataFrame({"boss": ["boss"], "worker": ["worker"]})})


def test_a_request_that_is_none() -> None:
    with pytest.raises(DataError, match="error or ignore"):
        sempre.by_name([], extra="drop")
