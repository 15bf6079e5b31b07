"""Scratch behind a URL that Python cannot open: `viewfs://`, mounted on a folder, and read by Spark alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

import sempre
from sempre.limits import Limits
from sempre.spark.cluster.scratch import SCRATCH_VARIABLE
from tests.inside import cluster_of
from tests.s3_server import BUCKET, ENVIRONMENT, S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = """
.type List = [head: number, tail: List]
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
.decl alone(x: symbol)
.decl far(x: symbol, n: number)
.decl at(k: symbol, n: number, f: float)
.decl after(k: symbol, n: number, m: number)
.decl lists(l: List)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
alone(x) :- edge(x, _), !reach(x, x).
far(x, n) :- edge(x, _), n = count : { reach(x, _) }.
after(k, n, m) :- at(k, n, _), at(k, m, _), n < m, !( at(k, z, _), n < z, z < m ).
lists([n, nil]) :- at(_, n, _).
"""
# Nothing is held in the driver: all of it goes through the URL.
IN_FILES = Limits(driver_rows=0, fetched_rows=0)


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that `viewfs://lake/scratch` is."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    spark.conf.set(f"fs.viewfs.mounttable.lake{folder.parent.name}.link./scratch", folder.as_uri())
    monkeypatch.setenv(SCRATCH_VARIABLE, f"viewfs://lake{folder.parent.name}/scratch")
    return folder


def same(far: sempre.Database, near: sempre.Database) -> None:
    for name in near:
        assert sorted(map(repr, far[name])) == sorted(map(repr, near[name])), name


def change(rng: random.Random) -> dict[str, list[tuple[object, ...]]]:
    edges: list[tuple[object, ...]] = [(f"n{rng.randrange(7)}", f"n{rng.randrange(7)}") for _ in range(5)]
    return {"edge": edges, "at": [(f"k{rng.randrange(2)}", rng.randrange(9), rng.random()) for _ in range(3)]}


def test_scratch_that_only_spark_reaches(spark: SparkSession, mounted: Path) -> None:
    rng = random.Random(1)
    with (
        sempre.Database(RULES, spark=spark, place="cluster", limits=IN_FILES) as far,
        sempre.Database(RULES) as near,
    ):
        for epoch in range(3):
            insert, delete = change(rng), change(rng) if epoch else {}
            for each in (far, near):
                each.apply(insert=insert, delete=delete)
            same(far, near)
        assert not cluster_of(far).scratch.is_here
        assert list(mounted.rglob("*.parquet")), "that is where rows went"
    left = [path for path in mounted.rglob("*.parquet") if path.stat().st_size > 600]
    assert not left, "folders stay, without rows"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = S3Server()
    for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").clear_instance_cache()
    yield f"s3://{BUCKET}"
    server.close()


@pytest.mark.parametrize("scratch", ["folder", "viewfs"])
def test_a_store_on_s3_with_relations_on_the_cluster(
    spark: SparkSession, bucket: str, scratch: str, request: pytest.FixtureRequest
) -> None:
    if scratch == "viewfs":
        request.getfixturevalue("mounted")
    edges = [("a", "b"), ("b", "c"), ("c", "d")]
    rules, place = RULES[: RULES.index("alone(x) :-")], f"{bucket}/{scratch}"
    with sempre.Database(rules, spark=spark, place="cluster", store=place, limits=IN_FILES) as db:
        db.apply(insert={"edge": edges})
        db.apply(delete={"edge": edges[:1]})
    with sempre.Database.open(place, spark=spark, place="cluster", limits=IN_FILES) as db:
        assert sorted(db["reach"]) == [("b", "c"), ("b", "d"), ("c", "d")]
        db.apply(insert={"edge": [("d", "e")]})
        assert len(db["reach"]) == 6
    with sempre.Database.open(place) as db:
        assert (db.epoch, len(db["reach"]), db.verify().ok) == (3, 6, True)
