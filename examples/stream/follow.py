"""Follows a folder of changes with Spark Structured Streaming, and prints what each batch changes.

python examples/stream/follow.py FOLDER [--once] [--master URL | --remote URL]

FOLDER/changes receives files of JSON lines such as
    {"relation": "part", "operation": "insert", "whole": "bike", "piece": "wheel"}
    {"relation": "recalled", "operation": "delete", "piece": "spoke"}
FOLDER/feed gets the changes of every relation, one folder per batch. Stop it, or kill it, at any time: started again it
goes on where it was, and the feed has every batch once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from pyspark.sql import SparkSession

import sempre

HERE = Path(__file__).parent
SCHEMA = "relation string, operation string, whole string, piece string"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--once", action="store_true", help="end when everything that is there has been applied")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--remote", help="a Spark Connect server")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    follow(options.folder, session(options), options.once)


def session(options: argparse.Namespace) -> SparkSession:
    builder = SparkSession.builder
    builder = builder.remote(options.remote) if options.remote else builder.master(options.master)
    for setting in options.conf:
        key, _, value = setting.partition("=")
        builder = builder.config(key, value)
    return builder.getOrCreate()


def follow(folder: Path, spark: SparkSession, once: bool) -> None:
    (folder / "changes").mkdir(parents=True, exist_ok=True)
    changes_df = (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str((folder / "changes").absolute()))
    )
    with sempre.Database(sempre.Program.from_file(HERE / "parts.dl"), spark=spark) as db:
        stream = db.maintain(
            changes_df,
            checkpoint=folder / "checkpoint",
            keep_batches=True,  # this database lives in memory: after a restart it reads the kept batches again
            feed=folder / "feed",
            on_changes=show,
            trigger={"availableNow": True} if once else {"processingTime": "1 second"},
        )
        stream.await_termination()
        print(json.dumps({"epoch": db.epoch, "halted": sorted(row[0] for row in db["halted"])}), flush=True)


def show(changes: sempre.ChangeSet) -> None:
    for sign, tables in (("+", changes.added), ("-", changes.removed)):
        for row in tables["halted"].to_pylist():
            print(f"{sign} halted({row['whole']})", flush=True)


if __name__ == "__main__":
    main()
