"""A refresh that is killed at any step loses and doubles no change, in the store and in what it publishes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.budget import scaled
from tests.e2e.lakes import LAKES

ROOT = Path(__file__).parents[2]
# What every sweep has to have died at, beside the steps of its own tables.
STORE = {"create log", "write log", "sync log", "create epochs", "rename epochs", "note HEAD", "note PUBLISHED"}
OWN = {
    "delta": {"after DeltaTarget.append", "before DeltaTarget.change", "after DeltaTarget.change"},
    "iceberg": {"before SqlCatalog.commit_table", "after SqlCatalog.commit_table", "after PyArrowFile.create"},
    "sqlite": {"after SqliteConnection.begin", "after SqliteConnection.run", "after SqlTarget.change"},
}


def run_kills(folder: Path, kind: str, seed: int, kills: int, stride: int = 1) -> tuple[Counter[str], list[str]]:
    """Kill refreshes this often; where they died, and the steps of whole ones that none has died at."""
    arguments = [sys.executable, "-W", "ignore", "-m", "tests.e2e.refreshing", str(folder), kind]
    done = subprocess.run(
        [*arguments, str(seed), str(kills), str(stride)],
        cwd=ROOT, capture_output=True, text=True, timeout=1_800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    found = re.fullmatch(r"killed (\d+) at \d+ different steps: (\{.*\}); not at (\[.*\])", done.stdout.strip())
    assert found, done.stdout
    assert int(found[1]) >= kills
    return Counter(ast.literal_eval(found[2])), ast.literal_eval(found[3])


@pytest.mark.parametrize("kind", LAKES)
def test_kills_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    """Every ninth step, which are some of the store and some of the tables."""
    died, _ = run_kills(tmp_path, kind, seed=4, kills=6, stride=9)
    assert len(died) >= 4, died


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAKES)
def test_two_hundred_kills(kind: str, tmp_path: Path) -> None:
    """At one step after the other, until the last, and again from the first."""
    died, missed = run_kills(tmp_path, kind, seed=10, kills=(kills := scaled(200)))
    assert kills < 200 or (not missed and STORE | OWN[kind] <= died.keys()), (died, missed)
