"""Which task hosts which node: by a hash of its address, or by a partition of the links that cuts few of them."""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from sempre.analysis.model import Relation
from sempre.data import dataclass
from sempre.network.node import Address, Fact
from sempre.network.plain import value_of

PLACEMENTS = ("auto", "hash", "links")
# How much more than its share of the work a task may get.
SLACK = 1.05
# How often every node is looked at once more: is it better off in another task?
PASSES = 8

Graph = Mapping[Address, Mapping[Address, int]]


@dataclass(frozen=True, slots=True)
class Placement:
    """The task of every node: what the table says, and for others a hash that is the same in every process."""

    size: int
    table: dict[Address, int] = field(default_factory=dict)

    def task(self, address: Address) -> int:
        found = self.table.get(address)
        return hashed(address, self.size) if found is None else found

    def to_json(self) -> dict[str, Any]:
        return {"size": self.size, "table": list(self.table.items())}


def placement_from(plain: Mapping[str, Any]) -> Placement:
    """What `Placement.to_json` wrote."""
    return Placement(int(plain["size"]), {value_of(address): int(task) for address, task in plain["table"]})


def hashed(address: Address, size: int) -> int:
    """A task for an address, by its text."""
    text = address if isinstance(address, str) else repr(address)
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % size


def placed(how: str, size: int, relations: Mapping[str, Relation], facts: Iterable[Fact]) -> Placement:
    """Where to host the nodes that these facts name. `auto` takes the links if that cuts fewer of them."""
    by_hash = Placement(size)
    if how == "hash" or size == 1:
        return by_hash
    graph = link_graph(relations, facts)
    by_links = Placement(size, partition(graph, size))
    if how == "links" or cut(graph, by_links) < cut(graph, by_hash):
        return by_links
    return by_hash


def link_graph(relations: Mapping[str, Relation], facts: Iterable[Fact]) -> dict[Address, Counter[Address]]:
    """The nodes that facts name, and how many facts join two of them: a location, and other columns of its type."""
    ends = {
        name: [at for at, type_ in enumerate(relation.types) if type_ == relation.types[relation.location]]
        for name, relation in relations.items()
        if relation.location is not None
    }
    graph: dict[Address, Counter[Address]] = {}
    for name, row in facts:
        here = row[relations[name].location or 0]
        graph.setdefault(here, Counter())
        for at in ends[name]:
            if row[at] != here:
                graph.setdefault(row[at], Counter())[here] += 1
                graph[here][row[at]] += 1
    return graph


def cut(graph: Graph, placement: Placement) -> int:
    """How many links join nodes of different tasks."""
    task = placement.task
    return sum(count for a, ends in graph.items() for b, count in ends.items() if task(a) != task(b)) // 2


def partition(graph: Graph, size: int) -> dict[Address, int]:
    """Tasks of about the same weight that few links join.

    Nodes are dealt out in the order of a search in breadth, each to the task with most of its neighbors that has room
    for it; after that, nodes move to where more of their neighbors are. A node weighs one more than it has links.
    """
    weights = {node: 1 + sum(ends.values()) for node, ends in graph.items()}
    room = SLACK * sum(weights.values()) / size
    loads = [0.0] * size
    table: dict[Address, int] = {}

    def gain(node: Address, task: int, near: Mapping[int, int]) -> float:
        fits = loads[task] + weights[node] <= room
        return near.get(task, 0) * (1 - loads[task] / room) if fits else -loads[task]

    for node in _in_breadth(graph):
        near = _near(graph, table, node)
        best = max(range(size), key=lambda task: (gain(node, task, near), -loads[task]))
        table[node] = best
        loads[best] += weights[node]
    for _ in range(PASSES):
        if not _improved(graph, table, weights, loads, room):
            break
    return table


def _near(graph: Graph, table: Mapping[Address, int], node: Address) -> Counter[int]:
    """How many links lead from a node to each task."""
    near: Counter[int] = Counter()
    for other, count in graph[node].items():
        if other in table:
            near[table[other]] += count
    return near


def _improved(
    graph: Graph, table: dict[Address, int], weights: Mapping[Address, int], loads: list[float], room: float
) -> bool:
    """Move every node to the task that most of its links lead to, if there is room; whether any moved."""
    moved = False
    for node, here in table.items():
        near = _near(graph, table, node)
        for task, count in near.most_common():
            if count <= near[here]:
                break
            if loads[task] + weights[node] <= room:
                loads[here] -= weights[node]
                loads[task] += weights[node]
                table[node] = task
                moved = True
                break
    return moved


def _in_breadth(graph: Graph) -> Iterable[Address]:
    """All nodes, neighbors soon after each other."""
    seen: dict[Address, None] = {}
    for start in graph:
        if start in seen:
            continue
        seen[start] = None
        waiting = deque([start])
        while waiting:
            for other in graph[waiting.popleft()]:
                if other not in seen:
                    seen[other] = None
                    waiting.append(other)
    return seen
