"""Every example does what it says."""

from __future__ import annotations

import doctest
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import sempre
from tests.spark.conftest import ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ROOT = Path(__file__).parents[2]
ACCESS = ROOT / "examples" / "access"
PAGES = ("spark.md", "streams.md", "store.md")

Pairs = set[tuple[str, str]]


def pairs(path: Path) -> Pairs:
    return {(a, b) for a, b in zip(*pq.read_table(path).to_pydict().values(), strict=True)}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, where: list[str]) -> tuple[Path, str]:
    """The folder and the output of `make demo`, for a smaller organization."""
    folder = tmp_path_factory.mktemp("demo") / "access"
    command = [sys.executable, str(ACCESS / "demo.py"), str(folder), "--people", "400", *where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def can_read(member: Pairs, within: Pairs, grant: Pairs, blocked: Pairs) -> Pairs:
    """The rules of access.dl as loops."""
    found = set()
    for person, team in member:
        teams, todo = {team}, [team]
        while todo:
            inner = todo.pop()
            new = {outer for i, outer in within if i == inner} - teams
            teams |= new
            todo += new
        found |= {(person, dataset) for team, dataset in grant if team in teams}
    return found - blocked


@ONCE
def test_the_demo_is_right_after_every_day(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    names = ("member", "within", "grant", "blocked")
    facts = {name: pairs(folder / "tables" / f"{name}.parquet") for name in names}
    log = pq.read_table(folder / "out" / "can_read.changes").to_pylist()
    state: Pairs = set()
    for epoch in range(4):
        for name in names:
            for word in ("delete", "insert"):
                path = folder / f"day-{epoch}" / f"{name}.{word}.parquet"
                if path.exists():
                    facts[name] = facts[name] - pairs(path) if word == "delete" else facts[name] | pairs(path)
        rows = [row for row in log if row["_epoch"] == epoch]
        added = {(row["person"], row["dataset"]) for row in rows if row["_change"] == "added"}
        removed = {(row["person"], row["dataset"]) for row in rows if row["_change"] == "removed"}
        assert len(rows) == len(added) + len(removed)
        assert removed <= state
        assert not added & state
        state = (state - removed) | added
        assert state == can_read(*facts.values())
    assert pairs(folder / "out" / "can_read.parquet") == state


@ONCE
def test_the_demo_shows_what_changed_and_why_it_was_fast(demo: tuple[Path, str]) -> None:
    _, output = demo
    for text in ("The largest teams", "everyone", "three grants are revoked", "no Spark job ran", "may no longer read"):
        assert text in output


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_the_pages_for_spark_users(
    page: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs every Python example of a page as one session."""
    monkeypatch.chdir(tmp_path)
    path = ROOT / "docs" / page
    blocks = re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    text = "\n".join(blocks)
    assert ">>>" in text
    test = doctest.DocTestParser().get_doctest(text, {"spark": spark}, page, str(path), 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


class Dbt:
    """What dbt hands to a model: its configuration, and other models as frames."""

    def __init__(self, tables: dict[str, DataFrame], store: str | None) -> None:
        self.ref = tables.__getitem__
        self.config = Config(store)


class Config:
    def __init__(self, store: str | None) -> None:
        self.get = {"sempre_store": store}.get

    def __call__(self, **options: object) -> None:
        assert options["materialized"] == "table"


def test_a_model_of_dbt_follows_another(spark: SparkSession, tmp_path: Path) -> None:
    model = runpy.run_path(str(ROOT / "examples" / "schedule" / "dbt_reach.py"))["model"]

    def reach(rows: list[tuple[str, str]], store: str | None) -> Pairs:
        edge = spark.createDataFrame(rows, "x string, y string")
        found = model(Dbt({"edge": edge}, store), spark)
        return {(row["x"], row["y"]) for row in found.collect()}

    store = str(tmp_path / "store")
    assert reach([("a", "b"), ("b", "c"), ("b", "c")], store) == {("a", "b"), ("b", "c"), ("a", "c")}
    assert reach([("b", "c"), ("c", "d")], store) == {("b", "c"), ("c", "d"), ("b", "d")}
    with sempre.Database.open(store) as database:
        assert database.epoch == 2
        assert database.verify().ok
