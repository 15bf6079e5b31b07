"""Facts for the benchmarks: the same bytes for the same version of NumPy, everywhere.

python benchmarks/generate.py OUT [NAME ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

Pairs = NDArray[np.int64]


def closure() -> dict[str, Pairs]:
    """A random acyclic graph of 10,000 nodes and 100,000 edges; its closure has 22.45 million pairs."""
    nodes, edges = 10_000, 100_000
    rng = np.random.default_rng(2)
    keys = np.empty(0, np.int64)
    while keys.size < edges:
        a = (rng.random(edges) * nodes).astype(np.int64)
        b = rng.integers(0, nodes, edges)
        low, high = np.minimum(a, b), np.maximum(a, b)
        keys = np.unique(np.concatenate([keys, (low * nodes + high)[low < high]]))
    keys = rng.permutation(keys)[:edges]
    return {"edge": np.column_stack([keys // nodes, keys % nodes])}


def chain() -> dict[str, Pairs]:
    """20,000 links in a row."""
    steps = np.arange(20_000)
    return {"next": np.column_stack([steps, steps + 1])}


def same_generation() -> dict[str, Pairs]:
    """20 layers of 501 nodes, each node with about two parents in the layer above; 4.05 million results."""
    width, depth = 501, 20
    rng = np.random.default_rng(1)
    layers = []
    for layer in range(depth):
        first = np.column_stack([rng.integers(0, width, width), np.arange(width)])
        more = rng.integers(0, width, (width, 2))
        offsets = np.array([layer * width, (layer + 1) * width])
        layers.append(np.concatenate([first, more]) + offsets)
    return {"parent": np.unique(np.concatenate(layers), axis=0)}


def andersen() -> dict[str, Pairs]:
    """Functions of about 450 variables that share nothing, 260,000 facts in all; 3.7 million results."""
    functions, variables, objects = 330, 450, 90
    rng = np.random.default_rng(1)
    sizes = rng.integers(variables // 2, variables * 3 // 2, functions)
    object_counts = np.maximum(2, sizes * objects // variables)
    variable_starts = np.concatenate([[0], np.cumsum(sizes)])
    object_starts = np.concatenate([[0], np.cumsum(object_counts)])

    def pairs(per_variable: float, counts: Pairs, starts: Pairs) -> Pairs:
        ends = np.floor(np.cumsum(sizes) * per_variable).astype(np.int64)
        function = np.repeat(np.arange(functions), np.diff(ends, prepend=0))
        left = variable_starts[function] + (rng.random(function.size) * sizes[function]).astype(np.int64)
        right = starts[function] + (rng.random(function.size) * counts[function]).astype(np.int64)
        return np.unique(np.column_stack([left, right]), axis=0)

    return {
        "new": pairs(0.3, object_counts, object_starts),
        "assign": pairs(0.92, sizes, variable_starts),
        "load": pairs(0.25, sizes, variable_starts),
        "store": pairs(0.25, sizes, variable_starts),
    }


BENCHMARKS: dict[str, Callable[[], dict[str, Pairs]]] = {
    "closure": closure,
    "andersen": andersen,
    "same_generation": same_generation,
    "chain": chain,
}


def write(name: str, folder: Path) -> None:
    """Write the facts of one benchmark as `R.facts` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    options = csv.WriteOptions(include_header=False, delimiter="\t")
    for relation, pairs in BENCHMARKS[name]().items():
        table = pa.table({"x": pairs[:, 0], "y": pairs[:, 1]})
        csv.write_csv(table, folder / f"{relation}.facts", options)


if __name__ == "__main__":
    out, *names = sys.argv[1:]
    for each in names or BENCHMARKS:
        write(each, Path(out) / each)
