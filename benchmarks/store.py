"""What a store costs: bytes a fact, time to open and answer a first query, time to make a small epoch durable.

python benchmarks/store.py [--derive] [--symbols] [--folder DIR] [--epochs N]

The facts are the closure of a random acyclic graph of 10,000 nodes and 100,000 edges: 22.45 million pairs, 0.1 million
edges. They are loaded as explicit facts; with --derive, rules derive them, and what the strategy remembers is stored
too. With --symbols the nodes are names instead of numbers.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import generate
import numpy as np
import pyarrow as pa
from run import machine

import sempre
from sempre.storage.store import Store

DECLARATIONS = ".decl edge(x: {0}, y: {0})\n.decl path(x: {0}, y: {0})\n"
RULES = "path(x, y) :- edge(x, y).\npath(x, z) :- path(x, y), edge(y, z).\n"
FIRST_QUERY = """
import sys, time
started = time.perf_counter()
import sempre
with sempre.Database.open(sys.argv[1]) as db:
    rows = db.query(sys.argv[2]).num_rows
print(time.perf_counter() - started, rows)
"""


def closed(edges: np.ndarray, nodes: int) -> np.ndarray:
    """All pairs of the closure: bit sets, from the last node of the order to the first."""
    reach = np.zeros((nodes, nodes // 8 + 1), np.uint8)
    order = np.argsort(edges[:, 0], kind="stable")
    sources, targets = edges[order, 0], edges[order, 1]
    starts = np.searchsorted(sources, np.arange(nodes + 1))
    pairs = []
    for node in range(nodes - 1, -1, -1):
        following = targets[starts[node] : starts[node + 1]]
        if following.size:
            reach[node] = np.bitwise_or.reduce(reach[following], axis=0)
            for one in following:  # several may share a byte
                reach[node, one // 8] |= 128 >> (one % 8)
            found = np.flatnonzero(np.unpackbits(reach[node]))
            pairs.append(np.column_stack([np.full(found.size, node), found]))
    return np.concatenate(pairs)


def table(pairs: np.ndarray, symbols: bool) -> pa.Table:
    columns = [pa.array(pairs[:, at]) for at in (0, 1)]
    if symbols:
        names = pa.array([f"node{number}" for number in range(10_001)])
        columns = [pa.DictionaryArray.from_arrays(column, names) for column in columns]
    return pa.table(dict(zip("xy", columns, strict=True)))


def measure(options: argparse.Namespace, folder: Path) -> None:
    program = DECLARATIONS.format("symbol" if options.symbols else "number") + (RULES if options.derive else "")
    edges = generate.closure()["edge"]
    tables: dict[str, Any] = {"edge": table(edges, options.symbols)}
    if not options.derive:
        tables["path"] = table(closed(edges, 10_000), options.symbols)
    with sempre.Database(program, store=folder) as db:
        started = time.perf_counter()
        report = db.materialise(tables).report
        seconds = time.perf_counter() - started
        facts = sum(len(db[name]) for name in db)
        print(f"first epoch              {seconds:8.2f} s, of which evaluation {report.seconds:.2f} s")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"facts                    {facts:,}")
    print(f"bytes a fact             {size / facts:8.2f}  ({size:,} bytes)")
    store = Store(folder)
    by_set = {name: file.bytes for piece in store.manifest().pieces for file in piece.files for name in file.holds}
    print(f"  by set                 {by_set}")
    node = '"node17"' if options.symbols else "17"
    for name, atom in (("bound", f"path({node}, X)"), ("one column", f"path(X, {node})")):
        done = [
            subprocess.run(
                [sys.executable, "-c", FIRST_QUERY, folder, atom], check=True, capture_output=True, text=True
            )
            for _ in range(3)
        ]
        times = [float(each.stdout.split()[0]) for each in done]
        rows = done[0].stdout.split()[1]
        print(f"open to first query      {statistics.median(times):8.2f} s  ({atom}: {name}, {rows} rows)")
    small_epochs(options, folder)


def small_epochs(options: argparse.Namespace, folder: Path) -> None:
    rng = np.random.default_rng(3)
    with sempre.Database.open(folder) as db:
        started = time.perf_counter()
        db.apply(insert={"edge": table(np.array([[0, 10_000]]), options.symbols)})
        print(f"first epoch after open   {time.perf_counter() - started:8.2f} s")
        whole, evaluated = [], []
        for number in range(options.epochs):
            low = rng.integers(9_000, 9_990, 10)
            rows = np.column_stack([low, low + rng.integers(1, 10, 10)])
            change = {"edge": table(rows, options.symbols)}
            started = time.perf_counter()
            changes = db.apply(insert=change) if number % 2 == 0 else db.apply(delete=change)
            whole.append(time.perf_counter() - started)
            evaluated.append(changes.report.seconds)
    durable = [a - b for a, b in zip(whole, evaluated, strict=True)]
    worst = max(whole)
    print(f"epoch of 10 facts        {statistics.median(whole):8.4f} s, worst {worst:.4f} s; of it making it durable"
          f" {statistics.median(durable):.4f} s, worst {max(durable):.4f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--derive", action="store_true")
    parser.add_argument("--symbols", action="store_true")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    print(machine())
    folder = options.folder or Path(tempfile.mkdtemp(prefix="sempre-store-"))
    try:
        measure(options, folder / "store")
    finally:
        if not options.folder:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
