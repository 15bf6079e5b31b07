"""Outputs that Spark merges into tables of the session: by a catalog whose tables know MERGE, made for the test."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.spark.conftest import ONCE

pytestmark = [pytest.mark.slow, ONCE]
ROOT = Path(__file__).parents[2]


def jar_of(source: Path, folder: Path) -> Path:
    """A jar of a file of Scala, by the compiler that Spark brings along."""
    import pyspark

    from sempre.spark.java import find_java

    jars, classes = Path(pyspark.__file__).parent / "jars", folder / "classes"
    classes.mkdir()
    command = [str(find_java() / "bin/java"), "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "scala.tools.nsc.Main"]
    done = subprocess.run(
        [*command, "-usejavacp", "-nowarn", "-d", str(classes), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jar = folder / "merging.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in classes.rglob("*.class"):
            archive.write(path, path.relative_to(classes))
    return jar


def test_the_table_is_at_every_moment_some_epochs_state(tmp_path: Path) -> None:
    jar = jar_of(Path(__file__).parent / "merging/Merging.scala", tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.spark.merging.publishing", str(jar), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=1_800, check=False, env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    for step in ("before refill", "after refill", "before _merge", "after _merge", "before _tell", "after _tell"):
        assert f"stopped {step}" in done.stdout, done.stdout
    assert "whole: before _tell, after _tell, before _merge, after _merge, before _tell, after _tell" in done.stdout
    assert "others as they should be" in done.stdout
