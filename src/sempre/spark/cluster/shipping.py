"""Tasks that cannot import `sempre` are sent it.

Whether they can is found out by a small job, once per session and only when a plan needs the kernel inside tasks. The
package goes as a zip file; it needs NumPy and PyArrow where tasks run.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre import diagnostics
from sempre.diagnostics import BackendError, Diagnostic
from sempre.spark.failures import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Sessions whose tasks are known to be able to import the package.
_ready: set[str] = set()


def make_importable(spark: SparkSession) -> int:
    """See to it that tasks of this session can import `sempre`; returns how many jobs that took."""
    key = _key(spark)
    if key in _ready:
        return 0
    missing = _missing(spark)
    jobs = 1
    if "sempre" in missing:
        # Executors fetch the file when they first need it: it stays until this process ends.
        folder = Path(tempfile.mkdtemp(prefix="sempre-package-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        spark.addArtifacts(str(package(folder)), pyfile=True)
        missing = _missing(spark)
        jobs = 2
    if missing:
        raise BackendError(
            Diagnostic(
                "E709",
                f"the tasks of this session cannot import {', '.join(sorted(missing))}",
                hint="install NumPy and PyArrow where executors run, or use place `driver`",
            )
        )
    _ready.add(key)
    return jobs


def package(folder: Path) -> Path:
    """A zip file of the package."""
    home = Path(diagnostics.__file__).parent
    target = folder / "sempre.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(home.rglob("*.py")):
            archive.write(path, Path("sempre") / path.relative_to(home))
    return target


def _key(spark: SparkSession) -> str:
    return str(getattr(spark, "session_id", None) or id(spark))


def _missing(spark: SparkSession) -> set[str]:
    """The modules that a task cannot import."""
    # Made of text, so that nothing of this package has to be imported to read the function itself.
    scope: dict[str, Any] = {}
    exec(PROBE, scope)
    with running():
        found = spark.range(0, 1, 1, 1).mapInArrow(scope["probe"], "module string").toArrow()
    return set(found.column(0).to_pylist())


PROBE = """
def probe(batches):
    import importlib
    import pyarrow
    for _ in batches:
        missing = []
        for name in ("numpy", "sempre"):
            try:
                importlib.import_module(name)
            except ImportError:
                missing.append(name)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(missing, pyarrow.string())], ["module"])
"""
