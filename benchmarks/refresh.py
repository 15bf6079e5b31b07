"""What a scheduled refresh costs: a table of Delta Lake with many rows, of which a hundred change between refreshes.

python benchmarks/refresh.py [--rows 5000000] [--changed 100] [--program filter|reach] [--epochs 3] [--on local|spark]

Each command is a process of its own, as in a schedule. Printed are its seconds, those of processor time, and how the
source was read. `filter` is a rule without recursion, `reach` searches the graph from some nodes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa

SOURCE = '.decl edge(x: number, y: number)\n.input edge(IO=delta, table="edge")\n'
PROGRAMS = {
    "filter": """
.decl low(x: number)
low(x) :- edge(x, y), y < 10.
.output low(IO=delta, table="low", mode=merge)
""",
    "reach": """
.decl reach(x: number)
reach(x) :- edge(x, y), y < 10.
reach(y) :- reach(x), edge(x, y).
.output reach(IO=delta, table="reach", mode=merge)
""",
}


def rows(rng: np.random.Generator, count: int, nodes: int) -> pa.Table:
    return pa.table({"x": pa.array(rng.integers(0, nodes, count)), "y": pa.array(rng.integers(0, nodes, count))})


def ran(folder: Path, *words: str) -> tuple[float, float, str]:
    """The seconds and the processor seconds of a command, and what it printed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "sempre.cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used, done.stdout.replace("\n", " | ").strip(" |")


def measure(folder: Path, options: argparse.Namespace) -> None:
    rng = np.random.default_rng(1)
    nodes = max(options.rows // 5, 10)
    feed = {"delta.enableChangeDataFeed": "true"}
    first = rows(rng, options.rows, nodes)
    deltalake.write_deltalake(folder / "edge", first, configuration=feed)
    (folder / "program.dl").write_text(SOURCE + PROGRAMS[options.program])
    where = ["--on", "spark", "--master", "local[2]"] if options.on == "spark" else []
    show("init", ran(folder, "init", "store", "program.dl", "-F", ".", "-D", "out", *where))
    for epoch in range(options.epochs):
        deltalake.write_deltalake(folder / "edge", rows(rng, options.changed // 2, nodes), mode="append")
        gone = first.slice(epoch * options.changed, options.changed // 2).to_pylist()
        same = " OR ".join(f"(x = {each['x']} AND y = {each['y']})" for each in gone)
        deltalake.DeltaTable(folder / "edge").delete(same)
        show(f"refresh {epoch + 1}", ran(folder, "refresh", "store", "-v", *where))


def show(what: str, found: tuple[float, float, str]) -> None:
    seconds, used, said = found
    print(f"{what}\t{seconds:.2f} s\t{used:.2f} s of processor time\t{said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--changed", type=int, default=100)
    parser.add_argument("--program", choices=PROGRAMS, default="reach")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--on", choices=("local", "spark"), default="local")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sempre-refresh-") as name:
        measure(Path(name), options)


if __name__ == "__main__":
    main()
