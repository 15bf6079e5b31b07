"""Every script changes what it says, by the oracle and by every strategy."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.engine import STRATEGIES, check_epochs
from tests.property.programs import random_case
from tests.scripts.script import from_case, oracle_changes, read

SCRIPTS = sorted(Path(__file__).parent.glob("*.dl"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_oracle_agrees_with_the_script(path: Path) -> None:
    script = read(path.read_text("utf-8"), path.name)
    assert len(script.expected) == len(script.epochs) > 0
    for number, (expected, found) in enumerate(zip(script.expected, oracle_changes(script), strict=True), 1):
        assert found == expected, f"commit {number}"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_strategy_agrees_with_the_oracle(path: Path, strategy: str) -> None:
    script = read(path.read_text("utf-8"), path.name)
    check_epochs(script.program, script.epochs, strategy)


@pytest.mark.parametrize("seed", range(20))
def test_random_cases_can_be_kept_as_scripts(seed: int) -> None:
    case = random_case(random.Random(seed))
    script = read(from_case(case), "case.dl")
    assert script.program == case.program
    assert list(oracle_changes(script)) == script.expected
