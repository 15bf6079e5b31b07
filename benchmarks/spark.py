"""Measures the border to Spark: pairs from Parquet into the kernel and back, beside what Spark alone takes.

python benchmarks/spark.py [--pairs N] [--repeat N] [--kind number|symbol]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sempre
from sempre.spark.session import SessionOptions, StartingSession

PARTS = 4


def write_pairs(folder: Path, pairs: int, kind: str) -> None:
    """Random pairs over a fifth as many nodes, as a folder of Parquet files."""
    rng = np.random.default_rng(1)
    nodes = pairs // 5
    columns = {name: pa.array(rng.integers(0, nodes, pairs)) for name in ("x", "y")}
    if kind == "symbol":
        names = pa.array([f"node-{n}" for n in range(nodes)])
        columns = {name: names.take(column) for name, column in columns.items()}
    table, step = pa.table(columns), -(-pairs // PARTS)
    folder.mkdir()
    for part in range(PARTS):
        pq.write_table(table.slice(part * step, step), folder / f"{part}.parquet")


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--kind", choices=("number", "symbol"), default="number")
    options = parser.parse_args()
    starting = StartingSession(SessionOptions())
    program = sempre.Program(f".decl edge(x: {options.kind}, y: {options.kind})\n.input edge(IO=parquet)\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pairs(folder / "edge.parquet", options.pairs, options.kind)
        spark = starting.get()
        print(f"session {starting.seconds:.1f} s")
        for _ in range(options.repeat):
            alone = seconds(lambda: spark.read.parquet(str(folder / "edge.parquet")).toArrow())
            db = sempre.Database(program, spark=spark)
            ours = seconds(partial(db.load, folder))
            print(f"read: Spark to Arrow {alone:.2f} s, into the kernel {ours:.2f} s, {ours / alone:.2f} times")
        table = db["edge"].to_arrow()
        target = str(folder / "out")
        for _ in range(options.repeat):
            alone = seconds(lambda: spark.createDataFrame(table).write.mode("overwrite").parquet(target))
            ours = seconds(lambda: db["edge"].to_spark().write.mode("overwrite").parquet(target))
            print(f"write: Arrow by Spark {alone:.2f} s, from the kernel {ours:.2f} s, {ours / alone:.2f} times")
        rows = db["edge"].to_arrow().slice(0, 10)
        db.apply(delete={"edge": rows})
        print(f"update: ten facts {seconds(lambda: db.apply(insert={'edge': rows})) * 1000:.1f} ms")
    starting.close()


if __name__ == "__main__":
    main()
