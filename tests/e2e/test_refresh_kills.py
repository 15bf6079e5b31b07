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
from pyiceberg.catalog.sql import SqlCatalog

import sempre
from tests.budget import scaled
from tests.e2e.refreshing import DELTA, catalog_of, iceberg, refresh

# What pyiceberg says of tables without rows that are overwritten.
pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
ROOT = Path(__file__).parents[2]
Edge = tuple[str, str]


class Delta:
    """Tables of Delta Lake, with a change feed at the source."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = DELTA

    def write(self, edges: list[Edge], mode: Any) -> None:
        deltalake.write_deltalake(
            self.folder / "facts/edge", table_of(edges), mode=mode, configuration={"delta.enableChangeDataFeed": "true"}
        )

    def delete(self, edge: Edge) -> None:
        deltalake.DeltaTable(self.folder / "facts/edge").delete(f"x = '{edge[0]}' AND y = '{edge[1]}'")

    def read(self, name: str) -> Any:
        return deltalake.DeltaTable(self.folder / "out" / name).to_pyarrow_table().to_pylist()


class Iceberg:
    """Tables of Iceberg, in a catalog of SQLite."""

    def __init__(self, folder: Path) -> None:
        self.program = iceberg(folder)
        self.catalog = SqlCatalog("default", **catalog_of(folder))
        self.catalog.create_namespace("db")

    def write(self, edges: list[Edge], mode: Any) -> None:
        rows = table_of(edges)
        table = self.catalog.create_table_if_not_exists("db.edge", schema=rows.schema)
        (table.append if mode == "append" else table.overwrite)(rows)

    def delete(self, edge: Edge) -> None:
        self.catalog.load_table("db.edge").delete(f"x = '{edge[0]}' AND y = '{edge[1]}'")

    def read(self, name: str) -> Any:
        return self.catalog.load_table(f"db.{name}").scan().to_arrow().to_pylist()


def table_of(edges: list[Edge]) -> pa.Table:
    schema = pa.schema([("x", "string"), ("y", "string")])
    return pa.table({"x": [x for x, _ in edges], "y": [y for _, y in edges]}, schema=schema)


def killed(folder: Path, step: int) -> bool:
    """Refresh in another process, which is killed at a step; whether it came to that."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.refreshing", str(folder), str(step)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3_000:]
    return done.returncode != 0


def check(folder: Path, lake: Delta | Iceberg, edges: list[Edge]) -> None:
    """Everything is what the source says, in the store and outside."""
    reach = set(edges)
    while more := {(x, z) for x, y in reach for a, z in edges if a == y} - reach:
        reach |= more
    with sempre.Database.open(folder / "store") as db:
        assert set(db["edge"]) == set(edges)
        assert set(db["reach"]) == reach
        assert db.verify().ok
    assert Counter((row["x"], row["y"]) for row in lake.read("reach")) == Counter(reach)
    lines = (folder / "out/reach.csv").read_text().splitlines()
    assert sorted(lines) == sorted(f"{x}\t{y}" for x, y in reach)
    total: Counter[str] = Counter()
    for row in lake.read("node_changes"):
        total[row["x"]] += 1 if row["_change"] == "added" else -1
    assert +total == Counter({x for x, _ in edges})
    assert not -total


def run(folder: Path, kind: type[Delta | Iceberg], rng: random.Random, kills: int, most_steps: int) -> int:
    """So many refreshes that are killed, each followed by one that is not; how many were."""
    edges: list[Edge] = [("a", "b"), ("b", "c"), ("a", "b")]
    (folder / "out").mkdir(parents=True)
    lake = kind(folder)
    lake.write(edges, "overwrite")
    with sempre.Database(lake.program, store=folder / "store") as db:
        db.refresh(folder / "facts")
    found = 0
    for _ in range(kills):
        if rng.random() < 0.5:
            more = [(rng.choice("abcdef"), rng.choice("abcdef")) for _ in range(3)]
            lake.write(more, "append")
            edges = edges + more
        else:
            gone = rng.choice(edges)
            lake.delete(gone)
            edges = [each for each in edges if each != gone] or [("a", "b")]
            if edges == [("a", "b")]:
                lake.write(edges, "overwrite")
        found += killed(folder, rng.randrange(most_steps))
        refresh(folder, folder / "store")
        check(folder, lake, edges)
    return found


@pytest.mark.parametrize("kind", [Delta, Iceberg])
def test_kills_lose_and_double_nothing(kind: type[Delta | Iceberg], tmp_path: Path) -> None:
    assert run(tmp_path, kind, random.Random(1), kills=4, most_steps=16) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", [Delta, Iceberg])
def test_two_hundred_kills(kind: type[Delta | Iceberg], seed: int, tmp_path: Path) -> None:
    kills = scaled(40)
    assert run(tmp_path, kind, random.Random(seed + 10), kills, most_steps=20) >= kills * 5 // 8 or kills < 8
