"""Directed graphs as arrays of edges: components, levels, and the edges at a set of nodes.

Nodes are 0..n-1, with n up to `limits.MOST_NODES`; an edge is one integer, tail before head, so that sorted edges are
grouped by tail.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sempre.kernel.join import distinct

Nodes: TypeAlias = NDArray[np.int64]
Edges: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

HEAD_BITS = 32
HEAD_MASK = (1 << HEAD_BITS) - 1
# Up to this many nodes on cycles, components are found by squaring a matrix: importing SciPy takes longer.
FEW_NODES = 256


def edges_of(tails: Nodes, heads: Nodes) -> Edges:
    """Edges, in no particular order."""
    return (tails << HEAD_BITS) | heads


def ends(edges: Edges) -> tuple[Nodes, Nodes]:
    """The tails and the heads."""
    return edges >> HEAD_BITS, edges & HEAD_MASK


def reversed_edges(edges: Edges) -> Edges:
    """The same edges turned around, sorted."""
    tails, heads = ends(edges)
    turned = edges_of(heads, tails)
    turned.sort()
    return turned


def leaving(edges: Edges, nodes: Nodes) -> tuple[NDArray[np.intp], Nodes]:
    """For every edge that leaves one of the nodes, the position of that node and the edge's head.

    `edges` are sorted.
    """
    begins = edges.searchsorted(nodes << HEAD_BITS)
    hits = edges.searchsorted((nodes + 1) << HEAD_BITS) - begins
    rows = np.arange(nodes.size).repeat(hits)
    positions = np.arange(rows.size) + (begins - hits.cumsum() + hits)[rows]
    return rows, edges[positions] & HEAD_MASK


def reachable(n: int, edges: Edges, nodes: Nodes) -> Mask:
    """The nodes that some path, also an empty one, leads to from one of `nodes`. `edges` are sorted."""
    found = np.zeros(n, np.bool_)
    found[nodes] = True
    front = np.flatnonzero(found)
    while front.size:
        _, heads = leaving(edges, front)
        heads = heads[~found[heads]]
        found[heads] = True
        front = distinct(heads)
    return found


def components(n: int, tails: Nodes, heads: Nodes) -> Nodes:
    """The connected component of every node, directions ignored: the least node in it."""
    labels = np.arange(n)
    while tails.size:
        # Hook the greater of two roots below the lesser one, then let every node point to its root.
        low, high = np.minimum(tails, heads), np.maximum(tails, heads)
        np.minimum.at(labels, high, low)
        while True:
            above = labels[labels]
            if np.array_equal(above, labels):
                break
            labels = above
        tails, heads = labels[tails], labels[heads]
        apart = tails != heads
        tails, heads = tails[apart], heads[apart]
    return labels


def levels(n: int, tails: Nodes, heads: Nodes) -> Nodes:
    """How far each node is from the sinks, by its longest path; -1 for nodes that lead to a cycle."""
    left = np.bincount(tails, minlength=n)
    backward = edges_of(heads, tails)
    backward.sort()
    level = np.full(n, -1, np.int64)
    front = np.flatnonzero(left == 0)
    depth = 0
    while front.size:
        level[front] = depth
        depth += 1
        _, before = leaving(backward, front)
        np.subtract.at(left, before, 1)
        front = distinct(before[left[before] == 0])
    return level


def strong_components(n: int, tails: Nodes, heads: Nodes) -> tuple[int, Nodes]:
    """How many strongly connected components there are, and that of each node, numbered in no particular order."""
    # Nodes that lead to no cycle, or that no cycle leads to, are components of their own.
    cyclic = (levels(n, tails, heads) < 0) & (levels(n, heads, tails) < 0)
    labels = np.arange(n)
    if cyclic.any():
        nodes = np.flatnonzero(cyclic)
        inside = cyclic[tails] & cyclic[heads]
        place = np.cumsum(cyclic) - 1
        labels[nodes] = nodes[_strong(nodes.size, place[tails[inside]], place[heads[inside]])]
    used = np.zeros(n, np.bool_)
    used[labels] = True
    return int(np.count_nonzero(used)), (np.cumsum(used) - 1)[labels]


def _strong(n: int, tails: Nodes, heads: Nodes) -> Nodes:
    """The strongly connected component of every node, as one node in it."""
    if n <= FEW_NODES:
        reach = np.eye(n, dtype=np.float32)
        reach[tails, heads] = 1
        for _ in range(n.bit_length()):
            reach = (reach @ reach > 0).astype(np.float32)
        return np.asarray(np.argmax(reach * reach.T, axis=1))
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    # Equal edges are added up: as truth values they cannot overflow.
    graph = csr_array((np.ones(tails.size, np.bool_), (tails, heads)), shape=(n, n))
    _, labels = connected_components(graph, connection="strong")
    first = np.empty(n, np.int64)
    first[labels[::-1]] = np.arange(n)[::-1]
    return np.asarray(first[labels])
