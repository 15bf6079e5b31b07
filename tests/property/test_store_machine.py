"""One store, and whatever may happen to it in any order: compared with the oracle and with the disk after every step.

Applied, asked, interrupted, closed, opened with other options and other texts of its program, vacuumed, migrated, used
by several threads, by a forked process and from another folder. `tests/property/machine.py` has the machine.
`SEMPRE_SHRINK=1` makes what fails shorter, which takes minutes.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.budget import SCALE, seeds
from tests.property.machine import StoreMachine
from tests.property.subjects import NAMES, QUICK

pytestmark = [
    pytest.mark.oracle,
    # Files that were being read when an interrupt came are closed when nobody has them any more.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COMMON: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.generate, Phase.shrink) if os.environ.get("SEMPRE_SHRINK") else (Phase.generate,),
    "print_blob": False,
    "database": None,
    "report_multiple_bugs": False,
}


def machine_of(name: str) -> type[StoreMachine]:
    """The machine for programs of one kind."""
    return type(f"Machine_{name}", (StoreMachine,), {"kind": name})


@pytest.mark.parametrize("name", QUICK)
def test_whatever_happens_to_a_store(name: str) -> None:
    run_state_machine_as_test(
        machine_of(name),
        settings=settings(max_examples=3, stateful_step_count=10, derandomize=True, **COMMON),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_much_more_happens_to_a_store(name: str) -> None:
    steps = 40 if SCALE >= 0.2 else 10
    for _ in seeds(0, 45):
        run_state_machine_as_test(
            machine_of(name), settings=settings(max_examples=1, stateful_step_count=steps, derandomize=False, **COMMON)
        )
