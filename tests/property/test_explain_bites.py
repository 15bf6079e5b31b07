"""Defects planted into explanations: the tests of random cases find each."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sempre.api.causes import CauseFinder, InputChange
from sempre.explain.absence import AbsenceNarrator
from sempre.explain.absent import Absence
from sempre.explain.lineage import Lineage
from sempre.explain.prover import Prover
from sempre.explain.rounds import StratumRounds
from tests.property import test_explain as explained
from tests.property.programs import random_case

Plant = Callable[[pytest.MonkeyPatch], None]


def premises_turned(patch: pytest.MonkeyPatch) -> None:
    real = Prover._steps

    def steps(self: Prover, *given: Any) -> Iterator[Any]:
        return (dataclasses.replace(step, premises=step.premises[::-1]) for step in real(self, *given))

    patch.setattr(Prover, "_steps", steps)


def highest_premises(patch: pytest.MonkeyPatch) -> None:
    real = StratumRounds.heights
    patch.setattr(StratumRounds, "heights", lambda self, *given: {f: 99 - n for f, n in real(self, *given).items()})


def explicit_facts_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = Prover.instances
    patch.setattr(Prover, "instances", lambda self, facts: (set(), real(self, facts)[1]))


def something_else_missing(patch: pytest.MonkeyPatch) -> None:
    real = Absence._left

    def left(self: Absence, *given: Any, **options: Any) -> Any:
        near = real(self, *given, **options)
        return near if near is None else dataclasses.replace(near, missing=near.missing[1:] or (0,))

    patch.setattr(Absence, "_left", left)


def blockers_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = AbsenceNarrator._literal

    def literal(self: AbsenceNarrator, *given: Any) -> Any:
        return dataclasses.replace(real(self, *given), blocking=())

    patch.setattr(AbsenceNarrator, "_literal", literal)


def any_instance(patch: pytest.MonkeyPatch) -> None:
    real = Lineage._least

    def least(self: Lineage, *given: Any) -> Any:
        keep, heights = real(self, *given)
        return keep | True, heights

    patch.setattr(Lineage, "_least", least)


def first_change(patch: pytest.MonkeyPatch) -> None:
    def causes(self: CauseFinder, fact: Any) -> list[InputChange]:
        return [self.changes[0]]

    patch.setattr(CauseFinder, "causes", causes)
    patch.setattr("sempre.api.causes._flipped", lambda finder, relation, changes, facts: list(facts))


def proofs(rng: random.Random) -> None:
    explained.check_proofs(random_case(rng), "auto", explained.NARROW, rng)


def absences(rng: random.Random) -> None:
    explained.check_absences(random_case(rng), "auto", rng)


def causes(rng: random.Random) -> None:
    explained.check_causes(random_case(rng), "auto", rng)


def tables(rng: random.Random) -> None:
    explained.check_explanations(random_case(rng), "auto")


@pytest.mark.parametrize(
    ("plant", "check", "seed"),
    [
        (premises_turned, proofs, 30),
        (highest_premises, proofs, 30),
        (explicit_facts_forgotten, proofs, 30),
        (something_else_missing, absences, 100),
        (blockers_forgotten, absences, 100),
        (any_instance, tables, 300),
        (first_change, causes, 200),
    ],
)
def test_a_planted_defect_is_found(plant: Plant, check: Callable[[random.Random], None], seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, KeyError, IndexError)):
            try_cases(check, seed)


def try_cases(check: Callable[[random.Random], None], seed: int) -> None:
    for number in range(seed, seed + 30):
        check(random.Random(number))
