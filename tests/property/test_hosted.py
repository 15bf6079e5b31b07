"""Random programs with random bursts on nodes in hosts: an adversary's frames, processes, and the simulator agree."""

from __future__ import annotations

import contextlib
import random

import pytest

import sempre
from tests.budget import seeds
from tests.property.networks import Case, case_of, random_case, recast
from tests.unit.network.carried import adversary, carried_by, run_again, settle_in


def others(case: Case, seed: int, count: int) -> list[Case]:
    """The program of a case with other bursts."""
    return [case_of(case.text, recast(random.Random(seed * 1000 + number))) for number in range(count)]


def check_processes(seed: int, runs: int) -> None:
    """One program on real processes, again and again."""
    rng = random.Random(seed)
    case = random_case(rng)
    with sempre.Network(case.text, workers=rng.randint(2, 3), placement=rng.choice(("hash", "links"))) as network:
        for number, each in enumerate(others(case, seed, runs)):
            assert run_again(each, network, rng) == "", f"seed {seed}, run {number}"


class TooMany(Exception):
    """The limits of derivation sets."""


def settled_or_too_many(case: Case, rng: random.Random) -> str:
    try:
        return settle_in(case, rng, algorithm="sets", limit=2_000)
    except sempre.DataError as error:
        if error.diagnostics[0].code in ("E531", "E533"):
            raise TooMany from None
        raise


@pytest.mark.parametrize("seed", range(3))
def test_processes_give_the_central_result(seed: int) -> None:
    check_processes(seed, 5)


@pytest.mark.slow
def test_processes_give_the_central_result_a_thousand_times() -> None:
    runs = 0
    for seed in seeds(20_000, 150):
        check_processes(seed, 40)
        runs += 40
    print(f"{runs} runs")


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["proofs", "psn", "sets"])
def test_thousands_of_orders_of_frames(algorithm: str) -> None:
    schedules = 0
    for seed in seeds(30_000, 60):
        rng = random.Random(seed)
        case = random_case(rng, algorithm)
        with carried_by(adversary(seed)):
            if algorithm == "sets":
                schedules += 1
                with contextlib.suppress(TooMany):
                    assert settled_or_too_many(case, rng) == "", f"seed {seed}"
                continue
            with sempre.Network(case.text, workers=rng.randint(1, 4), algorithm=algorithm) as network:
                for number, each in enumerate(others(case, seed, 25)):
                    assert run_again(each, network, rng) == "", f"seed {seed}, run {number}"
                    schedules += 1
    print(f"{schedules} schedules")
