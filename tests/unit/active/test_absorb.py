"""INCR_UPDATE: what the pseudocode of [Wolfson91] gets wrong, each as a program that a reader can check by hand."""

from __future__ import annotations

import pytest

from sempre.diagnostics import DataError
from sempre.lang.parser import parse
from tests.chains import Subject, check_chains
from tests.engine import updated
from tests.oracle.active import run
from tests.oracle.naive import Facts

HEAD = '.pragma "semantics" "active"\n.decl f(x: number)\n.decl g(x: number)\n.decl h(x: number)\n'


def databases(rules: str, facts: Facts, insert: Facts, delete: Facts, after: int | None = None) -> list[set[str]]:
    """Every cycle's facts after an update that came after so many cycles; compared with the oracle, numbers too."""
    program = parse(HEAD + rules, "p.dl")
    subject = Subject(program)
    epoch = subject.engine.begin()
    epoch.absorb(subject.encoded(facts), {})
    while after != 0 and epoch.advance():
        after = None if after is None else after - 1
    epoch.absorb(subject.encoded(insert), subject.encoded(delete))
    while epoch.advance():
        pass
    timeline = epoch.inference.timeline
    expected = run(program, updated(facts, insert, delete))
    assert timeline.cycles == expected.cycles
    check_chains(subject, timeline, expected, rules)
    return [{f"{name}{row[0]}" for name, row in subject.database(timeline, k)} for k in range(timeline.cycles + 1)]


def test_cycle_0_is_set_directly() -> None:
    """A deletion there is no record that inherits from a cycle before."""
    assert databases("g(x) :- f(x).", {"f": {(1,)}}, {}, {"f": {(1,)}}) == [set(), set()]


def test_the_last_cycle_is_repaired_too() -> None:
    assert databases("g(x) :- f(x).", {"f": {(1,)}}, {"f": {(2,)}}, {}, after=1) == [
        {"f1", "f2"}, {"f1", "f2", "g1", "g2"}, {"f1", "f2", "g1", "g2"},
    ]  # fmt: skip


def test_undoing_matches_the_old_database_and_redoing_the_new_one() -> None:
    """Both facts of an instance change at once: it is lost, though neither change alone is seen on the other side."""
    found = databases("h(1) :- f(x), !g(x).", {"f": {(1,)}}, {"g": {(1,)}}, {"f": {(1,)}})
    assert found == [{"g1"}, {"g1"}]


def test_each_instance_is_undone_once_and_counted() -> None:
    """Two of three instances go: h(1) stays, with one record less two."""
    rules = "h(1) :- f(x). -h(1) :- g(1)."
    found = databases(rules, {"f": {(1,), (2,), (3,)}}, {}, {"f": {(1,), (2,)}})
    assert found[-1] == {"f3", "h1"}


def test_a_status_that_flips_stays_flipped_until_a_record_decides() -> None:
    """h(1) is only ever deleted in cycle 2: inserted at the start, it is there in cycle 1 without any record."""
    rules = "g(1) :- f(1). -h(x) :- g(x). -g(x) :- g(x), !h(x)."
    found = databases(rules, {"f": {(1,)}, "g": {(2,)}}, {"h": {(1,)}}, {})
    assert "h1" in found[1]
    assert "h1" not in found[2]


def test_a_run_that_is_now_shorter_or_longer() -> None:
    rules = "g(x + 1) :- g(x), x < 6, !f(x)."
    assert len(databases(rules, {"g": {(0,)}}, {"f": {(2,)}}, {})) < len(databases(rules, {"g": {(0,)}}, {}, {}))
    assert len(databases(rules, {"g": {(0,)}, "f": {(2,)}}, {}, {"f": {(2,)}})) == 8


def test_a_fact_that_flips_in_the_last_cycle_of_both_runs_may_flip_the_other_way() -> None:
    """Cycle 4 of one run puts h(1) out, the same cycle of the other puts it in; the next cycle starts from that."""
    rules = "g(x + 1) :- g(x), x < 3. h(1) :- g(3), !h(1), !g(9). -h(1) :- h(1), !g(9). f(1) :- h(1)."
    with pytest.raises(DataError, match="a period of 2:"):
        databases(rules, {"g": {(0,)}}, {"g": {(1,)}}, {}, after=5)


def test_what_is_both_added_and_deleted_stays_as_it_was() -> None:
    rules = "h(x) :- f(x). -h(x) :- g(x)."
    assert databases(rules, {"f": {(1,)}, "g": {(1,)}}, {"h": {(1,)}}, {})[-1] == {"f1", "g1", "h1"}
    assert databases(rules, {"f": {(1,)}}, {"g": {(1,)}}, {})[-1] == {"f1", "g1"}


def test_values_that_need_all_bits() -> None:
    """Rows and cycles together do not fit one word."""
    far = {(-(2**63) + 1,), (2**62,), (5,)}
    rules = "g(x) :- f(x). -f(x) :- g(x), !h(x). h(x) :- g(x), !f(x)."
    found = databases(
        rules, {"f": far, "h": {(2**62,)}}, {"f": {(2**63 - 1,)}}, {"h": {(2**62,)}, "f": {(5,)}}, after=2
    )
    assert f"h{2**63 - 1}" in found[-1]
    assert "g5" not in found[-1]


def test_work_is_in_proportion_to_the_consequences() -> None:
    program = parse(HEAD + "g(x) :- f(x). h(x + 1000) :- g(x), x < 5.", "p.dl")
    subject = Subject(program)
    subject.engine.apply(subject.encoded({"f": {(x,) for x in range(20_000)}}), {})
    before = subject.backend.instances
    subject.engine.apply(subject.encoded({"f": {(30_000,)}}), subject.encoded({"f": {(3,)}}))
    assert subject.backend.instances - before < 10
