"""A refresh through JDBC that is killed between any two steps loses and doubles no change, in a real database."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sempre
from tests.budget import scaled
from tests.e2e.refreshing import NODES
from tests.spark.conftest import ONCE, free_port
from tests.spark.databases import Service, postgres, postgres_home

pytestmark = [pytest.mark.slow, ONCE]
ROOT = Path(__file__).parents[2]
PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge({options}, table="edge")
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
.output reach({options}, table="reach", mode=merge)
.decl node(x: symbol)
node(x) :- edge(x, _).
.output node({options}, table="node_changes", mode=changes)
"""


@pytest.fixture(scope="module")
def server(driver_jar: str) -> Iterator[tuple[Service, Path]]:
    home = postgres_home()
    if not home or not driver_jar:
        pytest.skip("no database: install postgresql and libpostgresql-jdbc-java (Debian)")
    with postgres(home, free_port()) as service:
        yield service, home


class Tables:
    """The tables of the database, without Java."""

    def __init__(self, service: Service, home: Path) -> None:
        url = service.url.removeprefix("jdbc:").replace("://", f"://{service.user}@")
        self._command = [str(home / "psql"), "-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1", url, "-c"]

    def run(self, statement: str) -> list[tuple[str, ...]]:
        done = subprocess.run([*self._command, statement], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def check(self, folder: Path, edges: list[tuple[str, str]]) -> None:
        reach = set(edges)
        while more := {(x, z) for x, y in reach for a, z in edges if a == y} - reach:
            reach |= more
        with sempre.Database.open(folder / "store") as db:
            assert set(db["reach"]) == reach
            assert db.verify().ok
        assert Counter(self.run("SELECT x, y FROM reach")) == Counter(reach)
        total: Counter[str] = Counter()
        for x, change in self.run("SELECT x, _change FROM node_changes"):
            total[x] += 1 if change == "added" else -1
        assert +total == Counter({x for x, _ in edges})
        assert not -total
        assert not self.run("SELECT 1 FROM information_schema.tables WHERE table_name LIKE '%staged'")


def refreshed(folder: Path, jar: str, last: int) -> tuple[bool, list[str]]:
    """Refresh in a process of its own; whether it was killed, and what it said of its steps."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.spark.refreshing_jdbc", str(folder), jar, str(last)],
        cwd=ROOT, capture_output=True, text=True, timeout=1_800, check=False, env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-3_000:]
    return done.returncode != 0, done.stdout.splitlines()


def test_kills_lose_and_double_nothing(server: tuple[Service, Path], driver_jar: str, tmp_path: Path) -> None:
    """Each run but the last dies; the next one makes up for it, and dies one step later."""
    service, home = server
    tables, rng = Tables(service, home), random.Random(3)
    edges = [("a", "b"), ("b", "c"), ("a", "b")]
    values = ", ".join(map(str, edges))
    tables.run(f"CREATE TABLE edge (x TEXT, y TEXT); INSERT INTO edge VALUES {values}")
    (tmp_path / "out").mkdir()
    with sempre.Database(PROGRAM.format(options=service.options), store=tmp_path / "store") as db:
        db.apply()
    died: Counter[str] = Counter()
    last, ended = 0, False
    while not ended and died.total() < scaled(120):
        killed, lines = refreshed(tmp_path, driver_jar, last)
        died.update(line.removeprefix("died ") for line in lines if line.startswith("died "))
        last, ended = (last + 1, ended) if killed else (last, True)
        if not killed:
            tables.check(tmp_path, edges)
        elif rng.random() < 0.2:
            assert not refreshed(tmp_path, driver_jar, -1)[0]
            tables.check(tmp_path, edges)
        if rng.random() < 0.5:
            more = [(rng.choice(NODES), rng.choice(NODES)) for _ in range(2)]
            tables.run(f"INSERT INTO edge VALUES {', '.join(map(str, more))}")
            edges = edges + more
        else:
            gone = rng.choice(edges)
            tables.run(f"DELETE FROM edge WHERE x = '{gone[0]}' AND y = '{gone[1]}'")
            tables.run("INSERT INTO edge VALUES ('a', 'b')")
            edges = [*(each for each in edges if each != gone), ("a", "b")]
    assert not refreshed(tmp_path, driver_jar, -1)[0]
    tables.check(tmp_path, edges)
    print(f"killed {died.total()} at {len(died)} different steps: {dict(sorted(died.items()))}")
