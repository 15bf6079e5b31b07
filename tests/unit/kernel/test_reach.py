"""Reachability under random changes equals a search from scratch."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from sempre.kernel import compiled, graphs
from sempre.kernel.graphs import edges_of
from sempre.kernel.reach import Components, Matrix, Pairs, Reach, Search

Edge = tuple[int, int]
Edges = set[Edge]


def reachable(n: int, edges: Edges, undirected: bool) -> Edges:
    """All pairs that a nonempty path connects."""
    after: dict[int, set[int]] = {node: set() for node in range(n)}
    for tail, head in edges:
        after[tail].add(head)
        if undirected:
            after[head].add(tail)
    found = set()
    for source in range(n):
        waiting = list(after[source])
        seen = set(waiting)
        while waiting:
            for head in after[waiting.pop()] - seen:
                seen.add(head)
                waiting.append(head)
        found |= {(source, node) for node in seen}
    return found


def crossing(n: int, edges: Edges, crossed: Edges) -> Edges:
    """The pairs with a path over one of the crossed edges."""
    pairs = reachable(n, edges, False)
    at = {(node, node) for node in range(n)} | pairs
    return {(x, y) for a, b in crossed for x in range(n) if (x, a) in at for y in range(n) if (b, y) in at}


def packed(edges: Edges) -> graphs.Edges:
    columns = np.array(sorted(edges), np.int64).reshape(-1, 2)
    return edges_of(columns[:, 0], columns[:, 1])


def read(pairs: Pairs, repeats: bool) -> Edges:
    listed: list[Edge] = []
    for tails, counts, heads in pairs.blocks:
        listed += zip(tails.repeat(counts).tolist(), heads.tolist(), strict=True)
    if not repeats:
        assert len(listed) == len(set(listed)), "a pair came twice"
        assert pairs.size == len(listed)
    return set(listed)


def check(make: Callable[[], Reach], seed: int, nodes: int, steps: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, nodes)
    reach = make()
    reach.grow(n)
    edges: Edges = set()
    for _ in range(steps):
        if rng.random() < 0.5:
            fresh = {(rng.randrange(n), rng.randrange(n)) for _ in range(rng.choice((1, 2, 5, 4 * nodes)))} - edges
            if fresh:
                add(reach, n, edges, fresh)
        else:
            gone = {edge for edge in sorted(edges) if rng.random() < 0.3}
            if gone:
                trusted = {edge for edge in sorted(edges - gone) if rng.random() < 0.7}
                remove(reach, n, edges, gone, trusted if rng.random() < 0.5 else None)
        tails, heads = (side.ravel() for side in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
        held = reach.holds(tails, heads)
        pairs = zip(tails.tolist(), heads.tolist(), held.tolist(), strict=True)
        assert {(tail, head) for tail, head, yes in pairs if yes} == reachable(n, edges, isinstance(reach, Components))


def add(reach: Reach, n: int, edges: Edges, fresh: Edges) -> None:
    undirected = isinstance(reach, Components)
    before = reachable(n, edges, undirected)
    edges |= fresh
    after = reachable(n, edges, undirected)
    found = read(reach.add(packed(fresh)), repeats=isinstance(reach, Search))
    if isinstance(reach, Search):
        assert found <= after
        found -= before
    assert found == after - before


def remove(reach: Reach, n: int, edges: Edges, gone: Edges, trusted: Edges | None) -> None:
    undirected = isinstance(reach, Components)
    before = reachable(n, edges, undirected)
    doubtful = before & crossing(n, edges, gone)
    if undirected:
        ends = {node for edge in gone for node in edge}
        doubtful = {(x, y) for x, y in before if any((x, end) in before for end in ends)}
    edges -= gone
    kept = reachable(n, edges if trusted is None else trusted, undirected)

    def trusting(asked: graphs.Edges) -> graphs.Edges:
        assert trusted is not None
        assert np.isin(asked, packed(edges)).all(), "asked about an edge that is gone"
        return np.intersect1d(asked, packed(trusted))

    found = read(reach.remove(packed(gone), None if trusted is None else trusting), repeats=isinstance(reach, Search))
    assert found == doubtful - kept


@pytest.mark.parametrize("make", [Matrix, Search, Components])
def test_random_changes(make: Callable[[], Reach]) -> None:
    for seed in range(150):
        check(make, seed, nodes=10, steps=8)


@pytest.mark.parametrize("make", [Matrix, Components])
def test_more_nodes_than_bits_in_a_word(make: Callable[[], Reach]) -> None:
    for seed in range(3):
        check(make, seed, nodes=150, steps=5)


def test_components_by_scipy_equal_those_by_squaring(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        tails, heads = rng.integers(0, 40, (2, 60))
        few = graphs.strong_components(40, tails, heads)[1]
        with monkeypatch.context() as patch:
            patch.setattr(graphs, "FEW_NODES", 0)
            many = graphs.strong_components(40, tails, heads)[1]
        assert len({*zip(few.tolist(), many.tolist(), strict=True)}) == len({*few.tolist()}) == len({*many.tolist()})


def test_compiled_searches_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load(wait=True)
    monkeypatch.setattr(compiled, "WORTH_ROWS", 0)
    for seed in range(60):
        check(Search, seed, nodes=10, steps=8)


def test_a_graph_grows() -> None:
    for make in (Matrix, Components, Search):
        reach: Reach = make()
        reach.grow(2)
        read(reach.add(packed({(0, 1)})), repeats=True)
        reach.grow(300)
        found = read(reach.add(packed({(1, 299)})), repeats=True)
        assert {(0, 299), (1, 299)} <= found


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_search_from_many_sources_goes_on_where_it_stopped(
    monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    """Sources are taken some at a time, and how many depends on what the last ones reached."""
    if is_compiled:
        compiled.load(wait=True)
    monkeypatch.setattr(compiled, "WORTH_ROWS", 0 if is_compiled else 1 << 40)
    monkeypatch.setattr("sempre.kernel.reach.SEARCH_PAIRS", 500)
    rng = random.Random(3)
    nodes = 300
    edges = {(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(450)}
    search = Search(packed(edges))
    search.grow(nodes)
    found = [
        (int(tail), int(head))
        for tails, counts, heads in search.leading_from(np.arange(nodes))
        for tail, head in zip(tails.repeat(counts), heads, strict=True)
    ]
    assert len(found) == len(set(found))
    assert set(found) == reachable(nodes, edges, undirected=False)
