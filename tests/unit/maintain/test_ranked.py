"""Numbers of tight instances settle what a deletion does."""

from __future__ import annotations

import sempre
from sempre.maintain.ranked import Ranks
from tests.inside import engine_of
from tests.memories import numbers
from tests.oracle.values import Row

# From 0 there are two ways to 3, and a chain from there on.
WAYS = [(0, 1), (0, 2), (1, 3), (2, 3), *((node, node + 1) for node in range(3, 40))]
REACH = """
.decl edge(x: number, y: number)
.decl start(x: number)
.decl reach(x: number)
reach(x) :- start(x).
reach(y) :- reach(x), edge(x, y).
"""


def database() -> sempre.Database:
    db = sempre.Database(sempre.Program(REACH), strategy="ranked", modules="off")
    db.materialise({"edge": WAYS, "start": [(0,)]})
    return db


def tight(db: sempre.Database) -> dict[Row, int]:
    stratum = next(s for s in engine_of(db).program.strata if "reach" in s.relations)
    memory = engine_of(db).snapshot.memories[stratum.index]
    assert isinstance(memory, Ranks)
    assert memory.exact
    _, found = memory.maps(engine_of(db).backend, engine_of(db).snapshot.versions)
    return numbers(db, "reach", found["reach"].entries())


def test_a_first_run_counts_what_derives_a_fact_when_it_is_new() -> None:
    with database() as db:
        assert tight(db)[3,] == 2
        assert tight(db)[4,] == 1
        assert (0,) not in tight(db)  # no recursive rule derives it


def test_a_fact_with_another_support_stays_and_nothing_follows() -> None:
    with database() as db:
        report = db.apply(delete={"edge": [(1, 3)]}).report
        assert "reach" not in report.removed
        assert report.instances < 5
        assert tight(db)[3,] == 1


def test_a_fact_without_support_takes_what_rests_on_it_along() -> None:
    with database() as db:
        assert db.apply(delete={"edge": [(1, 3), (2, 3)]}).report.removed["reach"] == 38
        assert set(tight(db)) == {(1,), (2,)}


def test_numbers_stay_exact_however_often_a_fact_comes_and_goes() -> None:
    with database() as db:
        db.apply(delete={"edge": [(1, 3)]})
        before = tight(db)
        for _ in range(5):
            db.apply(insert={"edge": [(1, 3)]})
            assert tight(db)[3,] == 2
            assert db.apply(delete={"edge": [(1, 3)]}).report.instances < 5
            assert tight(db) == before


def test_a_circle_does_not_hold_itself_up() -> None:
    with database() as db:
        db.apply(insert={"edge": [(40, 3)]})
        assert db.apply(delete={"edge": [(1, 3), (2, 3)]}).report.removed["reach"] == 38


def test_a_shorter_way_that_goes_leaves_the_longer_one() -> None:
    with database() as db:
        db.apply(insert={"edge": [(0, 20)]})
        db.apply(delete={"edge": [(5, 6)]})
        changes = db.apply(delete={"edge": [(0, 20)]}, insert={"edge": [(5, 6)]})
        assert set(db["reach"]) == {(node,) for node in range(41)}
        assert changes.report.added["reach"] == 14
        assert db.verify().ok
