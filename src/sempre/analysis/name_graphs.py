"""Graphs of names: strongly connected components, topological order, cycles. Nothing here recurses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush

Graph = Mapping[str, Sequence[str]]


def components(graph: Graph) -> list[tuple[str, ...]]:
    """The strongly connected components, each after those its nodes point to (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    found: list[tuple[str, ...]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(graph[successor])))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_pop_component(stack, on_stack, node))
    return found


def _pop_component(stack: list[str], on_stack: set[str], root: str) -> tuple[str, ...]:
    members: list[str] = []
    while True:
        member = stack.pop()
        on_stack.remove(member)
        members.append(member)
        if member == root:
            return tuple(members)


def arrange(graph: Graph) -> list[tuple[str, ...]]:
    """The components, each after those it points to; ties and members are in the order of `graph`."""
    position = {name: index for index, name in enumerate(graph)}
    members = [tuple(sorted(component, key=position.__getitem__)) for component in components(graph)]
    home = {name: number for number, component in enumerate(members) for name in component}
    needs: list[set[int]] = [
        {home[successor] for name in component for successor in graph[name]} - {number}
        for number, component in enumerate(members)
    ]
    needed_by: list[list[int]] = [[] for _ in members]
    for number, below in enumerate(needs):
        for other in below:
            needed_by[other].append(number)
    waiting = [len(below) for below in needs]
    ready: list[tuple[int, int]] = []
    for number, component in enumerate(members):
        if not waiting[number]:
            heappush(ready, (position[component[0]], number))
    order: list[tuple[str, ...]] = []
    while ready:
        _, number = heappop(ready)
        order.append(members[number])
        for other in needed_by[number]:
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, (position[members[other][0]], other))
    return order


def shortest_path(graph: Graph, start: str, goal: str, within: Iterable[str]) -> list[str]:
    """The nodes of a shortest path from `start` to `goal` over nodes in `within`; empty when there is none."""
    allowed = set(within)
    came_from: dict[str, str] = {start: ""}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            path = [node]
            while came_from[path[-1]]:
                path.append(came_from[path[-1]])
            return path[::-1]
        for successor in graph[node]:
            if successor in allowed and successor not in came_from:
                came_from[successor] = node
                queue.append(successor)
    return []


def find_cycle(graph: Graph) -> list[str]:
    """The nodes of one cycle, in order; empty when there is none."""
    for component in components(graph):
        first = min(component)
        for successor in graph[first]:
            path = shortest_path(graph, successor, first, component)
            if path:
                return [first, *path[:-1]]
    return []
