"""Keeps Spark's classes as a JVM has them in memory, so that every JVM of the tests starts with half the work.

    python -m tests.spark.class_archive build/spark.jsa

An archive that does not fit the Java that finds it is passed over. See "class data sharing" in the documents of Java.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sempre.spark.session import StartingSession

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "build" / "spark.jsa"
REACH = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


def options(archive: Path) -> str:
    """The options of a JVM that takes its classes from there."""
    return f'"-XX:SharedArchiveFile={archive}" -Xlog:cds=off'


def use_some_classes(starting: StartingSession) -> None:
    """What most tests come by."""
    import sempre

    spark = starting.get()
    rows = spark.createDataFrame([("a", "b"), ("b", "c")], "x string, y string")
    with sempre.Database(REACH, spark=spark, place="cluster") as db:
        db.apply(insert={"edge": rows})
        db.apply(delete={"edge": [("a", "b")]})
        assert db["reach"].to_spark().count() == 1


def main(archive: Path) -> None:
    from pyspark import SparkContext

    from sempre.spark.session import SessionOptions, StartingSession

    new = archive.with_suffix(".new")
    conf = {"spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={new}"}
    starting = StartingSession(SessionOptions("local[2]", conf={**conf, "spark.sql.shuffle.partitions": "2"}))
    use_some_classes(starting)
    gateway = SparkContext._gateway
    starting.close()
    assert gateway is not None
    gateway.proc.stdin.close()  # the JVM ends, and writes the archive
    gateway.proc.wait()
    if new.exists():
        new.replace(archive)


if __name__ == "__main__":
    path = Path(sys.argv[1]).absolute()
    path.parent.mkdir(exist_ok=True)
    main(path)
