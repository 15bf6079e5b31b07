"""What an epoch means at the surface: no-ops, the order of operations, change sets and reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import sempre
from tests.engine import STRATEGIES, UNHURRIED
from tests.inside import engine_of

REACH = """
.decl edge(x: number, y: number)
.decl reach(x: number, y: number)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.decl lonely(x: number)
lonely(x) :- edge(x, _), !reach(x, x).
.decl other(x: number)
"""


@pytest.fixture(params=STRATEGIES)
def db(request: pytest.FixtureRequest) -> Iterator[sempre.Database]:
    with sempre.Database(REACH, strategy=request.param, limits=UNHURRIED) as db:
        db.apply(insert={"edge": [(1, 2), (2, 3)]})
        yield db


def changed(changes: sempre.ChangeSet | None) -> dict[str, tuple[list[Any], list[Any]]]:
    """Added and removed rows of the relations that changed."""
    assert changes is not None
    sides = {name: (changes.added[name], changes.removed[name]) for name in changes.added}
    return {
        name: (sorted_rows(added), sorted_rows(removed))
        for name, (added, removed) in sides.items()
        if added.num_rows or removed.num_rows
    }


def sorted_rows(table: pa.Table) -> list[Any]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_deleting_what_is_absent_and_inserting_what_is_present_are_no_ops(db: sempre.Database) -> None:
    changes = db.apply(insert={"edge": [(1, 2), (2, 3)]}, delete={"edge": [(7, 8)], "reach": [(1, 3)]})
    assert changed(changes) == {}
    assert not changes
    assert (changes.report.ignored_insertions, changes.report.ignored_deletions) == (2, 2)
    assert set(db["reach"]) == {(1, 2), (2, 3), (1, 3)}  # a derived fact is not explicit: it cannot be deleted


def test_the_same_row_twice_is_one_row(db: sempre.Database) -> None:
    changes = db.apply(insert={"edge": [(3, 4), (3, 4)]})
    assert changes.report.added == {"edge": 1, "reach": 3, "lonely": 1}
    assert changes.report.ignored_insertions == 0


def test_deleted_and_inserted_in_one_epoch_stays(db: sempre.Database) -> None:
    changes = db.apply(insert={"edge": [(1, 2)]}, delete={"edge": [(1, 2)]})
    assert changed(changes) == {}
    assert (1, 2) in db["edge"]
    changes = db.apply(insert={"edge": [(5, 6)]}, delete={"edge": [(5, 6)]})
    assert changed(changes) == {"edge": ([(5, 6)], []), "reach": ([(5, 6)], []), "lonely": ([(5,)], [])}


def test_in_a_transaction_the_last_operation_wins(db: sempre.Database) -> None:
    with db.transaction() as transaction:
        transaction.delete("edge", [(1, 2)])
        transaction.insert("edge", [(1, 2), (8, 9)])
        transaction.delete("edge", [(8, 9)])
    assert changed(transaction.changes) == {}
    with db.transaction() as transaction:
        transaction.insert("edge", [(2, 3)])
        transaction.delete("edge", [(2, 3)])
    assert changed(transaction.changes) == {
        "edge": ([], [(2, 3)]),
        "reach": ([], [(1, 3), (2, 3)]),
        "lonely": ([], [(2,)]),
    }


def test_unchanged_relations_have_empty_tables(db: sempre.Database) -> None:
    changes = db.apply(insert={"edge": [(3, 1)]})
    assert list(changes.added) == list(changes.removed) == ["edge", "reach", "lonely", "other"]
    for table in (changes.added["other"], changes.removed["other"], changes.removed["edge"]):
        assert (table.num_rows, table.column_names[0]) == (0, "x")
    assert changed(changes)["lonely"] == ([], [(1,), (2,)])


def test_explicit_and_derived_stays_while_either_holds(db: sempre.Database) -> None:
    assert changed(db.apply(insert={"reach": [(1, 3), (9, 9)]})) == {"reach": ([(9, 9)], [])}
    assert changed(db.apply(delete={"edge": [(2, 3)]}))["reach"] == ([], [(2, 3)])
    assert changed(db.apply(delete={"reach": [(1, 3)]})) == {"reach": ([], [(1, 3)])}
    assert db.verify().ok


def test_an_empty_epoch_is_an_epoch(db: sempre.Database) -> None:
    epoch = db.epoch
    assert changed(db.apply()) == {}
    assert db.epoch == epoch + 1


def test_emptied_and_filled_again(db: sempre.Database) -> None:
    changes = db.apply(delete={"edge": [(1, 2), (2, 3)]})
    assert changes.report.removed == {"edge": 2, "reach": 3, "lonely": 2}
    assert len(db["reach"]) == 0
    assert db.apply(insert={"edge": [(1, 2), (2, 3)]}).report.added == {"edge": 2, "reach": 3, "lonely": 2}
    assert db.apply(delete={"edge": [(1, 2)]}).report.removed == {"edge": 1, "reach": 2, "lonely": 1}
    assert db.verify().ok


def test_the_report_says_how_it_went(db: sempre.Database) -> None:
    report = db.apply(delete={"edge": [(1, 2)]}).report
    assert report.strategy == engine_of(db).strategy
    assert report.placement == "driver"
    assert report.seconds > 0
    assert report.peak_rss > 2**20
    assert [stratum["relations"] for stratum in report.strata] == [("edge",), ("reach",), ("lonely",)]
    assert sum(stratum["removed"] for stratum in report.strata) == 4


def test_values_beyond_those_seen_fit_in(db: sempre.Database) -> None:
    """Numbers far outside the range so far: every relation and counter finds room."""
    db.apply(delete={"edge": [(2, 3)]})
    large = [(3, 2**62), (2**62, -(2**63)), (-(2**63), 1)]
    db.apply(insert={"edge": [(2, 3), *large]})
    assert len(db["reach"]) == 25
    assert db.verify().ok
    db.apply(delete={"edge": [large[1]]})
    assert len(db["reach"]) == 10
    assert db.verify().ok
