"""The Python contract, as a user meets it."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sempre
from sempre import api

REACH = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""
KINDS = """
.type List = [head: number, tail: List]
.decl all(a: number, b: unsigned, c: float, d: symbol, e: List)
.decl copy(a: number, b: unsigned, c: float, d: symbol, e: List)
copy(a, b, c, d, e) :- all(a, b, c, d, e).
.decl on()
.decl off()
off() :- !on().
.decl one(x: number)
"""
ROW = (-5, (1 << 64) - 1, 0.5, "żółw", (1, (2, None)))


@pytest.fixture
def db() -> sempre.Database:
    return sempre.Database(REACH)


@pytest.fixture
def kinds() -> sempre.Database:
    return sempre.Database(KINDS)


def test_everything_public_is_listed() -> None:
    assert sempre.__all__ == [
        "BackendError", "ChangeSet", "CycleChanges", "DataError", "Database", "Diagnostic", "InternalError",
        "ModuleFacts", "ModuleState", "Network", "Program", "ProgramError", "Report", "RuleModule", "SempreError",
        "StateError", "Transaction", "Trusted", "View", "__version__", "aggregate", "by_name", "by_position", "functor",
    ]  # fmt: skip
    assert all(hasattr(sempre, name) for name in sempre.__all__)
    assert dir(sempre) == sorted(sempre.__all__)
    with pytest.raises(AttributeError):
        _ = sempre.Databse  # type: ignore[attr-defined]


def test_public_things_have_docstrings() -> None:
    for name in sempre.__all__:
        thing = getattr(sempre, name)
        if inspect.isclass(thing):
            methods = [m for n, m in vars(thing).items() if inspect.isfunction(m) and not n.startswith("_")]
            assert thing.__doc__, name
            assert [m.__qualname__ for m in methods if not m.__doc__ and m.__name__ != "to_json"] == []


def test_the_examples_in_docstrings_work() -> None:
    found = doctest.testmod(api)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_tree_of_errors() -> None:
    for error in (sempre.ProgramError, sempre.DataError, sempre.StateError, sempre.BackendError, sempre.InternalError):
        assert issubclass(error, sempre.SempreError)


# ------------------------------------------------------------------------------------------------- rows in


def frames() -> list[Any]:
    table = pa.table({"x": ["a", "b"], "y": ["b", "c"]})
    return [
        [("a", "b"), ("b", "c")],
        [["a", "b"], ["b", "c"]],
        (pair for pair in [("a", "b"), ("b", "c")]),
        {("a", "b"), ("b", "c")},
        [{"x": "a", "y": "b"}, {"y": "c", "x": "b"}],
        table,
        table.to_batches()[0],
        table.select(["y", "x"]),  # by name when all names match
        table.select(["y", "x"]).rename_columns(["Y", "X"]),  # ignoring case
        table.rename_columns(["_1", "_2"]),  # names that a tool has made up
        sempre.by_position(table.rename_columns(["from", "to"])),
        sempre.by_name(table.append_column("z", pa.array([1, 2])), extra="ignore"),
        sempre.by_name([{"z": 1, "Y": "b", "x": "a"}, {"x": "b", "y": "c"}], extra="ignore"),
        sempre.by_position([{"from": "a", "to": "b"}, {"p": "b", "q": "c"}]),
        pa.table({"x": table["x"].dictionary_encode(), "y": table["y"].cast(pa.large_string())}),
    ]


@pytest.mark.parametrize("number", range(len(frames())))
def test_rows_in_many_shapes(number: int, db: sempre.Database) -> None:
    db.apply(insert={"edge": frames()[number]})
    assert sorted(db["reach"]) == [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_rows_of_data_frames(module: str, db: sempre.Database) -> None:
    frame = pytest.importorskip(module).DataFrame({"x": ["a"], "y": ["b"]})
    db.apply(insert={"edge": frame})
    assert list(db["edge"]) == [("a", "b")]
    assert getattr(db["edge"], f"to_{module}")().equals(frame)


def test_one_column_takes_bare_values(kinds: sempre.Database) -> None:
    kinds.apply(insert={"one": [1, (2,), [3]]})
    assert sorted(kinds["one"]) == [(1,), (2,), (3,)]


BAD: list[tuple[str, Any, str]] = [
    ("one", [None], "column `x` has 1 null value"),
    ("one", pa.table({"x": pa.array([1, None, None], pa.int64())}), "column `x` has 2 null values"),
    ("one", ["1"], "column `x` is number, and '1' (str) is not"),
    ("one", [1.0], "column `x` is number, and 1.0 (float) is not"),
    ("one", [1 << 63], "9223372036854775808 does not fit"),
    ("one", [(1, 2)], "a row has 2 values and the relation 1 columns"),
    ("one", pa.table({"x": ["1"]}), "column `x` is number, and the table has string"),
    ("one", pa.table({"x": pa.array([1 << 63], pa.uint64())}), "9223372036854775808 does not fit"),
    ("one", pa.table({"x": [1], "y": [2]}), "the relation has no y"),
    ("one", [{"z": 1}], "Say which is which: select z as x"),
    ("one", 7, "rows must be"),
    ("all", [(1, -1, 0.5, "a", None)], "-1 does not fit"),
    ("all", [(1, 1, "x", "a", None)], "column `c` is float"),
    ("all", [(1, 1, 1.0, 7, None)], "column `d` is symbol"),
    ("all", [(1, 1, 1.0, "a", (1, 2))], "column `e`"),
    ("all", [(1, 1, 1.0, "a", (1,))], "column `e`"),
]


@pytest.mark.parametrize(("relation", "rows", "message"), BAD)
def test_rows_that_do_not_fit(relation: str, rows: Any, message: str, kinds: sempre.Database) -> None:
    with pytest.raises(sempre.DataError) as error:
        kinds.apply(insert={relation: rows})
    assert message in str(error.value)
    assert f"`{relation}`" in str(error.value)
    assert len(kinds[relation]) == 0


def test_an_unknown_relation_gets_a_hint(db: sempre.Database) -> None:
    for use in (lambda: db.apply(insert={"edg": []}), lambda: db["edg"], lambda: db.query("edg(x, y)")):
        with pytest.raises(sempre.DataError, match="no relation is called `edg`") as error:
            use()
        assert "Did you mean `edge`?" in str(error.value)


# ------------------------------------------------------------------------------------------------ rows out


def test_every_kind_of_value_comes_back(kinds: sempre.Database) -> None:
    changes = kinds.apply(insert={"all": [ROW]})
    assert list(kinds["copy"]) == [ROW]
    assert ROW in kinds["copy"]
    (found,) = changes.added["copy"].to_pylist()
    assert found == {"a": -5, "b": (1 << 64) - 1, "c": 0.5, "d": "żółw", "e": "[1, [2, nil]]"}
    assert kinds["copy"].to_arrow().schema.types[:4] == [pa.int64(), pa.uint64(), pa.float64(), pa.string()]
    kinds.apply(delete={"all": kinds["all"].to_arrow()})  # what comes out may go in again
    assert len(kinds["copy"]) == 0


def test_floats_have_one_zero_and_one_nan(kinds: sempre.Database) -> None:
    def row(value: float) -> tuple[Any, ...]:
        return (0, 0, value, "", None)

    kinds.apply(insert={"all": [row(0.0), row(-0.0), row(float("nan")), row(-float("nan"))]})
    assert len(kinds["copy"]) == 2
    assert row(float("nan")) in kinds["copy"]


def test_a_relation_without_columns_holds_or_not(kinds: sempre.Database) -> None:
    assert (len(kinds["off"]), list(kinds["off"]), () in kinds["off"], () in kinds["on"]) == (1, [()], True, False)
    changes = kinds.apply(insert={"on": [()]})
    assert (len(kinds["on"]), len(kinds["off"])) == (1, 0)
    assert changes.removed["off"].num_rows == 1
    assert changes.added["off"].num_rows == 0


def test_membership(db: sempre.Database) -> None:
    db.apply(insert={"edge": [("a", "b")]})
    assert ("a", "b") in db["reach"]
    assert ("b", "a") not in db["reach"]
    assert ("never seen", "b") not in db["reach"]
    assert (1, 2) not in db["reach"]
    assert "ab" not in db["reach"]
    assert "reach" in db
    assert "nothing" not in db
    assert list(db) == ["edge", "reach"]


def test_queries(db: sempre.Database) -> None:
    db.apply(insert={"edge": [("a", "b"), ("b", "c"), ("c", "c")]})
    assert sorted(db.query('reach("a", X)')["X"].to_pylist()) == ["b", "c"]
    assert db.query("reach(X, X)").to_pylist() == [{"X": "c"}]
    assert sorted(db.query("reach(X, _)")["X"].to_pylist()) == ["a", "b", "c"]
    assert db.query("reach(X, Y)").num_rows == len(db["reach"])
    assert (db.query('reach("a", "c")').num_rows, db.query('reach("c", "a")').num_rows) == (1, 0)
    assert db.query('reach("unknown", X)').num_rows == 0
    for bad in ("reach(X)", "reach(1, X)", "reach(X", "reach(X, Y + 1)"):
        with pytest.raises(sempre.SempreError):
            db.query(bad)


def test_representations(db: sempre.Database) -> None:
    changes = db.apply(insert={"edge": [("a", "b")]})
    assert repr(db["reach"]) == "<View reach(x: symbol, y: symbol): 1 rows>"
    assert repr(changes) == "<ChangeSet: edge +1 -0, reach +1 -0>"
    assert repr(db.apply()) == "<ChangeSet: nothing changed>"
    assert repr(db.program) == "<Program: 2 relations, 2 rules>"


# -------------------------------------------------------------------------------------------------- epochs


def test_epoch_0_is_the_program_s_own_facts() -> None:
    db = sempre.Database(REACH + 'edge("a", "b").')
    assert db.epoch == 0
    assert list(db["reach"]) == [("a", "b")]
    db.apply(delete={"edge": [("a", "b")]})
    assert db.epoch == 1
    assert len(db["reach"]) == 0


def test_unchanged_relations_have_empty_tables(db: sempre.Database) -> None:
    changes = db.apply()
    assert not changes
    assert set(changes.added) == set(changes.removed) == {"edge", "reach"}
    assert changes.added["reach"].num_rows == changes.removed["reach"].num_rows == 0
    assert changes.added["reach"].column_names == ["x", "y"]
    with pytest.raises(KeyError):
        _ = changes.added["nothing"]


def test_an_epoch_deletes_first_and_reports_the_net_change(db: sempre.Database) -> None:
    db.apply(insert={"edge": [("a", "b"), ("b", "c")]})
    changes = db.apply(insert={"edge": [("a", "b"), ("c", "d")]}, delete={"edge": [("a", "b"), ("x", "x")]})
    assert ("a", "b") in db["edge"]
    assert changes.removed["edge"].num_rows == 0
    assert changes.report.added == {"edge": 1, "reach": 3}
    assert (changes.report.ignored_insertions, changes.report.ignored_deletions) == (1, 1)


def test_a_fact_that_is_explicit_and_derived_stays_while_either_holds(db: sempre.Database) -> None:
    db.apply(insert={"edge": [("a", "b")], "reach": [("a", "b")]})
    assert not db.apply(delete={"reach": [("a", "b")]}).removed["reach"].num_rows
    db.apply(insert={"reach": [("a", "b")]})
    db.apply(delete={"edge": [("a", "b")]})
    assert list(db["reach"]) == [("a", "b")]
    db.apply(delete={"reach": [("a", "b")]})
    assert len(db["reach"]) == 0


def test_a_failing_epoch_leaves_everything_as_it_was() -> None:
    db = sempre.Database(".decl p(x: number)\n.decl q(x: number)\nq(10 / x) :- p(x).\n")
    db.apply(insert={"p": [1, 2]})
    before = (db.epoch, sorted(db["p"]), sorted(db["q"]))
    with pytest.raises(sempre.DataError, match="10 / 0 has no value"):
        db.apply(insert={"p": [0, 5]}, delete={"p": [1]})
    assert (db.epoch, sorted(db["p"]), sorted(db["q"])) == before
    db.apply(insert={"p": [5]})
    assert sorted(db["q"]) == [(2,), (5,), (10,)]


def test_the_last_operation_of_a_transaction_wins(db: sempre.Database) -> None:
    with db.transaction() as tx:
        tx.insert("edge", [("a", "b"), ("b", "c")])
        tx.delete("edge", [("b", "c"), ("c", "d")])
        tx.insert("edge", [("c", "d")])
    assert sorted(db["edge"]) == [("a", "b"), ("c", "d")]
    assert tx.changes is not None
    assert tx.changes.report.added["edge"] == 2
    assert db.epoch == 1


def test_a_transaction_that_fails_leaves_nothing(db: sempre.Database) -> None:
    db.apply(insert={"edge": [("a", "b")]})

    def change_and_raise() -> None:
        with db.transaction() as tx:
            tx.insert("edge", [("b", "c")])
            raise RuntimeError

    def change_badly() -> None:
        with db.transaction() as tx:
            tx.delete("edge", [("a", "b")])
            tx.insert("edge", [(1, 2)])

    with pytest.raises(RuntimeError):
        change_and_raise()
    with pytest.raises(sempre.DataError):
        change_badly()
    assert (db.epoch, list(db["edge"])) == (1, [("a", "b")])


def test_values_that_need_more_room_than_those_before() -> None:
    db = sempre.Database(".decl p(x: number, y: number)\n.decl q(x: number, y: number)\nq(y, x) :- p(x, y).\n")
    rows = [(1, 2), (300, -1), (1 << 40, 5), (-(1 << 63), (1 << 63) - 1), (0, 0)]
    for number, row in enumerate(rows, 1):
        with db.transaction() as tx:
            tx.insert("p", [row])
            tx.insert("p", [(7, 7)])
        assert set(db["q"]) == {(y, x) for x, y in [*rows[:number], (7, 7)]}
    db.apply(delete={"p": rows[:-1]})
    assert set(db["q"]) == {(0, 0), (7, 7)}


def test_a_closed_database_says_so(db: sempre.Database) -> None:
    with db:
        db.apply(insert={"edge": [("a", "b")]})
        view = db["edge"]
    uses: list[Callable[[], object]] = [
        lambda: db.apply(),
        lambda: db["edge"],
        lambda: db.epoch,
        lambda: db.query("edge(X, Y)"),
        lambda: list(view),
    ]
    for use in uses:
        with pytest.raises(sempre.StateError, match="the database is closed"):
            use()
    db.close()  # twice is no error


def test_options_that_are_not_there() -> None:
    wrong: list[dict[str, Any]] = [{"strategy": "magic"}, {"semantics": "odd"}, {"place": "moon"}]
    for options in wrong:
        with pytest.raises(sempre.SempreError):
            sempre.Database(REACH, **options)
    with pytest.raises(TypeError):
        sempre.Database(REACH, None)  # type: ignore[call-arg]


def test_loading_a_folder(tmp_path: Path) -> None:
    (tmp_path / "edge.facts").write_text("a\tb\n")
    db = sempre.Database(REACH + ".input edge\n")
    db.load(tmp_path)
    assert (db.epoch, list(db["reach"])) == (0, [("a", "b")])


def test_programs_from_files(tmp_path: Path) -> None:
    path = tmp_path / "reach.dl"
    path.write_text(REACH)
    assert sempre.Program.from_file(path).relations.keys() == {"edge", "reach"}
    path.write_bytes(b"\xff")
    for bad in (path, tmp_path / "nothing.dl"):
        with pytest.raises(sempre.ProgramError):
            sempre.Program.from_file(bad)


def test_progress_is_told_and_may_stop_an_epoch() -> None:
    seen: list[Any] = []

    def watch(progress: Any) -> None:
        seen.append(progress)
        if len(seen) > 5:
            raise KeyboardInterrupt

    db = sempre.Database(REACH, modules="off", progress=watch)
    db.apply(insert={"edge": [("a", "b")]})
    before = len(seen)
    with pytest.raises(KeyboardInterrupt):
        db.apply(insert={"edge": [(str(n), str(n + 1)) for n in range(50)]})
    assert before > 0
    assert (seen[0].strata, seen[0].round) == (2, 1)
    assert list(db["edge"]) == [("a", "b")]


def test_the_report_has_the_keys_of_the_contract(db: sempre.Database) -> None:
    report = db.apply(insert={"edge": [("a", "b")]}).report.to_json()
    keys = {"seconds", "strategy", "placement", "rounds", "instances", "added", "removed", "peak_rss", "why", "strata"}
    assert keys <= set(report)
    assert report["placement"] == "driver"
