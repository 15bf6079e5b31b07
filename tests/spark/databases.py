"""A real database to talk JDBC to: PostgreSQL where it is installed, else the Derby that Spark ships."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60


@dataclass(frozen=True)
class Service:
    """A database by its JDBC address. `options` is what a directive says to reach it."""

    url: str
    driver: str
    user: str = ""

    @property
    def options(self) -> str:
        user = f', user="{self.user}"' if self.user else ""
        return f'IO=jdbc, url="{self.url}", driver="{self.driver}"{user}'


def postgres_home() -> Path | None:
    """Where PostgreSQL's own programs are."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((home for home in homes if (home / "initdb").exists()), None)


@contextmanager
def postgres(home: Path, port: int) -> Iterator[Service]:
    """A server of our own, with its data in a folder that goes away with it."""
    with tempfile.TemporaryDirectory(prefix="sempre-postgres-") as name:
        folder = Path(name)
        data = folder / "data"
        run = _as_postgres(folder)
        command = [str(home / "initdb"), "-D", str(data), "-U", "sempre", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run([*run, *command], check=True, capture_output=True, cwd=folder)
        settings = ["-h", "127.0.0.1", "-p", str(port), "-k", str(folder), "-c", "fsync=off"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [*run, str(home / "postgres"), "-D", str(data), *settings], stdout=log, stderr=log, cwd=folder
            )
        try:
            _wait(home, port, server, folder / "log")
            yield Service(f"jdbc:postgresql://127.0.0.1:{port}/postgres", "org.postgresql.Driver", "sempre")
        finally:
            server.terminate()
            server.wait(START_SECONDS)


def _as_postgres(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root; its package brings a user for it."""
    if os.geteuid() != 0:
        return []
    shutil.chown(folder, "postgres")
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]


def _wait(home: Path, port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    ready = [str(home / "pg_isready"), "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ready, capture_output=True).returncode:
        assert server.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < deadline, log.read_text("utf-8")
        time.sleep(0.1)


def derby(folder: Path) -> Service:
    """The database inside Spark's own JVM; older versions of Spark bring it along."""
    return Service(f"jdbc:derby:{folder / 'derby'};create=true", "org.apache.derby.iapi.jdbc.AutoloadedDriver")
