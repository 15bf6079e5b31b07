"""Active databases: epochs, cycles of the past, inference in the background, and everything that can go wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.active.active_engine import TIMELINE
from sempre.active.history import FactHistory
from sempre.diagnostics import DataError, ProgramError, StateError
from tests.inside import active_of, session_of

# Trouble spreads along links that are assumed up; a link that is reported down stops it, and is forgotten.
RULES = """
.pragma "semantics" "active"
.decl link(x: number, y: number)
.decl down(x: number, y: number)
.decl sick(x: number)
.decl looked(x: number)
sick(y) :- sick(x), link(x, y).
-link(x, y) :- down(x, y), link(x, y).
looked(x) :- sick(x).
"""
LINE = [(x, x + 1) for x in range(1, 30)]


@pytest.fixture
def db() -> Iterator[sempre.Database]:
    with sempre.Database(RULES) as database:
        yield database


def fresh(insert: dict[str, Any]) -> sempre.Database:
    database = sempre.Database(RULES)
    database.apply(insert=insert)
    return database


class Gate:
    """Holds a run after a cycle until it is opened."""

    def __init__(self, cycle: int) -> None:
        self.cycle = cycle
        self.reached, self.opened = threading.Event(), threading.Event()
        self.seen: list[sempre.CycleChanges] = []

    def __call__(self, cycle: sempre.CycleChanges) -> None:
        self.seen.append(cycle)
        if cycle.number == self.cycle and not cycle.absorbed:
            self.reached.set()
            assert self.opened.wait(30)


def test_an_epoch_runs_to_its_end_and_reports_the_net_change(db: sempre.Database) -> None:
    changes = db.apply(insert={"link": LINE[:3], "sick": [(1,)]})
    assert sorted(db["sick"]) == [(1,), (2,), (3,), (4,)]
    assert changes.report.rounds == db.cycle == 5
    assert changes.report.strategy == "active"
    assert changes.report.why == "first inference"
    assert changes.added["looked"].num_rows == 4
    changes = db.apply(insert={"down": [(2, 3)]})
    assert changes.removed["link"].to_pylist() == [{"x": 2, "y": 3}]
    assert changes.removed["sick"].to_pylist() == [{"x": 3}, {"x": 4}]  # the link is gone before trouble comes to 2
    assert changes.report.why == "11 records of past cycles changed"
    assert db.verify().ok


def test_the_past_can_be_read(db: sempre.Database) -> None:
    db.apply(insert={"link": LINE[:3], "sick": [(1,)], "down": [(1, 2)]})
    assert [len(db.at_cycle(k)["sick"]) for k in range(db.cycle + 1)] == [1, 2, 3, 4, 4, 4]
    past = db.at_cycle(1)
    assert (1, 2) in db.at_cycle(0)["link"]
    assert (1, 2) not in past["link"]
    assert ("a", 2) not in past["link"]
    assert sorted(past) == sorted(db)
    assert len(past) == 4
    assert past["looked"].to_arrow().to_pylist() == [{"x": 1}]
    assert repr(past) == "<Past: 4 relations after cycle 1>"
    with pytest.raises(StateError, match="there is no cycle 6"):
        db.at_cycle(6)
    with pytest.raises(DataError, match="no relation is called `sik`"):
        past["sik"]


def test_a_fact_has_a_history(db: sempre.Database) -> None:
    db.apply(insert={"link": [(1, 2), (3, 2)], "sick": [(1,), (3,)], "down": [(1, 2)]})
    assert str(db.explain("sick(2)")) == (
        "sick(2) holds\ncycle 1: added\n  sick(y) :- sick(x), link(x, y).  (2 instances)"
    )
    history = db.explain("link(1, 2)")
    assert isinstance(history, FactHistory)
    assert [(event.cycle, event.added) for event in history.events] == [(0, True), (1, False)]
    assert history.events[1].causes[0].deletes
    assert str(db.explain("sick(9)")) == "sick(9) does not hold\nno cycle added it"
    for wrong in ("sick(1, 2)", "sik(1)", "sick(X)"):
        with pytest.raises(DataError):
            db.explain(wrong)


def test_an_interrupt_is_absorbed_at_the_next_boundary(db: sempre.Database) -> None:
    gate = Gate(5)
    db.start(insert={"link": LINE, "sick": [(1,)]}, watch=gate)
    assert gate.reached.wait(30)
    assert len(db["sick"]) == 0  # readers see the last epoch
    db.interrupt(insert={"sick": [(20,)]}, delete={"link": [(3, 4)]})
    gate.opened.set()
    changes = db.wait()
    absorbed = next(cycle for cycle in gate.seen if 0 < cycle.absorbed < 10)
    assert (absorbed.number, absorbed.absorbed) == (5, 2)
    assert sorted(row["x"] for row in absorbed.removed["sick"].to_pylist()) == [4, 5, 6]
    links = [link for link in LINE if link != (3, 4)]
    with fresh({"link": links, "sick": [(1,), (20,)]}) as other:
        for name in db:
            assert sorted(db[name]) == sorted(other[name])
            for cycle in range(other.cycle + 1):
                assert sorted(db.at_cycle(cycle)[name]) == sorted(other.at_cycle(cycle)[name])
        assert db.cycle == other.cycle
    assert changes.added["sick"].num_rows == len(db["sick"])
    assert db.verify().ok


def test_an_interrupt_after_the_end_makes_it_go_on(db: sempre.Database) -> None:
    db.start(insert={"link": LINE[:2], "sick": [(1,)]})
    thread = session_of(db)._thread
    if thread is not None:
        thread.join(30)
    db.interrupt(insert={"link": LINE[2:4]})
    db.wait()
    assert len(db["sick"]) == 5


def test_the_programs_own_facts_are_part_of_the_first_start() -> None:
    with sempre.Database(RULES + "sick(1). link(1, 2).") as db:
        db.start(insert={"link": [(2, 3)]})
        db.wait()
        assert (db.epoch, sorted(db["sick"])) == (0, [(1,), (2,), (3,)])


def test_transactions_and_loads_work_as_everywhere(db: sempre.Database, tmp_path: Any) -> None:
    with db.transaction() as tx:
        tx.insert("sick", [(1,)])
        tx.insert("link", [(1, 2), (2, 3)])
        tx.delete("link", [(2, 3)])
    assert sorted(db["sick"]) == [(1,), (2,)]
    assert db.query("sick(X)").to_pydict() == {"X": [1, 2]}
    (tmp_path / "link.facts").write_text("2\t3\n")
    with sempre.Database(RULES + ".input link\nsick(2).") as other:
        other.load(tmp_path)
        assert sorted(other["sick"]) == [(2,), (3,)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda db: db.interrupt(), "no inference is running"),
        (lambda db: db.wait(), "no inference is running"),
        (lambda db: (db.start(), db.start()), "inference is running"),
        (lambda db: (db.start(), db.explain("sick(1)")), "inference is running"),
        (lambda db: (db.start(), db.verify()), "inference is running"),
        (lambda db: (db.start(), db.apply(insert={"sick": [(1,)]})), "inference is running"),
        (lambda db: sempre.Database(RULES, strategy="dred"), "strategy `dred` is for stratified rules"),
        (lambda db: sempre.Database(RULES, cycles=0), "`cycles` is 0"),
        (lambda db: sempre.Database(".decl p()", semantics="lazy"), "unknown semantics `lazy`"),
        (lambda db: sempre.Database(".decl p()").start(), "this database has no cycles"),
        (lambda db: sempre.Database(".decl p()").at_cycle(0), "this database has no cycles"),
    ],
)
def test_what_cannot_be_done_now_says_so(db: sempre.Database, call: Any, message: str) -> None:
    with pytest.raises(StateError, match=message) as error:
        call(db)
    assert error.value.diagnostics[0].hint


def test_semantics_can_be_chosen_where_the_database_is_made() -> None:
    text = RULES.replace('.pragma "semantics" "active"', "")
    with pytest.raises(ProgramError, match="E128"):
        sempre.Program(text)
    with sempre.Database(text, semantics="active") as db:
        assert db.apply(insert={"sick": [(1,)]})
    with pytest.raises(ProgramError, match="E128"):
        sempre.Database(sempre.Program(RULES), semantics="stratified")
    plain = sempre.Program(".decl p(x: number)\n.decl q(x: number)\np(1). q(x) :- p(x), !q(x).", semantics="active")
    with sempre.Database(plain, semantics="active") as db:
        assert sorted(db["q"]) == [(1,)]  # it is not deleted when `!q(1)` ceases to hold


FLIPS = """
.pragma "semantics" "active"
.decl on(x: number)
.decl key(x: number)
.decl stop(x: number)
on(x) :- key(x), !on(x), !stop(x).
-on(x) :- on(x), !stop(x).
"""


def test_an_oscillation_has_a_period_and_leaves_the_old_state() -> None:
    with sempre.Database(FLIPS) as db:
        db.apply(insert={"key": [(1,), (2,)], "stop": [(1,), (2,)]})
        with pytest.raises(DataError, match="period of 2") as error:
            db.apply(delete={"stop": [(1,)]})
        assert "on(1)" in str(error.value)
        assert "on(2)" not in str(error.value)
        assert error.value.diagnostics[0].code == "E540"
        assert sorted(db["stop"]) == [(1,), (2,)]
        assert db.epoch == 1
        db.start(delete={"stop": [(2,)]})
        with pytest.raises(DataError, match="period of 2"):
            db.wait()
        assert db.apply(delete={"key": [(1,)]}).removed["key"].num_rows == 1
        assert db.verify().ok


def test_a_runaway_is_stopped_at_the_limit() -> None:
    with sempre.Database(".decl n(x: number)\nn(0). n(x + 1) :- n(x).", semantics="active", cycles=50) as db:
        with pytest.raises(DataError, match="not come to an end after 50 cycles") as error:
            len(db["n"])
        assert error.value.diagnostics[0].code == "E541"
        assert "n(50)" in str(error.value)


def test_a_run_that_grows_too_large_is_stopped() -> None:
    rules = ".decl n(x: number)\nn(1). n(x + 1) :- n(x). n(x * 3) :- n(x)."
    with sempre.Database(rules, semantics="active", memory=2**20) as db:
        with pytest.raises(DataError, match="need more than 1 MiB") as error:
            len(db["n"])
        assert error.value.diagnostics[0].code == "E542"


def test_a_longer_period_is_told(db: sempre.Database) -> None:
    rules = ".decl at(x: number)\nat(0). at((x + 1) % 7) :- at(x). -at(x) :- at(x)."
    with sempre.Database(rules, semantics="active") as ring, pytest.raises(DataError, match="a period of 7:"):
        len(ring["at"])


def test_giving_up_leaves_the_last_epoch(db: sempre.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.apply(insert={"sick": [(1,)]})
    gate = Gate(3)
    db.start(insert={"link": LINE}, watch=gate)
    assert gate.reached.wait(30)
    joined = threading.Thread.join
    calls: list[int] = []

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        calls.append(1)
        gate.opened.set()
        if len(calls) == 1:
            raise KeyboardInterrupt
        joined(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", join)
    with pytest.raises(KeyboardInterrupt):
        db.wait()
    monkeypatch.undo()
    assert sorted(db["sick"]) == [(1,)]
    assert db.epoch == 1
    db.apply(insert={"link": LINE[:1]})
    assert sorted(db["sick"]) == [(1,), (2,)]


def test_an_interrupted_apply_leaves_the_last_epoch(db: sempre.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.apply(insert={"sick": [(1,)]})

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sempre.kernel.chains.Chain.advanced", stop)
        with pytest.raises(KeyboardInterrupt):
            db.apply(insert={"link": LINE})
    assert (db.epoch, len(db["link"])) == (1, 0)
    assert db.verify().ok


def test_closing_ends_a_run() -> None:
    db = sempre.Database(".decl n(x: number)\nn(0). n(x + 1) :- n(x).", semantics="active", cycles=10_000_000)
    db.start()
    db.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "sempre-inference"]


def test_verify_finds_a_wrong_record(db: sempre.Database) -> None:
    db.apply(insert={"link": LINE[:3], "sick": [(1,)]})
    engine = active_of(db)
    rows = db._backend.rows("link", [np.array([1]), np.array([2])], 1)
    link, _, _ = engine.timeline.chains["link"].advanced(9, None, db._backend.once(rows))
    wrong = replace(engine.timeline, chains={**engine.timeline.chains, "link": link})
    engine.snapshot = replace(engine.snapshot, memories={**engine.snapshot.memories, TIMELINE: wrong})
    found = {difference.what for difference in db.verify().differences}
    assert found == {"cycles", "deleted", "missing"}
