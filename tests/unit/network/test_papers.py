"""The examples of the papers: the old algorithm fails on three of them, ours on none, in any order."""

from __future__ import annotations

import pytest

from sempre.diagnostics import DataError
from sempre.network.psn import CountingNode
from sempre.network.simulate import Burst, Rounds, Simulation
from tests.unit.network.old_psn import OldPsn
from tests.unit.network.programs import CYCLE, FIGURE_5, FIGURE_6, HOPS, REACH, links, network_of, run

SEEDS = range(40)


def propositions(network: Simulation, names: str) -> str:
    return "".join(name for name in names if list(network.facts(name)))


# ------------------------------------------------------------------------------------ the three failures


def test_the_old_algorithm_keeps_a_fact_without_a_derivation() -> None:
    rules = [("p", ("s", "t", "r")), ("s", ("q",)), ("t", ("u",))]
    where = {"p": 1, "s": 2, "t": 2, "r": 2, "q": 3, "u": 4}
    old = OldPsn(rules, where, {"s", "t", "q", "u"})
    for sign, fact in ((1, "r"), (-1, "q"), (-1, "u")):
        old.arrive(sign, fact)
    assert old.run([2, 3, 4])
    assert old.facts == {"r", "p"}  # p rests on s and t, which are gone


@pytest.mark.parametrize("algorithm", ["sn", "psn", "derivations", "sets", "proofs"])
def test_figure_6_settles_without_p(algorithm: str) -> None:
    bursts = [Burst([("q", (3,)), ("u", (4,))]), Burst([("r", (2,))], [("q", (3,)), ("u", (4,))])]
    for seed in SEEDS:
        assert propositions(run(FIGURE_6, bursts, algorithm, seed), "pstrqu") == "r"


def test_the_old_algorithm_derives_twice() -> None:
    old = OldPsn([("p", ("t", "t"))], {"p": 1, "t": 1}, set())
    old.arrive(1, "t")
    assert old.run([])
    assert old.sent.count((1, "p")) == 2


def test_one_instance_is_derived_once() -> None:
    network = run(".decl t(@n: number) .decl p(@n: number) p(@1) :- t(@1), t(@1).", [Burst([("t", (1,))])], "psn")
    node = network.nodes[1]
    assert isinstance(node, CountingNode)
    (copies,) = node.tables[node.program.numbers["p"]].rows.values()
    assert copies.total() == 1


def test_the_old_algorithm_does_not_end() -> None:
    old = OldPsn([("p", ("a",)), ("p", ("p",))], {"p": 1, "a": 1}, set())
    old.arrive(1, "a")
    old.arrive(-1, "a")
    assert not old.run([])


@pytest.mark.parametrize("algorithm", ["sn", "derivations", "sets", "proofs"])
def test_a_fact_that_derives_itself_ends(algorithm: str) -> None:
    text = ".decl a(@n: number) .decl p(@n: number) p(@1) :- a(@1). p(@1) :- p(@1)."
    network = run(text, [Burst([("a", (1,))]), Burst([], [("a", (1,))])], algorithm)
    assert propositions(network, "ap") == ""


def test_basic_psn_takes_recursion_that_ends() -> None:
    """[Nigam10] section 2.2 runs path vector; counts say how many derivations there are."""
    network = run(REACH, [Burst(links("ab", "ac", "bd", "cd", "de")), Burst([], links("ab"))], "psn", 3)
    assert {a + b for a, b in network.facts("reach")} == {"ac", "ad", "ae", "bd", "be", "cd", "ce", "de"}
    assert all(
        copies.total() == 1
        for node in network.nodes.values()
        if isinstance(node, CountingNode)
        for copies in node.tables[node.program.numbers["reach"]].rows.values()
    )


def test_basic_psn_stops_where_a_cycle_is_counted() -> None:
    network = network_of(REACH, "psn", most=1_000)
    with pytest.raises(DataError, match=r"E533[\s\S]*more than 1,000[\s\S]*`reach` has \d+[\s\S]*infinitely many"):
        network.run([Burst(links("ab", "bc", "ca"))], Rounds())


# ------------------------------------------------------------------------------------------------ figures


@pytest.mark.parametrize("algorithm", ["sn", "psn", "derivations", "sets", "proofs"])
def test_figure_1(algorithm: str) -> None:
    before = links("ab", "ad", "dc", "bc", "ch", "fg")
    change = Burst(links("df", "af"), links("ab"))
    for seed in (None, *SEEDS):
        network = run(HOPS, [Burst(before), change], algorithm, seed)
        assert set(network.facts("hop")) == {("a", "c"), ("a", "f"), ("a", "g"), ("d", "g"), ("d", "h"), ("b", "h")}
        assert set(network.facts("tri_hop")) == {("a", "h"), ("a", "g")}


def test_figure_1_counts_derivations() -> None:
    network = run(HOPS, [Burst(links("ab", "ad", "dc", "bc", "ch", "fg"))], "psn")
    node = network.nodes["a"]
    assert isinstance(node, CountingNode)
    counts = {row: copies.total() for row, copies in node.tables[node.program.numbers["hop"]].rows.items()}
    assert counts == {("a", "c"): 2}


def sets_of(network: Simulation, name: str, node: int) -> set[tuple[str, str]]:
    """The derivation and infinite-count sets of a proposition, as sorted letters."""
    found = network.nodes[node]
    assert isinstance(found, CountingNode)
    rows = found.tables[found.program.numbers[name]].rows
    return {
        ("".join(sorted(fact[0] for fact in derivation)), "".join(sorted(fact[0] for fact in infinite)))
        for copies in rows.values()
        for derivation, infinite in copies
    }


def test_the_cycle_of_section_5_has_the_annotations_of_the_paper() -> None:
    network = run(CYCLE, [Burst([("a", (0,))])], "derivations")
    # One atom per body: nothing is sent along but the facts themselves, so the sets are those of the paper.
    assert sets_of(network, "p", 1) == {("a", ""), ("apq", "p")}
    assert sets_of(network, "q", 2) == {("ap", ""), ("apq", "pq")}


def test_figure_5() -> None:
    network = run(FIGURE_5, [Burst([("s", (0,))])], "derivations")
    # Picking an update adds its own fact to the infinite-count set: r arrives with {p, q}, p with {q, r}.
    assert sets_of(network, "r", 3) == {("pqs", ""), ("pqrs", "qr"), ("pqrs", "pqr")}
    assert sets_of(network, "p", 1) == {("s", ""), ("pqrs", "p"), ("pqrs", "pqr")}
    assert propositions(network, "spqr") == "spqr"
    assert network.events == 10  # as many updates as the figure has


@pytest.mark.parametrize(("text", "base"), [(CYCLE, ("a", (0,))), (FIGURE_5, ("s", (0,)))])
@pytest.mark.parametrize("algorithm", ["sn", "derivations", "sets", "proofs"])
def test_cycles_do_not_hold_themselves_up(text: str, base: tuple[str, tuple[int]], algorithm: str) -> None:
    for seed in SEEDS:
        network = run(text, [Burst([base]), Burst([], [base])], algorithm, seed)
        assert propositions(network, "pq") == ""


def test_a_deletion_may_come_before_what_it_deletes() -> None:
    """[Nigam11] section 6: with only base facts noted, an early deletion is lost and its insertion stays."""
    bursts = [Burst([("a", (0,))]), Burst([], [("a", (0,))]), Burst([("a", (0,))]), Burst([], [("a", (0,))])]
    for algorithm in ("derivations", "sets", "proofs"):
        for seed in range(100):
            assert propositions(run(CYCLE, bursts, algorithm, seed), "apq") == ""


def test_derivation_sets_stop_at_a_clear_limit() -> None:
    pairs = [a + b for a in "abcdef" for b in "abcdef" if a != b]
    network = network_of(REACH, "sn", most=500)
    with pytest.raises(DataError, match="E533"):
        network.run([Burst(links(*pairs))], Rounds())


def test_conditions_stop_at_a_clear_limit() -> None:
    pairs = [a + b for a in "abcdef" for b in "abcdef" if a != b]
    network = network_of(REACH, "sets", most=500)
    with pytest.raises(DataError, match=r"E533[\s\S]*more than 500 questions[\s\S]*over \d+ base facts"):
        network.run([Burst(links(*pairs))], Rounds())
