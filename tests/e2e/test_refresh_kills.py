"""A refresh that is killed at any step loses and doubles no change, in the store and in what it publishes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import sempre
from tests.e2e.refreshing import PROGRAM, refresh

ROOT = Path(__file__).parents[2]
Edge = tuple[str, str]


def write(folder: Path, edges: list[Edge], mode: Any) -> None:
    rows = pa.table(
        {"x": [x for x, _ in edges], "y": [y for _, y in edges]}, schema=pa.schema([("x", "string"), ("y", "string")])
    )
    deltalake.write_deltalake(
        folder / "facts/edge", rows, mode=mode, configuration={"delta.enableChangeDataFeed": "true"}
    )


def killed(folder: Path, step: int) -> bool:
    """Refresh in another process, which is killed at a step; whether it came to that."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.refreshing", str(folder), str(step)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3_000:]
    return done.returncode != 0


def check(folder: Path, edges: list[Edge]) -> None:
    """Everything is what the source says, in the store and outside."""
    reach = set(edges)
    while more := {(x, z) for x, y in reach for a, z in edges if a == y} - reach:
        reach |= more
    with sempre.Database.open(folder / "store") as db:
        assert set(db["edge"]) == set(edges)
        assert set(db["reach"]) == reach
        assert db.verify().ok
    table = deltalake.DeltaTable(folder / "out/reach").to_pyarrow_table().to_pylist()
    assert Counter((row["x"], row["y"]) for row in table) == Counter(reach)
    lines = (folder / "out/reach.csv").read_text().splitlines()
    assert sorted(lines) == sorted(f"{x}\t{y}" for x, y in reach)
    total: Counter[str] = Counter()
    for row in deltalake.DeltaTable(folder / "out/node_changes").to_pyarrow_table().to_pylist():
        total[row["x"]] += 1 if row["_change"] == "added" else -1
    assert +total == Counter({x for x, _ in edges})
    assert not -total


def run(folder: Path, rng: random.Random, kills: int, most_steps: int) -> int:
    """So many refreshes that are killed, each followed by one that is not; how many were."""
    edges: list[Edge] = [("a", "b"), ("b", "c"), ("a", "b")]
    (folder / "out").mkdir(parents=True)
    write(folder, edges, "overwrite")
    with sempre.Database(PROGRAM, store=folder / "store") as db:
        db.refresh(folder / "facts")
    found = 0
    for _ in range(kills):
        if rng.random() < 0.5:
            more = [(rng.choice("abcdef"), rng.choice("abcdef")) for _ in range(3)]
            write(folder, more, "append")
            edges = edges + more
        else:
            gone = rng.choice(edges)
            deltalake.DeltaTable(folder / "facts/edge").delete(f"x = '{gone[0]}' AND y = '{gone[1]}'")
            edges = [each for each in edges if each != gone] or [("a", "b")]
            if edges == [("a", "b")]:
                write(folder, edges, "overwrite")
        found += killed(folder, rng.randrange(most_steps))
        refresh(folder, folder / "store")
        check(folder, edges)
    return found


def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, random.Random(1), kills=6, most_steps=16) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_two_hundred_kills(seed: int, tmp_path: Path) -> None:
    assert run(tmp_path, random.Random(seed + 10), kills=40, most_steps=18) >= 25
