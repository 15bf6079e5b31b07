"""Programs with everything next to everything: each strategy, stores and explanations, against the oracle."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sempre
from sempre.api.explanations import Proof
from sempre.lang.printer import to_text
from tests.budget import seeds
from tests.engine import STRATEGIES, Truth, check_epochs, database, lists, truths
from tests.oracle.values import OracleError
from tests.property.composed import random_limits
from tests.property.programs import Case
from tests.property.test_stores import check_case
from tests.property.wild import wild_case

pytestmark = pytest.mark.oracle
CASES = 3
MOST_FACTS = 3_000


def meant(case: Case | None) -> list[Truth]:
    """The oracle's states; none where a program has no meaning, fails, or has too many facts for a test."""
    if case is None:
        return []
    try:
        sempre.Program(to_text(case.program))
        found = truths(case.program, [(case.facts, {}), *case.updates])
    except (sempre.ProgramError, OracleError):
        return []
    return found if all(sum(map(len, truth.facts.values())) < MOST_FACTS for truth in found) else []


def check(seed: int, strategy: str) -> bool:
    """Runs a case with a strategy; whether it has a meaning."""
    rng = random.Random(f"wild {seed}")
    case = wild_case(rng)
    if not (expected := meant(case)) or case is None:
        return False
    options = {"limits": random_limits(rng), "modules": rng.choice(("auto", "off"))}
    check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, expected, seed % 2 == 0, **options)
    return True


def check_stored(seed: int, folder: Path) -> bool:
    rng = random.Random(f"wild {seed}")
    case = wild_case(rng)
    if case is None or not meant(case):
        return False
    check_case(case, folder / f"store{seed}", rng, STRATEGIES)
    return True


def check_proofs(seed: int) -> bool:
    """Asks for proofs of facts of all relations, and has them checked; also in the forms that they are shown in."""
    rng = random.Random(f"wild {seed}")
    case = wild_case(rng)
    if case is None or not meant(case):
        return False
    with database(case.program, rng.choice(STRATEGIES)) as db:
        for insert, delete in [(case.facts, {}), *case.updates]:
            db.apply(insert=lists(insert), delete=lists(delete))
        for name in db:
            rows = list(db[name])
            assert len(db.explanations(name)) == len(rows)
            for row in rng.sample(rows, min(len(rows), 2)):
                proof = db[name].explain(row)
                assert isinstance(proof, Proof)
                assert proof.check() == [], f"{proof}\n{to_text(case.program)}"
    return True


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_wild_programs(strategy: str) -> None:
    first = 100 * STRATEGIES.index(strategy)
    assert sum(check(seed, strategy) for seed in range(first, first + CASES)) >= 1


def test_wild_programs_in_stores(tmp_path: Path) -> None:
    assert sum(check_stored(seed, tmp_path) for seed in range(2_000, 2_003)) >= 1


def test_wild_facts_have_proofs() -> None:
    assert sum(check_proofs(seed) for seed in range(3_000, 3_004)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", [10_000, 200_000])
def test_many_wild_programs(first: int, tmp_path: Path) -> None:
    for seed in seeds(first, 120):
        check(seed, STRATEGIES[seed % len(STRATEGIES)])
        if seed % 4 == 0:
            check_stored(seed, tmp_path)
            check_proofs(seed)
