"""Changes of a later cycle than the input: what they do, what stays of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import sempre

RULES = """
.pragma "semantics" "active"
.decl up(x: symbol)
.decl link(x: symbol, y: symbol)
.decl down(x: symbol)
up(y) :- up(x), link(x, y), !down(y).
-up(x) :- down(x), up(x).
"""
CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]


@pytest.fixture
def db() -> sempre.Database:
    db = sempre.Database(RULES)
    db.apply(insert={"up": [("a",)], "link": CHAIN})
    return db


def up(db: Any) -> str:
    return "".join(sorted(x for (x,) in db["up"]))


def test_a_change_of_a_past_cycle_is_as_if_it_had_happened_there(db: sempre.Database) -> None:
    changes = db.apply(insert={"down": [("d",)]}, cycle=2)
    assert [up(db.at_cycle(cycle)) for cycle in range(4)] == ["a", "ab", "abc", "abc"]
    assert changes.removed["up"].to_pydict() == {"x": ["d", "e"]}
    assert changes.added["down"].to_pydict() == {"x": ["d"]}
    assert "of past cycles changed" in changes.report.why
    assert db.verify().ok


def test_it_is_an_operation_and_rules_may_undo_it_later(db: sempre.Database) -> None:
    db.apply(insert={"down": [("q",)]})
    db.apply(insert={"up": [("q",)]}, cycle=2)
    assert [up(db.at_cycle(cycle)) for cycle in (1, 2, 3)] == ["ab", "abcq", "abcd"]
    assert db.verify().ok


def test_added_and_deleted_in_one_cycle_is_neither(db: sempre.Database) -> None:
    """A rule adds c in cycle 2, and again in each later one."""
    db.apply(delete={"up": [("c",)]}, cycle=2)
    assert [up(db.at_cycle(cycle)) for cycle in (2, 3)] == ["ab", "abc"]
    db.apply(delete={"up": [("c",)]}, cycle=3)
    assert up(db.at_cycle(3)) == "ab"


def test_the_last_word_on_a_fact_of_a_cycle_counts(db: sempre.Database) -> None:
    db.apply(insert={"up": [("x",), ("y",)]}, cycle=2)
    db.apply(insert={"up": [("y",)]}, delete={"up": [("x",), ("y",)]}, cycle=2)
    assert up(db) == "abcdey"
    assert db.apply(insert={"up": [("y",)]}, cycle=2).report.why == "0 records of past cycles changed"


def test_later_changes_of_the_input_keep_it(db: sempre.Database) -> None:
    db.apply(insert={"down": [("d",)]}, cycle=2)
    db.apply(insert={"link": [("c", "z")]})
    assert up(db) == "abcz"
    db.apply(delete={"up": [("a",)]})
    assert (up(db), len(db["down"]), db.cycle) == ("", 1, 3)
    assert db.verify().ok


def test_a_cycle_that_is_still_to_come_is_waited_for(db: sempre.Database) -> None:
    db.apply(insert={"link": [("e", "f")]}, cycle=20)
    assert (db.cycle, up(db), up(db.at_cycle(20))) == (22, "abcdef", "abcde")


def test_a_run_under_way_is_told_of_a_past_cycle() -> None:
    db = sempre.Database(RULES)

    def watch(cycle: sempre.CycleChanges) -> None:
        if cycle.number == 3 and not cycle.absorbed:
            db.interrupt(insert={"down": [("c",)]}, cycle=1)

    db.start(insert={"up": [("a",)], "link": CHAIN}, watch=watch)
    db.wait()
    assert up(db) == "ab"
    assert db.verify().ok


def test_a_fact_says_what_it_was_given(db: sempre.Database) -> None:
    db.apply(insert={"down": [("d",)]}, cycle=2)
    assert str(db.explain('down("d")')) == 'down("d") holds\ncycle 2: added\n  given in this cycle'


@pytest.mark.parametrize("cycle", [-1, 10_001, True, "2"])
def test_a_cycle_that_there_cannot_be_is_refused(db: sempre.Database, cycle: Any) -> None:
    with pytest.raises(sempre.StateError, match="`cycle` is"):
        db.apply(insert={"up": [("x",)]}, cycle=cycle)
    assert db.epoch == 1


def test_stratified_rules_have_no_cycles() -> None:
    with pytest.raises(sempre.StateError, match="its rules are stratified"):
        sempre.Database(".decl p(x: number)").apply(insert={"p": [(1,)]}, cycle=1)


def test_what_does_not_come_to_an_end_leaves_the_last_epoch(db: sempre.Database) -> None:
    lamp = sempre.Database(
        '.pragma "semantics" "active"\n.decl lamp(x: number)\n.decl key(x: number)\n'
        "lamp(x) :- key(x), !lamp(x). -lamp(x) :- lamp(x), key(x)."
    )
    with pytest.raises(sempre.DataError, match="with a period of 2"):
        lamp.apply(insert={"key": [(1,)]}, cycle=7)
    assert (len(lamp["key"]), lamp.epoch) == (0, 0)
