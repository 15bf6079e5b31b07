"""A writer killed at any step of a commit loses nothing that it acknowledged, and leaves nothing half done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import sempre
from tests.budget import scaled, while_time
from tests.e2e import killing

ROOT = Path(__file__).parents[2]


def run_kills(folder: Path, seed: int, first: int, kills: int) -> Counter[str]:
    """Kill a writer this often; where it died."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.killing", str(folder), str(seed), str(first), str(kills)],
        cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    lines = done.stdout.split("\n")
    assert f"killed {kills}" in lines
    return Counter(line.removeprefix("died ") for line in lines if line.startswith("died"))


def test_every_step_of_a_commit_can_be_the_last(tmp_path: Path) -> None:
    died = run_kills(tmp_path, seed=1, first=0, kills=220)
    assert sum(died.values()) >= 220
    for place in ("create", "write", "torn", "sync"):
        assert {f"{place} log", f"{place} segments", f"{place} epochs"} <= died.keys(), died
    assert died["rename epochs"]
    assert died["remove epochs"], "vacuum, too, dies"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_many_more_kills(seed: int, tmp_path: Path) -> None:
    run_kills(tmp_path, seed, first=seed, kills=scaled(400))


WRITER = """
import sys
from pathlib import Path
from tests.e2e.killing import PROGRAM, change
import sempre
with sempre.Database(PROGRAM, store=sys.argv[1]) as db:
    print("epoch", db.epoch, flush=True)
    while True:
        insert, delete = change(7, db.epoch + 1)
        db.apply(insert={"edge": insert}, delete={"edge": delete})
        print("epoch", db.epoch, flush=True)
"""


@pytest.mark.slow
def test_kills_at_any_moment(tmp_path: Path) -> None:
    """Not at a step of ours, but whenever the signal comes."""
    rng, reached, told = random.Random(5), -1, 0
    for _ in while_time(range(25), 30):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "store")], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            lines, began = [writer.stdout.readline()], time.monotonic()
            for _ in range(rng.randint(1, 6)):
                lines.append(writer.stdout.readline())
                told += 1
            # Somewhere in the next epochs, however long they take here.
            time.sleep(rng.random() * (time.monotonic() - began))
            os.kill(writer.pid, signal.SIGKILL)
            lines += writer.stdout.read().split("\n")
        acknowledged = max(int(line.split()[1]) for line in lines if line.startswith("epoch "))
        with sempre.Database(killing.PROGRAM, store=tmp_path / "store") as db:
            assert acknowledged <= db.epoch <= acknowledged + 1
            assert db.epoch >= reached
            reached = db.epoch
            assert set(db["edge"]) == killing.edges_after(7, reached)
            assert db.verify().ok
    assert reached >= told - 1
