"""Makes sure that tasks can import this package: it is sent along where executors lack it."""

from __future__ import annotations

import atexit
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


def ensure(spark: SparkSession) -> int:
    """Let the tasks of a session import this very package: ask one, send it if it has none or another. Done once.

    Returns how many Spark jobs that took.
    """
    with _lock:
        if spark in _ready:
            return 0
        jobs = 1
        mine = str(_fingerprinter()(PACKAGE))
        if task_fingerprint(spark) != mine:
            _send(spark)
            found = task_fingerprint(spark)
            jobs = 2
            if found != mine:
                said = "have another one" if found else "cannot import it"
                message = f"the tasks of this session {said}, though `{PACKAGE}` was sent to them"
                hint = "Install the same version where Spark runs Python, or none."
                raise BackendError(Diagnostic("E722", message, hint=hint))
        _ready.add(spark)
        return jobs


def task_fingerprint(spark: SparkSession) -> str:
    """The fingerprint of the package in a task; empty if there is none."""
    name, fingerprint = PACKAGE, _fingerprinter()

    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"found": [fingerprint(name)]})

    df = spark.range(1).mapInArrow(answer, "found string")
    return str(df.toArrow().column(0)[0].as_py())


def _fingerprinter() -> Callable[[str], str]:
    """A function from the name of a package to what its source says, in short; it needs nothing of this module.

    Functions inside of functions travel whole, so that a task can be asked for a package that it lacks.
    """

    def fingerprint(name: str) -> str:
        import hashlib
        import importlib
        import importlib.resources

        try:
            importlib.import_module(name)
        except ImportError:
            return ""
        found = hashlib.sha256()
        todo = [importlib.resources.files(name)]
        while todo:
            for path in sorted(todo.pop().iterdir(), key=lambda path: path.name):
                if path.is_dir() and path.name != "__pycache__":
                    todo.append(path)
                elif path.name.endswith(".py"):
                    found.update(path.name.encode() + path.read_bytes())
        return found.hexdigest()

    return fingerprint


def _send(spark: SparkSession) -> None:
    home = Path(str(sys.modules[PACKAGE].__file__)).parent
    version = _fingerprinter()(PACKAGE)[:12]
    folder = Path(tempfile.mkdtemp(prefix="sempre-package-"))
    # Executors fetch the file when they first need it: it stays until this process ends.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    staged = folder / "package"
    shutil.copytree(home, staged / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc"))
    # The name says what is in it: Spark refuses another file of the same name.
    archive = shutil.make_archive(str(folder / f"{PACKAGE}-{version}"), "zip", staged)
    spark.addArtifacts(archive, pyfile=True)
