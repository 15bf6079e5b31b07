"""Starts the session of a command: in the background, with Spark's log in a file instead of on the terminal.

A session that somebody gives us does not pass through here: it is used as it is, and never stopped.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import urlsplit

from sempre.data import dataclass
from sempre.diagnostics import BackendError, Diagnostic
from sempre.spark.failures import cause_of, reason_of
from sempre.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Names a file that keeps Spark's log; without it the log is kept only when something goes wrong.
LOG_VARIABLE = "SEMPRE_SPARK_LOG"

# For sessions that live in this process: nothing leaves this machine, and results may be as large as they are.
LOCAL_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    # The quick compiler only: a command is over before the slow one pays for itself.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.maxResultSize": "0",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
}
CONNECT_PORT = 15002
CONNECT_SECONDS = 20
OWN_CONF = {"spark.app.name": "sempre", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Where the session runs: a master of Spark's, or a Spark Connect server; and its settings."""

    master: str = "local[*]"
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_java(self) -> bool:
        """Whether this process starts a JVM; a client of Spark Connect does not."""
        return self.remote is None or self.remote.startswith("local")

    @property
    def is_local(self) -> bool:
        return (self.remote or self.master).startswith("local")

    def settings(self) -> dict[str, str]:
        """All settings; what the user says wins."""
        return (LOCAL_CONF if self.is_local else {}) | (OWN_CONF if self.needs_java else {}) | dict(self.conf)


class StartingSession:
    """A session that starts while its owner does other things. `get` waits for it; `close` stops it.

    Daemon: a program with an error must not wait for Spark before it says so. A JVM that is still starting when this
    process ends sees its pipe close and ends too.
    """

    def __init__(self, options: SessionOptions) -> None:
        check_installed()
        self.seconds = 0.0
        self._options = options
        self._session: SparkSession | None = None
        self._error: Exception | None = None
        self._log: IO[bytes] | None = None
        if options.needs_java:
            self._log_path, self._log_stays = _log_path()
            # Before the file is there: an interrupt may come before its owner can close this.
            atexit.register(self._remove_log)
            self._log = _open_log(self._log_path, exclusive=not self._log_stays)
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def _start(self) -> None:
        started = time.perf_counter()
        try:
            self._session = _connect(self._options) if self._log is None else _launch(self._options, self._log)
        except Exception as error:  # noqa: BLE001  # raised again by `get`, in the thread that waits
            self._error = error
        self.seconds = time.perf_counter() - started

    def get(self) -> SparkSession:
        """The session, once it is there; raises `BackendError` with what Spark said if it did not start."""
        self._thread.join()
        if isinstance(self._error, BackendError):
            raise self._error
        if self._session is None:
            where = self._options.remote or self._options.master
            raise BackendError(
                Diagnostic(
                    "E704",
                    f"no Spark session could be started on `{where}`: {reason_of(self._error)}",
                    detail="; ".join(filter(None, (cause_of(self._error), self._last_words()))),
                    hint="Check --master, --remote and --conf; --on local evaluates without Spark.",
                )
            )
        return self._session

    def close(self) -> None:
        """Stop the session, if it has started; its log goes with it unless somebody asked for it.

        A JVM that is still starting writes on to a log without a name, until it notices that its owner has gone.
        """
        if self._session is not None:
            with contextlib.suppress(Exception):
                self._session.stop()
        if self._log is not None:
            self._remove_log()
            atexit.unregister(self._remove_log)
            if not self._thread.is_alive():
                self._log.close()

    def _remove_log(self) -> None:
        if not self._log_stays and self._error is None:
            self._log_path.unlink(missing_ok=True)

    def _last_words(self) -> str:
        """The end of the log, and where the whole of it is."""
        if self._log is None:
            return ""
        text = self._log_path.read_text("utf-8", "replace").strip()
        errors = [line for line in text.splitlines() if "Exception" in line or "rror" in line]
        said = f"Spark said: {errors[0].strip()}; " if errors else ""
        return f"{said}its log is {self._log_path}"


def check_installed() -> None:
    """Raise `BackendError` if pyspark is not there."""
    if importlib.util.find_spec("pyspark") is None:
        hint = "Install it with: pip install 'sempre[spark]'; --on local evaluates without Spark."
        raise BackendError(Diagnostic("E702", "Spark is not installed: there is no module `pyspark`", hint=hint))


def _log_path() -> tuple[Path, bool]:
    """Where the log is, and whether it stays when the session ends."""
    name = os.environ.get(LOG_VARIABLE)
    return (
        (Path(name), True)
        if name
        else (Path(tempfile.gettempdir()) / f"sempre-spark-{secrets.token_hex(8)}.log", False)
    )


def _open_log(path: Path, exclusive: bool) -> IO[bytes]:
    if not exclusive:
        return path.open("ab")
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600), "ab")


def _launch(options: SessionOptions, log: IO[bytes]) -> SparkSession:
    """Start a JVM whose output goes to `log`, and a session on it."""
    os.environ["JAVA_HOME"] = str(find_java())
    if options.is_local:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    settings = options.settings()
    if options.remote is None:
        settings.setdefault("spark.master", options.master)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
    # The one way to hand over a JVM that also the local Connect server will use.
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    builder = SparkSession.builder.config(map=dict(settings))
    if options.remote is not None:
        builder = builder.remote(options.remote)
    return builder.getOrCreate()


def _connect(options: SessionOptions) -> SparkSession:
    """A client of a Spark Connect server: no Java here."""
    from pyspark.sql import SparkSession

    assert options.remote is not None
    _check_reachable(options.remote)
    session: SparkSession = SparkSession.builder.remote(options.remote).config(map=dict(options.conf)).getOrCreate()
    session.version  # noqa: B018  # a client connects on first use: a server that is not there should be noticed now
    return session


def _check_reachable(remote: str) -> None:
    """Raise if nobody answers at the address of a server: the client itself would try for ten minutes."""
    if any(name in os.environ for name in ("grpc_proxy", "https_proxy", "http_proxy")):
        return
    address = urlsplit(remote)
    socket.create_connection((address.hostname or "", address.port or CONNECT_PORT), CONNECT_SECONDS).close()
