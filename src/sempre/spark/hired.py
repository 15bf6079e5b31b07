"""Workers in the tasks of a Spark job.

A barrier job starts one process in every task, hands its address to the driver, and ends. Then the session's slots are
free again. A process stays for as long as the driver is connected to it, and ends when the driver is gone, however that
went. It is a session of its own, inherits nothing, and listens where only its machine can call it, unless the tasks run
on several machines.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import BackendError, Diagnostic
from sempre.kernel.values import Values
from sempre.limits import Limits
from sempre.places import machine_memory
from sempre.sizes import parse_size
from sempre.spark import ship
from sempre.spark.failures import job_errors
from sempre.spark.jobs import Jobs
from sempre.workers.crew import Crew
from sempre.workers.start import WORKER, connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Address = tuple[str, int]
# Whoever sets one of these does not want rows to go from one process to another as plain text.
ENCRYPTION = (
    "spark.authenticate",
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.rpc.enabled",
    "spark.io.encryption.enabled",
)
ADDRESS = "worker int, host string, port int"


def hire(
    spark: SparkSession,
    program: CheckedProgram,
    workers: int | None,
    values: Values,
    limits: Limits,
    module: str = WORKER,
) -> Crew:
    """Workers in so many tasks of a session, by default in as many as it runs at once."""
    secret = secrets.token_bytes(32)
    return connected(program, started_there(spark, workers, secret, module), secret, values, limits)


def started_there(spark: SparkSession, workers: int | None, secret: bytes, module: str = WORKER) -> list[Address]:
    """Where the processes listen that so many tasks of a session started; `module` is what they run."""
    count = checked_count(spark, workers)
    ship.ensure(spark)
    is_local = setting(spark, "spark.master").startswith("local")
    df = spark.range(0, count, 1, count).mapInArrow(_starter(secret.hex(), is_local, module), ADDRESS, barrier=True)
    jobs = Jobs(spark)
    try:
        with job_errors():
            found = jobs.one(df.toArrow)
    finally:
        jobs.close()
    rows = sorted(found.to_pylist(), key=lambda row: int(row["worker"]))
    return [(str(row["host"]), int(row["port"])) for row in rows]


def _starter(secret: str, is_local: bool, module: str) -> Any:
    """A function for `mapInArrow` that starts one process."""

    def start(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import BarrierTaskContext

        from sempre.workers.start import launched

        for _ in batches:
            pass
        context = BarrierTaskContext.get()
        mine = context.partitionId()
        host = "127.0.0.1" if is_local else context.getTaskInfos()[mine].address.rpartition(":")[0]
        address = launched(bytes.fromhex(secret), host, module)[1]
        yield pa.RecordBatch.from_pydict(
            {"worker": [mine], "host": [address[0]], "port": [address[1]]},
            schema=pa.schema({"worker": pa.int32(), "host": pa.string(), "port": pa.int32()}),
        )

    return start


# --------------------------------------------------------------------------------------------------------- slots


def checked_count(spark: SparkSession, workers: int | None) -> int:
    """How many workers to start. More than tasks can run at once are refused: Spark would wait for the others, and end
    the session at last.
    """
    if setting(spark, "spark.dynamicAllocation.enabled").lower() == "true":
        raise BackendError(
            Diagnostic(
                "E742",
                "workers need executors that stay, and this session adds and removes them: spark.dynamicAllocation",
                hint="Use place `cluster`, or a session with a fixed number of executors.",
            )
        )
    demands = next((name for name in ENCRYPTION if setting(spark, name).lower() == "true"), None)
    if demands is not None:
        raise BackendError(
            Diagnostic(
                "E743",
                f"workers talk to each other without encryption, and this session demands it: {demands}",
                hint="Use place `cluster`.",
            )
        )
    slots = slots_of(spark)
    if workers is None and slots is None:
        message = "this session does not say how many tasks it runs at once, and no number of workers is given"
        raise BackendError(Diagnostic("E744", message, hint="Give one: `workers=N`, or --workers N."))
    count = workers or slots or 1
    if slots is not None and count > slots:
        raise BackendError(
            Diagnostic(
                "E744",
                f"{count} workers were asked for, and this session runs {slots} tasks at once",
                hint=f"Use at most {slots}, or a larger session.",
            )
        )
    return count


def room(spark: SparkSession, workers: int | None, limits: Limits) -> int:
    """The bytes that workers have room for; 0 if nobody asked for them and they would only have this machine.

    Those of a local session have the same memory as the driver. Others have their share of an executor's.
    """
    if setting(spark, "spark.master").startswith("local") and not setting(spark, "spark.master").startswith("local-"):
        if workers is None:
            return 0
        checked_count(spark, workers)
        return int(machine_memory() * limits.memory_share)
    count = checked_count(spark, workers)
    executor = parse_size(setting(spark, "spark.executor.memory") or "1g") or 0
    at_once = int(setting(spark, "spark.executor.cores") or 1) // int(setting(spark, "spark.task.cpus") or 1)
    return int(count * executor * limits.memory_share / max(1, at_once))


def slots_of(spark: SparkSession) -> int | None:
    """How many tasks a session can run at once; None if it does not say."""
    master = setting(spark, "spark.master")
    per_task = int(setting(spark, "spark.task.cpus") or 1)
    if master == "local":
        return 1
    found = re.fullmatch(r"local\[(\d+|\*)(?:,\s*\d+)?\]", master)
    if found:
        import os

        cores = (os.cpu_count() or 1) if found[1] == "*" else int(found[1])
        return max(1, cores // per_task)
    found = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master)
    if found:
        return int(found[1]) * (int(found[2]) // per_task)
    executors, cores_each = setting(spark, "spark.executor.instances"), setting(spark, "spark.executor.cores")
    if executors and cores_each:
        return int(executors) * (int(cores_each) // per_task)
    limit = setting(spark, "spark.cores.max")
    return int(limit) // per_task if limit else None


def setting(spark: SparkSession, name: str) -> str:
    """What a session has for a setting; empty if it does not say."""
    try:
        return str(spark.conf.get(name, ""))
    except Exception:  # noqa: BLE001 - a server may keep a setting to itself
        return ""
