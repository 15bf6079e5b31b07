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


def andersen(functions: int = 330) -> dict[str, Pairs]:
    """Functions of about 450 variables that share nothing, 260,000 facts in all; 3.7 million results."""
    variables, objects = 450, 90
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


def cspa() -> dict[str, Pairs]:
    """200 clusters of 60 variables, 12,000 assignments and 16,000 dereferences; 1.4 million results."""
    clusters, variables = 200, 60
    rng = np.random.default_rng(5)

    def pairs(number: int) -> Pairs:
        cluster = rng.integers(0, clusters, 2 * number)
        ends = cluster[:, None] * variables + rng.integers(0, variables, (2 * number, 2))
        return rng.permutation(np.unique(ends, axis=0))[:number]

    return {"assign": pairs(12_000), "dereference": pairs(16_000)}


def andersen10() -> dict[str, Pairs]:
    """As `andersen`, with three times as many functions: 780,000 facts; eleven million results."""
    return andersen(990)


def hub() -> dict[str, Pairs]:
    """A hub with 200,000 spokes, there and back; it has no triangle."""
    spokes = np.arange(1, 200_001)
    center = np.zeros_like(spokes)
    return {"edge": np.concatenate([np.column_stack([center, spokes]), np.column_stack([spokes, center])])}


def owl(individuals: int = 40_000) -> dict[str, Pairs]:
    """Individuals in a hierarchy of classes, related by a few hundred properties; about a million triples follow."""
    rng = np.random.default_rng(3)
    classes, properties = 2_000, 300
    first_class, first_property, first = 100, 5_000, 10_000
    child = np.arange(1, classes)
    triples = [np.column_stack([child, np.ones_like(child), (child * rng.random(child.size)).astype(np.int64)])]
    triples[0][:, [0, 2]] += first_class
    own = np.arange(1, properties)
    parent = (own * rng.random(own.size)).astype(np.int64)
    some = rng.random(own.size) < 0.5
    triples.append(np.column_stack([own + first_property, np.full(own.size, 2), parent + first_property])[some])
    for number, share in ((3, 0.3), (4, 0.3)):
        chosen = own[rng.random(own.size) < share]
        target = rng.integers(0, classes, chosen.size) + first_class
        triples.append(np.column_stack([chosen + first_property, np.full(chosen.size, number), target]))
    for number, count in ((10, 6), (11, 10)):
        chosen = rng.integers(properties // 2, properties, count) + first_property
        triples.append(np.column_stack([chosen, np.zeros(count, np.int64), np.full(count, number)]))
    typed = np.column_stack([np.arange(individuals), np.zeros(individuals), rng.integers(0, classes, individuals)])
    typed[:, 0] += first
    typed[:, 2] += first_class
    triples.append(typed.astype(np.int64))
    facts = rng.integers(0, individuals, (3 * individuals, 2)) + first
    relations = rng.integers(1, properties, 3 * individuals) + first_property
    triples.append(np.column_stack([facts[:, 0], relations, facts[:, 1]]))
    return {"given": np.unique(np.concatenate(triples), axis=0)}


def routes(nodes: int = 30_000) -> dict[str, Pairs]:
    """A graph with few hubs and many leaves, like a network of networks: 30,000 nodes, 90,000 links; 40 monitors."""
    rng = np.random.default_rng(4)
    source = np.repeat(np.arange(1, nodes), 3)
    target = (source * rng.random(source.size) ** 3).astype(np.int64)
    links = np.column_stack([source, target])
    back = rng.random(source.size) < 0.3
    links = np.unique(np.concatenate([links, links[back][:, ::-1]]), axis=0)
    return {"link": links, "monitor": rng.choice(nodes, 40, replace=False).reshape(-1, 1)}


BENCHMARKS: dict[str, Callable[[], dict[str, Pairs]]] = {
    "closure": closure,
    "andersen": andersen,
    "same_generation": same_generation,
    "cspa": cspa,
    "hub": hub,
    "chain": chain,
}
# Only for workers.
LARGE: dict[str, Callable[[], dict[str, Pairs]]] = {"andersen10": andersen10}
# Only for updates.
CHANGING: dict[str, Callable[[], dict[str, Pairs]]] = {"owl": owl, "routes": routes}


def write(name: str, folder: Path) -> None:
    """Write the facts of one benchmark as `R.facts` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    options = csv.WriteOptions(include_header=False, delimiter="\t")
    for relation, rows in {**BENCHMARKS, **LARGE, **CHANGING}[name]().items():
        table = pa.table({f"c{column}": rows[:, column] for column in range(rows.shape[1])})
        csv.write_csv(table, folder / f"{relation}.facts", options)


if __name__ == "__main__":
    out, *names = sys.argv[1:]
    for each in names or BENCHMARKS:
        write(each, Path(out) / each)
