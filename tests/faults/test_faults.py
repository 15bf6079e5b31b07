"""A sample of the fault campaign; `make test-faults` runs all of it, for as long as was asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.budget import SCALE
from tests.faults.campaign import KINDS

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """The campaign in a process of its own, which only forks."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5_000:]}"
    return done.stdout


def test_a_few_faults_of_every_kind() -> None:
    told = run("--minutes", "0.2", "--seed", "14")
    assert [line.partition(":")[0] for line in told.splitlines()[1:]] == list(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_more_faults(kind: str) -> None:
    run("--minutes", str(0.7 * SCALE), "--seed", "15", "--only", kind)
