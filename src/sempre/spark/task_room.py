"""How much memory the Python of a task may take, as far as a session tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sempre.data import dataclass
from sempre.limits import Limits
from sempre.places import machine_memory
from sempre.sizes import parse_size
from sempre.spark.hired import setting, slots_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark adds to an executor's memory for all that is not Java, unless it is told something else.
OVERHEAD_SHARE = 0.1
LEAST_OVERHEAD = 384 << 20


@dataclass(frozen=True, slots=True)
class TaskRoom:
    """The bytes that a task has if it runs alone on its executor, and those it has beside as many as run at once."""

    alone: int = 0
    beside: int = 0


def task_room(spark: SparkSession, limits: Limits) -> TaskRoom:
    """The room that tasks of a session have.

    Tasks of a local session share the machine with the driver: half of what strata may take altogether is for tasks.
    Elsewhere an executor says how much Python may take, or how much is left beside Java.
    """
    master = setting(spark, "spark.master")
    if master.startswith("local") and not master.startswith("local-"):
        whole = int(machine_memory() * limits.memory_share / 2)
        return TaskRoom(whole, whole // (slots_of(spark) or 1))
    per_task = int(setting(spark, "spark.task.cpus") or 1)
    at_once = max(1, int(setting(spark, "spark.executor.cores") or 1) // per_task)
    whole = _size(spark, "spark.executor.pyspark.memory") or _size(spark, "spark.executor.memoryOverhead")
    if not whole:
        share = float(setting(spark, "spark.executor.memoryOverheadFactor") or OVERHEAD_SHARE)
        whole = max(LEAST_OVERHEAD, int(share * (_size(spark, "spark.executor.memory") or 1 << 30)))
    return TaskRoom(whole, whole // at_once)


def _size(spark: SparkSession, name: str) -> int:
    """A setting in bytes; where it has no unit, these are MiB; 0 if there is none."""
    text = setting(spark, name)
    return (parse_size(f"{text}M" if text.isdigit() else text) or 0) if text else 0
