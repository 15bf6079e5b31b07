"""Proofs of random facts: the checker passes them against the oracle's facts, and heights are the oracle's rounds."""

from __future__ import annotations

import json
import random

import pytest

from sempre.api.explanations import Proof
from sempre.explain.checker import check_proof
from sempre.explain.wording import fact_text
from sempre.lang.printer import to_text
from sempre.limits import Limits
from tests.budget import seeds
from tests.engine import STRATEGIES, Truth, database, lists, updated
from tests.oracle.naive import explicit_facts
from tests.property.explained import OracleFacts, rounds
from tests.property.programs import Case, random_case
from tests.rows import plain

# Whatever cannot be found among so few facts is found by rounds, or by witness paths.
NARROW = Limits(time_moment=1e9, followed_moment=1e9, traced_facts=2, traced_instances=3)
WIDE = Limits(time_moment=1e9, followed_moment=1e9)


def check_proofs(
    case: Case, strategy: str, limits: Limits, rng: random.Random, facts: int = 6, **options: object
) -> int:
    """Explains random facts of every state of a case; returns how many."""
    explicit = explicit_facts(case.program)
    explained = 0
    with database(case.program, strategy, limits, **options) as db:
        for insert, delete in [(case.facts, {}), *case.updates]:
            db.apply(insert=lists(insert), delete=lists(delete))
            explicit = updated(explicit, insert, delete)
            truth = Truth(case.program, explicit)
            heights = rounds(case.program, explicit)
            known = OracleFacts(truth.facts, truth.explicit)
            choice = [(name, row) for name in sorted(truth.facts) for row in sorted(truth.facts[name], key=repr)]
            for name, row in rng.sample(choice, min(facts, len(choice))):
                proof = db.explain(fact_text(name, row))
                assert isinstance(proof, Proof)
                where = f"{fact_text(name, row)}\n{proof}\n{to_text(case.program)}"
                document = json.loads(json.dumps(proof.to_json()))
                assert check_proof(document, db.program.checked, known) == [], where
                for node in proof.document.nodes:
                    key = (node.relation, tuple(map(plain, node.values)))
                    assert node.height == heights.get(key, node.height), f"height of {node.text} in {where}"
                explained += 1
    return explained


@pytest.mark.parametrize("seed", range(40))
def test_proofs_are_right_and_least(seed: int) -> None:
    rng = random.Random(seed)
    strategy = STRATEGIES[seed % len(STRATEGIES)]
    check_proofs(random_case(rng), strategy, (WIDE, NARROW)[seed % 2], rng, modules=("auto", "off")[seed % 3 == 0])


@pytest.mark.slow
@pytest.mark.parametrize("first", [1_000, 2_000])
def test_many_proofs_are_right_and_least(first: int) -> None:
    for seed in seeds(first, 60):
        rng = random.Random(seed)
        strategy = STRATEGIES[seed % len(STRATEGIES)]
        check_proofs(random_case(rng), strategy, (WIDE, NARROW)[seed % 2], rng, 20)
