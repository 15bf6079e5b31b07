"""Scratch and stores behind a URL that Python cannot open: `viewfs://` mounted on a folder, and read by Spark alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

import sempre
from sempre.api.stores import as_store, check_files, vacuum
from sempre.limits import Limits
from sempre.spark.cluster.scratch import SCRATCH_VARIABLE
from sempre.spark.hadoop_files import MOST_BYTES
from sempre.storage.session_disk import session_disk
from tests.inside import cluster_of, keeper_of
from tests.s3_server import BUCKET, ENVIRONMENT, S3Server
from tests.spark.conftest import KIND, ONCE

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
    spark.conf.set(f"fs.viewfs.mounttable.{lake(folder)}.link./scratch", folder.as_uri())
    monkeypatch.setenv(SCRATCH_VARIABLE, f"viewfs://{lake(folder)}/scratch")
    return folder


def lake(folder: Path) -> str:
    """The name of the file system that has a folder; Java takes it for that of a host."""
    return f"lake-{folder.parent.name}".replace("_", "-")


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


# ------------------------------------------------------------- stores where Python has no client, and Java has one


@pytest.mark.skipif(KIND == "connect", reason="there the Java is elsewhere")
@pytest.mark.parametrize("place", ["driver", pytest.param("cluster", marks=pytest.mark.slow)])
def test_a_store_that_only_java_reaches(spark: SparkSession, mounted: Path, place: str) -> None:
    """Epochs, the past, a vacuum; and of two writers one is told that the other was first."""
    where = f"viewfs://{lake(mounted)}/scratch/kept/store"
    options: dict[str, Any] = {"spark": spark, "place": place, "limits": IN_FILES}
    rules = RULES[: RULES.index("alone(x) :-")]
    with sempre.Database(rules, store=where, **options) as db, sempre.Database(rules) as near:
        rng = random.Random(2)
        for epoch in range(3):
            insert, delete = change(rng), change(rng) if epoch else {}
            for each in (db, near):
                each.apply(insert={"edge": insert["edge"]}, delete={"edge": delete.get("edge", [])})
            same(db, near)
        sizes = len(near["reach"])
    assert sorted(path.name for path in (mounted / "kept/store/epochs").glob("*.manifest"))
    with sempre.Database.open(where, **options) as one, sempre.Database.open(where, **options) as other:
        assert (one.epoch, len(one["reach"])) == (3, sizes)
        with one.at_epoch(1) as past:
            assert 0 < len(past["edge"]) <= 5
        keeper_of(other).begin(other._engine.snapshot)
        one.apply(insert={"edge": [("x", "y")]})
        with pytest.raises(sempre.StateError, match="another writer has committed epoch 4") as raised:
            other.apply(insert={"edge": [("x", "z")]})
        assert raised.value.diagnostics[0].code == "E609"
    check_files(as_store(where, spark=spark))
    freed, left = vacuum(as_store(where, spark=spark))
    assert freed > left > 0
    with sempre.Database.open(where, **options) as db:
        assert (db.epoch, len(db["reach"]), db.verify().ok) == (5, sizes + 1, True)


@pytest.mark.skipif(KIND == "classic", reason="there Java reaches it")
def test_a_store_that_nobody_here_reaches(spark: SparkSession) -> None:
    with pytest.raises(sempre.StateError, match="E608"):
        sempre.Database(RULES, store="viewfs://lake/store", spark=spark)


@ONCE
def test_a_scheme_that_java_does_not_know(spark: SparkSession) -> None:
    with pytest.raises(sempre.StateError, match=r"E608[^$]*No FileSystem for scheme"):
        sempre.Database(RULES, store="nosuch://lake/store", spark=spark)


@ONCE
def test_files_of_java_are_told_of_as_those_of_this_machine(spark: SparkSession, mounted: Path) -> None:
    place = f"viewfs://{lake(mounted)}/scratch"
    disk = session_disk(spark, place)
    assert disk is not None
    root = PurePosixPath(disk.path_of(place))
    large = random.Random(1).randbytes(3 * MOST_BYTES + 1)
    for name, data in {"large": large, "small": b"some", "none": b""}.items():
        disk.write(root / "in" / name, data)
        assert bytes(disk.read(root / "in" / name)) == data
        assert disk.size(root / "in" / name) == len(data)
        assert (mounted / "in" / name).read_bytes() == data
    assert sorted(disk.names(root / "in")) == ["large", "none", "small"]
    assert disk.used_bytes(root) == len(large) + 4
    disk.write(root / "in/small", b"other")
    with pytest.raises(FileExistsError):
        disk.rename(root / "in/small", root / "in/large")
    assert bytes(disk.read(root / "in/large")) == large
    disk.rename(root / "in/small", root / "in/new")
    for gone in ("in/small", "nowhere"):
        with pytest.raises(FileNotFoundError):
            disk.read(root / gone)
        assert not disk.exists(root / gone)
    assert (disk.names(root / "nowhere"), disk.is_folder(root / "in")) == ([], True)
    disk.remove(root / "in/new")
    disk.remove(root / "in/new")
    assert not (mounted / "in/new").exists()
