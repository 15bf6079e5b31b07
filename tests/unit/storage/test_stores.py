"""Stores: one writer, many readers, other programs, past epochs, vacuum, repair."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sempre
from sempre.api.stores import check_files, first_difference, repair, vacuum
from sempre.limits import DEFAULTS, Limits
from sempre.storage.pieces import pieces_due
from sempre.storage.store import Store
from tests.inside import engine_of

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
edge("a", "b").
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    filled(tmp_path / "store")
    return tmp_path / "store"


def filled(place: Path | str) -> None:
    """A store of three epochs."""
    with sempre.Database(PROGRAM, store=place) as db:
        db.apply(insert={"edge": [("b", "c")]})
        db.apply(insert={"edge": [("c", "d")]}, delete={"edge": [("a", "b")]})


def test_a_database_goes_on_where_the_store_is(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as db:
        assert (db.epoch, sorted(db["reach"])) == (2, [("b", "c"), ("b", "d"), ("c", "d")])
        assert ("c", "d") in db["edge"]
        db.apply(insert={"edge": [("d", "b")]})
        assert len(db["reach"]) == 9
    assert len(sempre.Database.open(store)["reach"]) == 9


def test_nothing_is_written_before_there_is_something_to_keep(tmp_path: Path) -> None:
    sempre.Database(PROGRAM, store=tmp_path / "new").close()
    assert not (tmp_path / "new").exists()


@pytest.mark.folder
def test_two_writers(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as one, sempre.Database(PROGRAM, store=store) as other:
        one.apply(insert={"edge": [("x", "y")]})
        with pytest.raises(sempre.StateError, match=rf"written by another database of this process \({os.getpid()}\)"):
            other.apply(insert={"edge": [("x", "z")]})
        assert other.epoch == 2, "it can be read"
        one.close()
        with pytest.raises(sempre.StateError, match="is at epoch 3, and this database at 2"):
            other.apply(insert={"edge": [("x", "z")]})
    with sempre.Database(PROGRAM, store=store) as db:
        assert db.apply(insert={"edge": [("x", "z")]}).report.added["edge"] == 1


@pytest.mark.folder
def test_a_second_process_is_told_who_writes(store: Path) -> None:
    code = f"import sempre; sempre.Database.open({str(store)!r}).apply(insert={{'edge': [('q', 'r')]}})"
    with sempre.Database(PROGRAM, store=store) as db:
        db.apply(insert={"edge": [("x", "y")]})
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert f"is being written by process {os.getpid()}" in done.stderr
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.folder
def test_a_writer_clears_up_after_one_that_died(store: Path) -> None:
    left = [store / "log/0000000003.0.parquet", store / "epochs/.0000000003.tmp", store / "programs/0000000003.dl"]
    for path in left:
        path.write_text("half")
    with sempre.Database(PROGRAM, store=store) as db:
        assert len(db["edge"]) == 2
        assert all(path.exists() for path in left), "a reader removes nothing"
        db.apply()
    assert not any(path.exists() for path in left)


def test_past_epochs(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as db:
        sizes = [len(db.at_epoch(epoch)["reach"]) for epoch in range(3)]
        assert sizes == [1, 3, 3]
        with db.at_epoch(1) as past:
            assert past.query('reach("a", X)').to_pydict() == {"X": ["b", "c"]}
            with pytest.raises(sempre.StateError, match="epoch 1 is past, and only read"):
                past.apply(insert={"edge": [("x", "y")]})
        with pytest.raises(sempre.StateError, match="does not have epoch 7"):
            db.at_epoch(7)
    with pytest.raises(sempre.StateError, match="only a database with a store"):
        sempre.Database(PROGRAM).at_epoch(0)


def test_a_failed_epoch_is_not_stored(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as db:
        with pytest.raises(sempre.DataError):
            db.apply(insert={"edge": [("fresh", 1)]})
        db.apply(insert={"edge": [("later", "d")]})
    with sempre.Database(PROGRAM, store=store) as db:
        assert (db.epoch, len(db["edge"])) == (3, 3)


@pytest.mark.folder
def test_the_batch_of_a_stream_is_stored_with_its_epoch(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as db:
        engine_of(db).apply({}, {}, batch=("stream", 41))
        assert "sempre_stream_batch" in db.metrics()
    with sempre.Database(PROGRAM, store=store) as db:
        assert db._engine.snapshot.batches == {"stream": 41}
        db.apply(insert={"edge": [("x", "y")]})
        vacuum_after = db.epoch
    vacuum(store)
    with sempre.Database(PROGRAM, store=store) as db:
        assert (db.epoch, db._engine.snapshot.batches) == (vacuum_after, {"stream": 41})


# ------------------------------------------------------------------------------------------------- programs


def test_what_does_not_matter_may_change(store: Path) -> None:
    same = "// a comment\n" + PROGRAM + ".output reach\n"
    with sempre.Database(same, store=store) as db:
        db.apply(insert={"edge": [("x", "y")]})
    assert sempre.Database.open(store).program.text == same


def test_another_program_is_refused_and_says_what_changed(store: Path) -> None:
    other = PROGRAM.replace('edge("a", "b").', "") + ".decl loop(x: symbol)\nloop(x) :- reach(x, x).\n"
    with pytest.raises(sempre.StateError) as raised:
        sempre.Database(other, store=store)
    text = str(raised.value)
    assert raised.value.diagnostics[0].code == "E604"
    assert "relation added: loop(x: symbol)" in text
    assert "rule added: loop(x) :- reach(x, x)." in text
    assert 'fact removed: edge("a", "b").' in text
    assert "migrate" in text


def test_migration_keeps_explicit_facts(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as db:
        db.apply(insert={"edge": [("a", "b")], "reach": [("m", "n")]})
    other = PROGRAM.replace('edge("a", "b").', 'edge("n", "o").').replace("reach(x, z) :- reach(x, y), edge(y, z).", "")
    with sempre.Database(other, store=store, migrate=True) as db:
        assert db.epoch == 4
        assert set(db["edge"]) == {("b", "c"), ("c", "d"), ("n", "o")}
        assert set(db["reach"]) == {("b", "c"), ("c", "d"), ("n", "o"), ("m", "n")}
        assert db.verify().ok
        assert len(db.at_epoch(3)["edge"]) == 3, "earlier epochs have the earlier program"
        db.apply(delete={"reach": [("m", "n")]})
    with sempre.Database(other, store=store) as db:
        assert (db.epoch, len(db["reach"])) == (5, 3)
    check_files(store)


def test_migration_to_the_same_program_does_nothing(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store, migrate=True) as db:
        assert db.epoch == 2


# --------------------------------------------------------------------------------------------------- vacuum


@pytest.mark.folder
def test_vacuum_drops_what_is_not_needed(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as db:
        for number in range(20):
            db.apply(insert={"edge": [("d", f"n{number}")]}, delete={"edge": [("d", f"n{number - 1}")]})
        want = sorted(db["reach"])
    freed, left = vacuum(store)
    assert freed > left
    assert Store(store).epochs() == [22]
    assert len(list(store.rglob("*.parquet"))) == 1
    manifest = Store(store).manifest()
    assert manifest.lists["symbols"] == 4, "b, c, d and n19; the others are forgotten"
    with sempre.Database(PROGRAM, store=store) as db:
        assert sorted(db["reach"]) == want
        assert db.verify().ok
        db.apply(insert={"edge": [("n0", "b")]})
        assert db.verify().ok
    assert vacuum(store, keep=2)[1] > 0
    assert Store(store).epochs() == [22, 23]


@pytest.mark.parametrize("value", ["range(0, n)", "autoinc() * 0 + n"])
def test_vacuum_knows_the_relations_that_are_in_no_text(tmp_path: Path, value: str) -> None:
    """What stands behind `range` and `autoinc` has symbols, which are numbered anew as well."""
    text = f".decl e(x: symbol, n: number) .decl p(x: symbol, y: number) p(x, {value}) :- e(x, n)."
    with sempre.Database(text, store=tmp_path / "store") as db:
        db.apply(insert={"e": [("a", 1), ("b", 2)]})
        db.apply(insert={"e": [("c", 1)]}, delete={"e": [("a", 1)]})
        before = sorted(db["p"])
    vacuum(tmp_path / "store")
    with sempre.Database(text, store=tmp_path / "store") as db:
        assert sorted(db["p"]) == before
        db.apply(delete={"e": [("b", 2)]})
        assert {x for x, _ in db["p"]} == {"c"}
        assert db.verify().ok


@pytest.mark.folder
def test_a_reader_keeps_its_epoch_through_a_vacuum(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as reader:
        with sempre.Database(PROGRAM, store=store) as writer:
            for number in range(5):
                writer.apply(insert={"edge": [("d", f"n{number}")]}, delete={"edge": [("b", "c")]})
        vacuum(store)
        assert (reader.epoch, sorted(reader["reach"])) == (2, [("b", "c"), ("b", "d"), ("c", "d")])
        with pytest.raises(sempre.StateError, match="is at epoch 7, and this database at 2"):
            reader.apply(insert={"edge": [("x", "y")]})


@pytest.mark.folder
def test_a_database_that_was_open_during_a_vacuum_can_become_the_writer(store: Path) -> None:
    """As long as codes mean the same; else it has to be opened again."""
    with sempre.Database(PROGRAM, store=store) as db:
        vacuum(store, keep=1)  # all symbols but `a` are in use
        with pytest.raises(sempre.StateError, match="open it again"):
            db.apply(insert={"edge": [("x", "y")]})
    with sempre.Database(PROGRAM, store=store) as db:
        vacuum(store, keep=1)
        db.apply(insert={"edge": [("x", "y")]})
    check_files(store)
    assert len(sempre.Database.open(store)["edge"]) == 3


def test_pieces_of_one_size_become_one() -> None:
    assert pieces_due([10] * 7, DEFAULTS) == 0
    assert pieces_due([10] * 8, DEFAULTS) == 8
    assert pieces_due([1_000_000] + [10] * 7, DEFAULTS) == 0, "a large piece is not rewritten for a few rows"
    assert pieces_due([1_000_000] + [10] * 8, DEFAULTS) == 8
    sizes: list[int] = [1_000_000]
    written = 0
    for _ in range(5_000):
        sizes.append(10)
        written += 10
        while count := pieces_due(sizes, DEFAULTS):
            sizes[-count:] = [sum(sizes[-count:])]
            written += sizes[-1]
    assert len(sizes) < 40
    assert written < 8 * 50_000, "a row is rewritten a logarithmic number of times"


# ------------------------------------------------------------------------------------------- verify, repair


def harmed(store: Path) -> sempre.Database:
    """A database whose third epoch lost a fact that it should have."""
    db = sempre.Database(PROGRAM, store=store)
    db.apply(insert={"edge": [("d", "e")]})
    snapshot = db._engine.snapshot
    lost = snapshot.versions["reach"]
    rows = db._backend.rows("reach", *db._encode("reach", [("b", "e")]))
    broken = replace(snapshot, versions={**snapshot.versions, "reach": lost.removing(rows)}, epoch=4)
    nothing = engine_of(db).evaluate(snapshot, {}, {})[1]
    from sempre.maintain.strategy import Change

    lost_fact = replace(nothing, changes={"reach": Change(db._backend.no_rows("reach"), rows)})
    engine_of(db).commit(broken, snapshot, lost_fact)
    db.apply(insert={"edge": [("y", "z")]})
    return db


def test_differences_are_found_with_their_first_epoch_and_repaired(store: Path) -> None:
    with harmed(store) as db:
        assert db.verify().differences[0].message == '`reach` lacks 1 fact: reach("b", "e")'
        assert first_difference(db) == 4
        changes = repair(db)
        assert changes.added["reach"].to_pylist() == [{"x": "b", "y": "e"}]
        assert (db.epoch, db.verify().ok) == (6, True)
    with sempre.Database(PROGRAM, store=store) as db:
        assert db.verify().ok
        db.apply(delete={"edge": [("d", "e")]})
        assert db.verify().ok


# --------------------------------------------------------------------------------------- where stores can be


@pytest.mark.folder
def test_a_store_is_made_only_where_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(sempre.StateError, match=r"has other things in it: `mine.txt`"):
        sempre.Database(PROGRAM, store=tmp_path).apply()
    assert os.listdir(tmp_path) == ["mine.txt"]  # noqa: PTH208


@pytest.mark.parametrize(
    ("place", "hint"),
    [("viewfs://lake/store", "Known are directories, and s3://"), ("gs://bucket/store", "pip install 'gcsfs'")],
)
def test_places_that_are_not_supported(place: str, hint: str) -> None:
    with pytest.raises(sempre.StateError, match="cannot be kept at") as raised:
        sempre.Database(PROGRAM, store=place)
    assert hint in str(raised.value)


@pytest.mark.folder
def test_a_file_url(tmp_path: Path) -> None:
    sempre.Database(PROGRAM, store=f"file://{tmp_path}/store").apply()
    assert (tmp_path / "store" / "FORMAT").read_text() == "sempre store 1\n"


# ---------------------------------------------------------------------------------------------------- values

VALUES = """
.type List = [head: number, tail: List]
.decl r(s: symbol, n: number, u: unsigned, f: float, l: List)
.decl none()
none() :- r(_, _, _, _, _).
"""


def test_every_kind_of_value_survives(tmp_path: Path) -> None:
    limits = Limits(shared_rows=2, merged_pieces=2)
    rows = [
        ("", -(1 << 63), 0, float("inf"), None),
        ("tab\tand\nline", (1 << 63) - 1, (1 << 64) - 1, -0.0, (1, None)),
        ("日本語 🙂", 0, 1, float("nan"), (1, (2, (3, None)))),
        ("\x00", 1, 2, 5e-324, (2, (3, None))),
    ]
    store = tmp_path / "store"
    for row in rows:
        with sempre.Database(VALUES, store=store, limits=limits) as db:
            db.apply(insert={"r": [row]})
            want = repr(sorted(map(repr, db["r"])))
        with sempre.Database(VALUES, store=store, limits=limits) as db:
            assert repr(sorted(map(repr, db["r"]))) == want
            assert () in db["none"]
            assert db.verify().ok
    vacuum(Store(store, limits=limits))
    with sempre.Database(VALUES, store=store, limits=limits) as db:
        assert repr(sorted(map(repr, db["r"]))) == want
        db.apply(delete={"r": list(db["r"])})
        assert len(db["none"]) == 0
        assert db.verify().ok


def test_queries_of_relations_that_are_not_in_memory(store: Path) -> None:
    """Answers from the files are those from memory, before and after changes."""
    limits = Limits(shared_rows=3, group_rows=4)
    with sempre.Database(PROGRAM, store=store, limits=limits) as db:
        db.apply(insert={"edge": [(f"n{i}", f"n{(i * 7) % 11}") for i in range(11)]})
        db.apply(delete={"edge": [("n3", "n10")]}, insert={"edge": [("n3", "n3")]})
    atoms = ['reach("n1", X)', 'reach(X, "n1")', "reach(X, X)", 'reach("n1", "n7")', 'reach("nobody", X)',
             "reach(X, _)", 'reach(_, "n3")', "reach(X, Y)", 'reach("n3", "n3")']  # fmt: skip
    with sempre.Database(PROGRAM, store=store, limits=limits) as memory:
        len(memory["reach"])
        for atom in atoms:
            with sempre.Database(PROGRAM, store=store, limits=limits) as db:
                answers = [db.query(atom) for _ in range(3)]
                want = memory.query(atom)
                assert all(answer.equals(want) for answer in answers), atom


def test_epochs_are_logged(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sempre"), sempre.Database(PROGRAM, store=store) as db:
        db.apply(insert={"edge": [("x", "y")]})
    record = next(record for record in caplog.records if record.getMessage().startswith("committed epoch 3"))
    assert record.__dict__["epoch"] == 3
    assert record.__dict__["store"] == Store(store).place


def test_whatif_keeps_nothing(store: Path) -> None:
    with sempre.Database(PROGRAM, store=store) as db:
        changes = db.whatif(delete={"edge": [("b", "c")]})
        assert changes.removed["reach"].num_rows == 2
        assert (db.epoch, len(db["reach"])) == (2, 3)
    assert Store(store).epochs() == [0, 1, 2]
