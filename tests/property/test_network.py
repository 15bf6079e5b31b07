"""Random local programs, topologies, schedules and bursts: every run settles in the central result."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from sempre.diagnostics import DataError
from sempre.network import codegen
from sempre.network.assembly import make_network
from sempre.network.diagrams import Diagrams
from sempre.network.simulate import Adversary, Burst, Rounds, Simulation
from sempre.network.supports import SupportNode
from tests.budget import seeds
from tests.property.networks import Case, case_of, difference, random_case, settle


def check_schedules(case: Case, algorithm: str, seeds: range) -> int:
    """Run a case once for every seed; how many runs stopped at the limit of derivations."""
    expected = case.central()
    stopped = 0
    compiled = make_network(case.checked, algorithm, most=20_000 if algorithm == "sets" else 300)
    for seed in seeds:
        network = Simulation(compiled.make, compiled.location, limit=2_000 if algorithm in ("psn", "sn") else 400_000)
        schedule = Rounds() if seed % 8 == 0 or algorithm == "sn" else Adversary(seed, overlap=seed % 3 * 0.1)
        try:
            network.run(case.bursts, schedule)
        except DataError as error:
            if algorithm in ("proofs", "sets") or error.diagnostics[0].code not in ("E531", "E533"):
                raise
            stopped += 1
            continue
        assert difference(case, network, expected) == "", f"{algorithm}, seed {seed}"
    return stopped


@pytest.mark.parametrize("part", range(8))
def test_one_proof_per_fact_gives_the_central_result(part: int) -> None:
    for seed in range(part * 15, part * 15 + 15):
        check_schedules(random_case(random.Random(seed)), "proofs", range(seed * 4, seed * 4 + 4))


@pytest.mark.parametrize("algorithm", ["psn", "sets", "sn"])
def test_counting_gives_the_central_result(algorithm: str) -> None:
    stopped = 0
    for seed in range(25):
        stopped += check_schedules(random_case(random.Random(seed), algorithm), algorithm, range(seed, seed + 2))
    assert stopped <= (30 if algorithm == "sn" else 0)


def test_counting_recursion_ends_right_or_stops() -> None:
    stopped = 0
    for seed in range(40):
        case = random_case(random.Random(seed), "psn", recursive=True)
        stopped += check_schedules(case, "psn", range(seed, seed + 1))
    assert stopped < 30


# ----------------------------------------------------------------------------------------------- planted defects


def silent_ends(patch: pytest.MonkeyPatch) -> None:
    """Nobody is told that a base fact has gone but by its owner."""
    original = SupportNode._end

    def end(self: Any, stamps: Any) -> None:
        original(self, stamps)
        self.ended = {fact: stamp for fact, stamp in self.ended.items() if fact[1][0] == self.address}

    patch.setattr(SupportNode, "_end", end)


def late_news(patch: pytest.MonkeyPatch) -> None:
    """A condition that comes late may name base facts that have gone."""
    original = Diagrams.read
    patch.setattr(Diagrams, "read", lambda self, written, _: original(self, written, ()))


def old_conditions(patch: pytest.MonkeyPatch) -> None:
    """What was said first of a fact stays, whatever is said later."""
    original = SupportNode._claim

    def claim(self: Any, plan: Any, row: Any, by: Any, condition: Any) -> None:
        if by not in self.claims[plan.number].get(row, {}):
            original(self, plan, row, by, condition)

    patch.setattr(SupportNode, "_claim", claim)


@pytest.mark.parametrize("defect", [silent_ends, late_news, old_conditions])
def test_a_defect_of_conditions_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    assert any(_fails(random_case(random.Random(seed), "sets"), seed) for seed in range(200))


def _fails(case: Case, seed: int) -> bool:
    try:
        check_schedules(case, "sets", range(seed, seed + 3))
    except AssertionError:
        return True
    return False


def test_rules_of_many_loops_continue_in_functions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "MOST_LOOPS", 1)
    for seed in range(300, 340):
        check_schedules(random_case(random.Random(seed)), "proofs", range(seed, seed + 1))


@pytest.mark.parametrize("around", ["{}", "!({})", "1 = count : {{ {} }}", "!(e(@s, z), !({}))"])
def test_long_bodies_are_what_they_are_in_one_place(around: str) -> None:
    body = ", ".join(f"e(@s, y{number})" for number in range(45))
    deep = "e(@s, w)"
    for number in range(40):
        deep = f"e(@s, w{number}), !({deep})"
    text = f"""
    .decl e(@s: symbol, x: number)
    .decl l(@s: symbol, x: number)
    .decl o(@s: symbol, x: number)
    o(@s, x) :- l(@s, x), {around.format(f"{body}, y44 = x")}.
    o(@s, x + 10) :- l(@s, x), !({deep}).
    """
    facts = (("e", ("a", 1)), ("e", ("b", 1)), ("l", ("a", 1)), ("l", ("b", 2)))
    case = case_of(text, (Burst(facts, ()),))
    assert difference(case, settle(case, "proofs", Rounds()), case.central()) == ""


def test_after_every_burst_the_state_is_the_central_one() -> None:
    for seed in range(40):
        case = random_case(random.Random(1000 + seed))
        network = make_network(case.checked)
        for number, burst in enumerate(case.bursts, 1):
            network.run([burst], Adversary(seed))
            assert difference(case, network, case.central(number)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 13_000, 1_000))
def test_thousands_of_schedules(first: int) -> None:
    """Four schedules for each case."""
    for seed in seeds(first, 40):
        check_schedules(random_case(random.Random(seed)), "proofs", range(seed * 4, seed * 4 + 4))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["psn", "sets", "sn"])
def test_counting_on_many_schedules(algorithm: str) -> None:
    for seed in seeds(2_000, 40):
        check_schedules(random_case(random.Random(seed), algorithm), algorithm, range(seed, seed + 4))
