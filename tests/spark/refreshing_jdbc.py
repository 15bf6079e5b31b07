"""A process that refreshes a store through JDBC, and is killed at one of its steps; run by `test_jdbc_kills`.

python -m tests.spark.refreshing_jdbc FOLDER JAR STEP

STEP counts what happens to the database and to the store; with a negative one nothing is killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import sempre
from sempre.api.publish import publish_from_store
from sempre.files.targets.sql_target import SqlTarget
from sempre.spark.session import SessionOptions, StartingSession
from sempre.spark.targets import JdbcConnection
from sempre.storage.store import Store
from tests.e2e.refreshing import CountedDisk, Steps, count
from tests.spark.conftest import CONF


def main(folder: Path, jar: str, last: int) -> None:
    starting = StartingSession(SessionOptions("local[1]", conf={**CONF, "spark.jars": jar}))
    spark = starting.get()
    steps = Steps(last if last >= 0 else None, lambda line: print(line, flush=True))
    count(steps, SqlTarget, "replace", "change", "append")
    count(steps, JdbcConnection, "make", "stage", "begin", "run", "tidy")
    store = Store(folder / "store")
    store.disk = CountedDisk(steps)
    with sempre.Database.open(store, spark=spark) as db:
        publish_from_store(db, str(folder / "out"), db.refresh())
    for name in steps.taken:
        print(f"passed {name}")
    sys.stdout.flush()
    starting.close()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
