"""Executors that lack the package: it is sent to them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.spark.conftest import KIND

ROOT = Path(__file__).parents[2]

# Executors run the interpreter without its `site`, which would lead to an installed package.
INTERPRETER = """#!/bin/sh
PYTHONPATH="{pyspark}:{py4j}:{site}" exec "{python}" -S "$@"
"""
SCRIPT = """
import sempre
from sempre.spark import intask, ship
from pyspark.sql import SparkSession
from tests.property.test_intask import PROGRAMS

conf = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
spark = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=conf).getOrCreate()
print("before:", repr(ship.asked(spark)))
db = sempre.Database(PROGRAMS["transitive"])
db.apply(insert={"e": [(f"n{at}", f"n{at + 1}") for at in range(40)]})
program = db.program.checked
stratum = next(stratum for stratum in program.strata if stratum.recursive)
split = intask.decide(program, stratum, {}, 4)
frames = intask.close(spark, program, stratum, split, {"e": db["e"].to_arrow()})
print("rows:", frames["p"].count(), len(db["p"]) - 1)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.skipif(KIND == "connect", reason="a cluster of this machine is started by a classic session")
def test_executors_without_the_package(tmp_path: Path) -> None:
    import py4j
    import pyspark

    site = sysconfig.get_paths()["purelib"]
    interpreter = tmp_path / "python"
    parents = {"pyspark": Path(pyspark.__file__).parents[1], "py4j": Path(py4j.__file__).parents[1]}
    interpreter.write_text(INTERPRETER.format(python=sys.executable, site=site, **parents))
    interpreter.chmod(0o755)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": str(interpreter)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "before: ''" in done.stdout
    assert "rows: 820 820" in done.stdout
