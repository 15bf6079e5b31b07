"""Programs of all generators together, with random thresholds: here, in stores that are vacuumed, and on workers."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from unittest import mock

import pytest

import sempre
from sempre.backends import pipeline
from sempre.lang.printer import to_text
from tests.budget import seeds
from tests.disks import FAST
from tests.engine import STRATEGIES, Truth, check_epochs, truths
from tests.oracle.values import OracleError
from tests.property.composed import MAKERS, Maker, composed_case, random_limits
from tests.property.cycles import counted_case, cyclic_case
from tests.property.programs import Case
from tests.property.test_sharing import Plant, neighbors_agree, one_for_all, weights_of_joins, weights_of_rows
from tests.property.test_stores import check_case
from tests.workers import on_workers

pytestmark = pytest.mark.oracle
CASES = 10
# Facts, or numbers of instances.
WRONG = r"^((nonrec|rec|iterations) of )?\w+ (added |removed )?after epoch \d"


def meant(case: Case) -> list[Truth]:
    """The oracle's states; none if the program is not valid, or has no result."""
    try:
        sempre.Program(to_text(case.program))
        return truths(case.program, [(case.facts, {}), *case.updates])
    except (sempre.ProgramError, OracleError):
        return []


def check(seed: int, makers: Sequence[Maker] = MAKERS) -> bool:
    """Runs a case at some place; whether it has a meaning, and may run there."""
    rng = random.Random(f"composed {seed}")
    case = composed_case(rng, makers)
    expected = meant(case)
    if not expected:
        return False
    epochs = [(case.facts, {}), *case.updates]
    strategy, limits, modules = rng.choice(STRATEGIES), random_limits(rng), rng.choice(("auto", "off"))
    place = rng.choice(("driver", "store", "workers"))
    shared = 1 if rng.random() < 0.7 else pipeline.SHARING_ROWS
    with mock.patch.object(pipeline, "SHARING_ROWS", shared), mock.patch.object(pipeline, "SHARERS", shared):
        if place == "store":
            folder = tempfile.mkdtemp(prefix="sempre-composed-", dir=FAST)
            try:
                check_case(case, f"{folder}/store", rng, STRATEGIES)
            finally:
                shutil.rmtree(folder)
        elif place == "driver":
            check_epochs(case.program, epochs, strategy, expected, True, limits=limits, modules=modules, threads=2)
        elif sempre.Program(to_text(case.program)).checked.guards:
            return False  # those are for the driver
        else:
            with on_workers(rng.randint(1, 4)) as options:
                check_epochs(case.program, epochs, strategy, expected, limits=limits, modules=modules, **options)
    return True


def test_programs_side_by_side() -> None:
    assert sum(map(check, range(CASES))) > CASES // 2


def check_sharing() -> None:
    """Programs side by side whose rows share joins."""
    for seed in range(12):
        check(seed, (counted_case, cyclic_case))


@pytest.mark.parametrize("plant", [neighbors_agree, one_for_all, weights_of_rows, weights_of_joins])
def test_a_planted_defect_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=WRONG):
        check_sharing()


@pytest.mark.slow
@pytest.mark.parametrize("first", [1_000, 100_000])
def test_many_programs_side_by_side(first: int) -> None:
    for seed in seeds(first, 120):
        check(seed)
