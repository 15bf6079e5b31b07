"""One Spark session for all tests here: classic, or a client of a Connect server, as SEMPRE_TEST_SPARK says.

One process cannot hold both, so `make test` runs these tests twice.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import class_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each JVM that starts here or in another process: about half of what a small job takes is to load classes.
if class_archive.ARCHIVE.exists():
    os.environ["JDK_JAVA_OPTIONS"] = class_archive.options(class_archive.ARCHIVE)


KIND = os.environ.get("SEMPRE_TEST_SPARK", "classic")
HERE = Path(__file__).parent
# Many small jobs on a busy machine: start quickly, and do not let a JVM think in many threads.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}
START_SECONDS = 180
# What differs on Connect is how frames, errors and batches cross, so that a sample of everything else runs there.
ONCE = pytest.mark.skipif(KIND == "connect", reason="it is the same on both: once is enough")
ON_CONNECT = pytest.mark.skipif(KIND == "classic", reason="a JVM of its own, for what a server shows as well")


def sample(cases: Iterable[Any], connect: int) -> list[Any]:
    """All cases in a classic session, the first few of them on Connect."""
    return list(cases)[: None if KIND == "classic" else connect]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where tables are kept."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def driver_jar() -> str:
    """PostgreSQL's JDBC driver if it is installed, else nothing; SEMPRE_TEST_JDBC=derby does without it."""
    if os.environ.get("SEMPRE_TEST_JDBC") == "derby":
        return ""
    return next((str(path) for path in sorted(Path("/usr/share/java").glob("postgresql*.jar"))), "")


@pytest.fixture(scope="session")
def connect_server(warehouse: Path, driver_jar: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server of our own."""
    import pyspark

    from sempre.spark.java import find_java

    port = free_port()
    home = Path(pyspark.__file__).parent
    conf = {**CONF, "spark.sql.warehouse.dir": str(warehouse), "spark.connect.grpc.binding.port": str(port)}
    conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    conf |= {"spark.jars": driver_jar} if driver_jar else {}
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--driver-memory", "2g"]
    command += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
    }
    folder = tmp_path_factory.mktemp("server")
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
    try:
        wait_for(port, server, folder / "log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(60)


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert server.poll() is None, log.read_text("utf-8")[-3000:]
        time.sleep(0.2)
    raise AssertionError(f"no Connect server after {START_SECONDS} s: {log.read_text('utf-8')[-3000:]}")


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, warehouse: Path, driver_jar: str) -> Iterator[SparkSession]:
    """The session, started as the command starts its own."""
    pytest.importorskip("pyspark", reason="Spark is not installed")
    from sempre.diagnostics import BackendError
    from sempre.spark.java import find_java
    from sempre.spark.session import SessionOptions, StartingSession

    try:
        find_java()
    except BackendError as error:
        pytest.skip(str(error))
    if KIND == "connect":
        options = SessionOptions(remote=request.getfixturevalue("connect_server"))
    else:
        jars = {"spark.jars": driver_jar} if driver_jar else {}
        options = SessionOptions("local[2]", conf={**CONF, **jars, "spark.sql.warehouse.dir": str(warehouse)})
    starting = StartingSession(options)
    yield starting.get()
    starting.close()


@pytest.fixture(scope="session")
def where(request: pytest.FixtureRequest) -> list[str]:
    """The options of the command that lead to the kind of session under test."""
    if KIND == "connect":
        return ["--remote", request.getfixturevalue("connect_server")]
    return ["--master", "local[2]", "--conf", f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"]
