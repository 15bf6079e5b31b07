"""Makes sure that tasks can import this package: it is sent along where executors lack it."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre.diagnostics import BackendError, Diagnostic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = __name__.partition(".")[0]

_lock = threading.Lock()
_ready: weakref.WeakSet[Any] = weakref.WeakSet()


def ensure(spark: SparkSession) -> None:
    """Let the tasks of a session import `sempre`: ask one of them, send the package if it cannot. Once per session."""
    with _lock:
        if spark in _ready:
            return
        found = _asked(spark)
        if not found:
            _send(spark)
            found = _asked(spark)
        version = str(sys.modules[PACKAGE].__version__)
        if found != version:
            said = f"have version {found} of it" if found else "cannot import it, though it was sent to them"
            message = f"the tasks of this session {said}, and this is {PACKAGE} {version}"
            raise BackendError(Diagnostic("E722", message, hint="install the same version where Spark runs Python"))
        _ready.add(spark)


def _asked(spark: SparkSession) -> str:
    """The version of the package in a task; empty if there is none."""
    df = spark.range(1).mapInArrow(_question(), "version string")
    return str(df.toArrow().column(0)[0].as_py())


def _question() -> Callable[[Iterator[Any]], Iterator[Any]]:
    name = PACKAGE

    def question(batches: Iterator[Any]) -> Iterator[Any]:
        import importlib

        import pyarrow as pa

        try:
            version = importlib.import_module(name).__version__
        except ImportError:
            version = ""
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [version]})

    # Pickled by value, or the task would need what it asks for.
    question.__module__ = "__main__"
    return question


def _send(spark: SparkSession) -> None:
    home = Path(str(sys.modules[PACKAGE].__file__)).parent
    version = sys.modules[PACKAGE].__version__
    with tempfile.TemporaryDirectory(prefix="sempre-") as folder:
        staged = Path(folder) / "package"
        shutil.copytree(home, staged / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
        # The name has the version: Spark refuses another file of the same name.
        archive = shutil.make_archive(str(Path(folder) / f"{PACKAGE}-{version}"), "zip", staged)
        spark.addArtifacts(archive, pyfile=True)
