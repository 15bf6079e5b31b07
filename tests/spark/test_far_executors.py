"""Executors that cannot import the package are sent it: a cluster of two processes in other working folders."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.environ.get("SEMPRE_TEST_SPARK") == "connect", reason="one cluster is enough"),
]

# Without `site`, nothing that was installed in place is found: packages are, as they lie in a folder.
WITHOUT_US = """#!/bin/sh
PYTHONPATH="$FAR_PACKAGES:$PYTHONPATH" exec "$FAR_PYTHON" -S "$@"
"""

SCRIPT = """
import os, sys, sysconfig
from pathlib import Path
os.environ["SEMPRE_SCRATCH"] = "scratch"  # from where this process runs, which executors do not
os.environ["PYSPARK_PYTHON"] = sys.argv[1]
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
import sempre
import sempre.limits
from sempre.spark import ship

builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.executorEnv.FAR_PYTHON", sys.executable)
spark = builder.config("spark.executorEnv.FAR_PACKAGES", sys.argv[2]).getOrCreate()
assert ship.task_fingerprint(spark) == "", "the executors have the package already"
program = '''
.decl e(x: symbol, y: symbol)
.decl r(x: symbol, y: symbol)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), e(y, z).
.decl n(x: symbol, y: number)
n(cat(x, y), strlen(x)) :- r(x, y), !e(x, y).
'''
def where(_):
    yield os.getcwd()


assert not set(spark.sparkContext.parallelize([0, 1], 2).mapPartitions(where).collect()) & {os.getcwd()}
Path("scratch").mkdir()
limits = sempre.limits.Limits(driver_rows=0, fetched_rows=0)  # all of it goes through files
with sempre.Database(program, spark=spark, place="cluster", store="kept", limits=limits) as db:
    db.apply(insert={"e": [("a", "b"), ("b", "c"), ("c", "d")]})
    print(sorted(db["n"]))
    db.apply(delete={"e": [("b", "c")]})
    print(sorted(db["r"]))
with sempre.Database.open("kept", spark=spark, place="cluster", limits=limits) as db:
    db.apply(insert={"e": [("d", "e")]})
    print(sorted(db["r"]), db.verify().ok)
with sempre.Database(program, spark=spark, place="workers", workers=2) as db:
    db.apply(insert={"e": [("a", "b"), ("b", "c"), ("c", "d")]})
    report = db.apply(delete={"e": [("b", "c")]}).report
    print("on", report.placement, sorted(db["n"]), sorted(db["r"]))
spark.stop()
"""


def test_executors_without_the_package_are_sent_it(tmp_path: Path) -> None:
    python, script = tmp_path / "python", tmp_path / "far.py"
    python.write_text(WITHOUT_US, "utf-8")
    python.chmod(0o755)
    script.write_text(SCRIPT, "utf-8")
    kept = ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    arguments = [sys.executable, str(script), str(python), sysconfig.get_paths()["purelib"]]
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=1_800, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "[('ac', 1), ('ad', 1), ('bd', 1)]" in done.stdout
    assert "[('a', 'b'), ('c', 'd')]" in done.stdout
    assert "[('a', 'b'), ('c', 'd'), ('c', 'e'), ('d', 'e')] True" in done.stdout
    assert "on driver, workers [] [('a', 'b'), ('c', 'd')]" in done.stdout
