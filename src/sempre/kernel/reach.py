"""What is reachable from what, kept while edges come and go.

Three ways to know it, one interface. All work on nodes 0..n-1 and on batches of edges:

- `add(edges)` gives the pairs that become reachable; `Search`, which remembers no pairs, also some that were before;
- `remove(edges, trusted, also)` gives the pairs that had a path over one of the removed edges and have none left that
  uses only trusted edges; afterwards the removed edges are gone, and all others count again. `trusted` is asked about
  edges on such paths, and about no others. `also` are reachable pairs that are no edges: what has a path over them is
  looked at too;
- `holds(tails, heads)` says which pairs are reachable now.

Paths are never empty: a node reaches itself only on a cycle. `Matrix` has a row of bits for every node, `Search` only
the edges; `Components` ignores directions and has a label for every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sempre.data import dataclass
from sempre.kernel import compiled
from sempre.kernel.graphs import (
    HEAD_BITS,
    HEAD_MASK,
    Edges,
    Mask,
    Nodes,
    components,
    edges_of,
    ends,
    leaving,
    levels,
    reachable,
    reversed_edges,
    strong_components,
)  # fmt: skip
from sempre.kernel.join import distinct

# Pairs with the tails run-length encoded: every tail belongs to so many heads, in order.
Block: TypeAlias = tuple[Nodes, Nodes, Nodes]
Blocks: TypeAlias = Iterator[Block]
Bits: TypeAlias = NDArray[np.uint64]
Trust: TypeAlias = Callable[[Edges], Edges]
# Which of some nodes are ours: pairs that begin with others are found by somebody else, who has the same edges.
Ours: TypeAlias = Callable[[Nodes], Mask]

WORD = 64
NONE: Edges = np.empty(0, np.int64)
# Words of bits that are gathered at a time, and words that are spread out into pairs at a time: both should stay in
# the cache, and in memory that the process has already.
GATHER_WORDS = 1 << 17
WRITE_WORDS = 1 << 13
# Sources that are searched from at a time, and about how many pairs that should give: both stay in memory meanwhile.
SEARCH_SOURCES = 1 << 12
SEARCH_PAIRS = 1 << 22
# Up to this many edges are added one after the other; more of them in one sweep.
FEW_EDGES = 16
# Up to this many edges are removed by looking at what leads to each and on from it; more of them source by source.
FEW_CROSSED = 64
# Fewer than one in this many edges are put in their places; more are sorted in.
FEW_SHARE = 64


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of nodes in blocks of (tails, counts, heads), made while they are read, once.

    `size` is how many there are, None when not known.

    Whatever they tell of has happened before they are read.
    """

    size: int | None
    blocks: Blocks


class Reach(Protocol):
    """Reachability under changes."""

    def grow(self, nodes: int) -> None:
        """Make room for this many nodes."""
        ...

    def add(self, edges: Edges) -> Pairs: ...

    def remove(self, edges: Edges, trusted: Trust | None, also: Edges = NONE) -> Pairs:
        """`trusted` gives those of some edges that are trusted, sorted; None when all that are left are."""
        ...

    def holds(self, tails: Nodes, heads: Nodes) -> Mask: ...


class Matrix:
    """One row of bits per node: the nodes that it reaches. With `ours` it has all rows, and tells of those alone."""

    def __init__(self, ours: Ours | None = None) -> None:
        self._ours = ours
        self._n = 0
        self._rows: Bits = np.zeros((0, 0), np.uint64)
        self._edges: Edges = np.empty(0, np.int64)

    @property
    def edges(self) -> Edges:
        """The edges there are, sorted."""
        return self._edges

    def grow(self, nodes: int) -> None:
        self._n = max(self._n, nodes)
        if self._n > self._rows.shape[0]:
            # Some room to spare, unless this is the first time: most graphs do not grow.
            size = self._n if not self._rows.size else self._n + self._n // 4
            rows = np.zeros((size, -(-size // WORD)), np.uint64)
            rows[: self._rows.shape[0], : self._rows.shape[1]] = self._rows
            self._rows = rows

    def add(self, edges: Edges) -> Pairs:
        self._edges = _united(self._edges, edges)
        tails, heads = ends(edges)
        touched = self._reaching(tails)
        before = self._rows[touched]
        if edges.size <= FEW_EDGES:
            for tail, head in zip(tails.tolist(), heads.tolist(), strict=True):
                sources = self._reaching(np.array([tail]))
                gain = self._rows[head].copy()
                gain[head // WORD] |= np.uint64(1) << np.uint64(head % WORD)
                self._rows[sources] |= gain
        else:
            self._close(self._rows, touched, self._edges)
        return self._told(touched, self._rows[touched] & ~before)

    def remove(self, edges: Edges, trusted: Trust | None, also: Edges = NONE) -> Pairs:
        crossed = np.union1d(edges, also)
        touched = self._reaching(ends(crossed)[0])
        before = self._rows[touched]
        if trusted is not None:
            before &= self._through(crossed, touched)
        self._edges = _without(self._edges, edges)
        self._close(self._rows, touched, self._edges)
        kept = self._rows[touched]
        if trusted is not None:
            kept &= before
            kept = self._proved(touched, kept, trusted)
        return self._told(touched, before & ~kept)

    def _told(self, nodes: Nodes, rows: Bits) -> Pairs:
        if self._ours is None:
            return _pairs(nodes, rows)
        mine = self._ours(nodes)
        return _pairs(nodes[mine], rows[mine])

    def _proved(self, nodes: Nodes, wanted: Bits, trusted: Trust) -> Bits:
        """The wanted pairs of these nodes that a path of trusted edges connects.

        What is on a path between the two is looked at, and nothing else. A bit for each source is handed on along the
        edges, or a bit for each target against them, whichever are fewer.
        """
        asked = np.flatnonzero(wanted.any(axis=1))
        proved = np.zeros_like(wanted)
        if not asked.size:
            return proved
        sources = nodes[asked]
        ends_in = np.bitwise_or.reduce(wanted[asked], axis=0)
        targets = np.flatnonzero(np.unpackbits(ends_in.view(np.uint8), bitorder="little"))
        edges = self._between(sources, ends_in, trusted)
        if not edges.size:
            return proved
        forward = sources.size < targets.size
        seeds = sources if forward else targets
        along = reversed_edges(edges) if forward else edges
        inner, found = _reached_seeds(along, seeds)
        block = max(1, WRITE_WORDS // max(wanted.shape[1], 1))
        for begin in range(0, asked.size, block):
            part = slice(begin, begin + block)
            pairs = np.zeros((asked[part].size, wanted.shape[1] * WORD), np.bool_)
            others = targets if forward else sources[part]
            at = np.minimum(inner.searchsorted(others), inner.size - 1)
            bits = found[at]
            bits[inner[at] != others] = 0
            if forward:
                first, last = begin // WORD, -(-(begin + pairs.shape[0]) // WORD)
                spread = np.unpackbits(
                    np.ascontiguousarray(bits[:, first:last]).view(np.uint8), axis=1, bitorder="little"
                )
                offset = begin - first * WORD
                pairs[:, targets] = spread[:, offset : offset + pairs.shape[0]].T
            else:
                pairs[:, targets] = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[:, : targets.size]
            proved[asked[part]] = np.packbits(pairs, axis=1, bitorder="little").view(np.uint64)
        return proved & wanted

    def _between(self, sources: Nodes, targets: Bits, trusted: Trust) -> Edges:
        """The trusted edges that lead on from the sources, as far as something there leads to a target; sorted."""
        words = np.flatnonzero(targets)
        seen = np.zeros(self._n, np.bool_)
        seen[sources] = True
        parts = [NONE]
        front = sources
        while front.size:
            at, heads = leaving(self._edges, front)
            hit = (targets[heads // WORD] >> (heads % WORD).astype(np.uint64)) & np.uint64(1) != 0
            rest = distinct(heads[~hit])
            leads = np.zeros(self._n, np.bool_)
            leads[rest[(self._rows[np.ix_(rest, words)] & targets[words]).any(axis=1)]] = True
            useful = hit | leads[heads]
            edges = trusted(edges_of(front[at[useful]], heads[useful]))
            parts.append(edges)
            heads = distinct(ends(edges)[1])
            front = heads[~seen[heads]]
            seen[front] = True
        edges = np.concatenate(parts)
        edges.sort()
        return edges

    def holds(self, tails: Nodes, heads: Nodes) -> Mask:
        words = self._rows[tails, heads // WORD]
        return np.asarray((words >> (heads % WORD).astype(np.uint64)) & np.uint64(1) != 0)

    def _reaching(self, nodes: Nodes) -> Nodes:
        """The nodes themselves and all that reach one of them."""
        wanted = np.zeros(self._rows.shape[1] * WORD, np.bool_)
        wanted[nodes] = True
        mask = np.packbits(wanted, bitorder="little").view(np.uint64)
        words = np.flatnonzero(mask)
        found: Mask = np.asarray((self._rows[: self._n, words] & mask[words]).any(axis=1))
        found[nodes] = True
        return np.flatnonzero(found)

    def _through(self, edges: Edges, touched: Nodes) -> Bits:
        """For each touched node, what it reaches over one of the edges."""
        tails, heads = ends(edges)
        base = np.zeros(self._rows.shape, np.uint64)  # pages that nobody writes to are never made
        order = np.argsort(tails, kind="stable")
        _or_rows(base, tails[order], self._rows, heads[order])
        _set_bits(base, tails, heads)
        _propagate(base, self._n, touched, self._edges)
        return base[touched]

    def _close(self, rows: Bits, nodes: Nodes, edges: Edges) -> None:
        """Compute the rows of `nodes` anew; nodes they lead to outside have right rows already."""
        inside = np.zeros(self._n, np.bool_)
        inside[nodes] = True
        at, heads = leaving(edges, nodes)
        tails = nodes[at]
        rows[nodes] = 0
        _set_bits(rows, tails, heads)
        outside = ~inside[heads]
        # Many edges may lead to nodes that lead nowhere, as the last steps of paths do.
        beyond = distinct(heads[outside])
        leads = np.zeros(self._n, np.bool_)
        for begin in range(0, beyond.size, WRITE_WORDS):
            part = beyond[begin : begin + WRITE_WORDS]
            leads[part] = rows[part].any(axis=1)
        outside[outside] = leads[heads[outside]]
        _or_rows(rows, tails[outside], rows, heads[outside])
        _propagate(rows, self._n, nodes, edges)


def _propagate(rows: Bits, n: int, nodes: Nodes, edges: Edges) -> None:
    """Give every node, in `nodes`, also what is in the rows of those it leads to, in `nodes` too. Both are sorted."""
    inside = np.zeros(n, np.bool_)
    inside[nodes] = True
    place = np.cumsum(inside) - 1
    at, heads = leaving(edges, nodes)
    mine = inside[heads]
    tails, heads = at[mine], place[heads[mine]]
    level = levels(nodes.size, tails, heads)
    if (level >= 0).all():
        _sweep(rows, nodes, level, tails, heads)
        return
    count, label = strong_components(nodes.size, tails, heads)
    # Every component works on the row of one of its nodes; the others get a copy.
    chief = np.empty(count, np.int64)
    chief[label] = nodes
    order = np.argsort(label, kind="stable")
    _or_rows(rows, chief[label[order]], rows, nodes[order])
    across = distinct(edges_of(label[tails], label[heads]))
    tails, heads = ends(across)
    apart = tails != heads
    tails, heads = tails[apart], heads[apart]
    _sweep(rows, chief, levels(count, tails, heads), tails, heads)
    rows[nodes] = rows[chief[label]]


def _reached_seeds(edges: Edges, seeds: Nodes) -> tuple[Nodes, Bits]:
    """The nodes at sorted edges, and for each a bit for every seed that a path leads to from it."""
    tails, heads = ends(edges)
    nodes = distinct(np.concatenate((tails, heads)))
    tails, heads = nodes.searchsorted(tails), nodes.searchsorted(heads)
    number = np.full(nodes.size, -1)
    known = np.flatnonzero(np.isin(seeds, nodes))
    number[nodes.searchsorted(seeds[known])] = known
    rows = np.zeros((nodes.size, -(-seeds.size // WORD)), np.uint64)
    last = number[heads] >= 0
    _set_bits(rows, tails[last], number[heads[last]])
    _propagate(rows, nodes.size, np.arange(nodes.size), edges_of(tails, heads))
    return nodes, rows


def _sweep(rows: Bits, nodes: Nodes, level: Nodes, tails: Nodes, heads: Nodes) -> None:
    """Or the rows of heads into those of tails, from the sinks up."""
    order = np.argsort(level[tails], kind="stable")
    tails, heads = tails[order], heads[order]
    stops = np.searchsorted(level[tails], np.arange(1, int(level.max(initial=0)) + 2))
    for begin, end in zip(stops[:-1].tolist(), stops[1:].tolist(), strict=True):
        within = np.argsort(tails[begin:end], kind="stable")
        _or_rows(rows, nodes[tails[begin:end][within]], rows, nodes[heads[begin:end][within]])


def _or_rows(rows: Bits, targets: Nodes, source: Bits, froms: Nodes) -> None:
    """`rows[target] |= source[from]` for all pairs; targets are grouped, and no row is both target and source.

    Reading a row of an own group is harmless: what it had is in the result either way.
    """
    chunk = max(1, GATHER_WORDS // max(rows.shape[1], 1))
    for begin in range(0, targets.size, chunk):
        part = targets[begin : begin + chunk]
        starts = np.flatnonzero(np.concatenate(([True], part[1:] != part[:-1])))
        gathered = source[froms[begin : begin + chunk]]
        rows[part[starts]] |= np.bitwise_or.reduceat(gathered, starts, axis=0)


def _set_bits(rows: Bits, nodes: Nodes, bits: Nodes) -> None:
    """Set one bit in the row of each node; a node may occur more than once."""
    flat = rows.reshape(-1)
    place = nodes * rows.shape[1] + bits // WORD
    order = np.argsort(place, kind="stable")
    place = place[order]
    if not place.size:
        return
    starts = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    masks = np.uint64(1) << (bits[order] % WORD).astype(np.uint64)
    flat[place[starts]] |= np.bitwise_or.reduceat(masks, starts)


def _pairs(nodes: Nodes, rows: Bits) -> Pairs:
    """The set bits as pairs, row by row."""
    return Pairs(int(np.bitwise_count(rows).sum()), _spread(nodes, rows))


def _spread(nodes: Nodes, rows: Bits) -> Blocks:
    chunk = max(1, WRITE_WORDS // max(rows.shape[1], 1))
    for begin in range(0, nodes.size, chunk):
        part = rows[begin : begin + chunk]
        words = np.flatnonzero(part)
        if not words.size:
            continue
        # Only words with a bit in them are spread out, one byte a bit.
        bits = part.reshape(-1)[words]
        spread = np.unpackbits(bits.view(np.uint8), bitorder="little").view(np.bool_)
        counts = np.bitwise_count(bits).astype(np.int64)
        row, word = np.divmod(words, part.shape[1])
        heads = np.flatnonzero(spread)
        heads &= WORD - 1
        heads += (word * WORD).repeat(counts)
        yield nodes[begin + row], counts, heads


def _without(edges: Edges, gone: Edges) -> Edges:
    """Sorted edges without some of them."""
    return np.delete(edges, edges.searchsorted(gone))


def _united(edges: Edges, more: Edges) -> Edges:
    """Sorted edges with more of them, sorted, none of which are among them."""
    if more.size * FEW_SHARE < edges.size:
        return np.insert(edges, edges.searchsorted(more), more)
    united = np.concatenate((edges, more))
    united.sort()
    return united


class Search:
    """No more than the edges: what is reachable is searched for. For graphs with too many nodes for a matrix.

    With `ours` only pairs that begin with such nodes are found, and asked about.
    """

    def __init__(self, edges: Edges | None = None, ours: Ours | None = None) -> None:
        """`edges`, if some are there already, are sorted."""
        self._n = 0
        self._ours = ours
        self._edges = np.empty(0, np.int64) if edges is None else edges
        self._turned: Edges | None = None

    @property
    def _backward(self) -> Edges:
        """The edges turned around, sorted: made when first needed, then kept."""
        if self._turned is None:
            self._turned = reversed_edges(self._edges)
        return self._turned

    def grow(self, nodes: int) -> None:
        self._n = max(self._n, nodes)

    def _first(self, nodes: Nodes) -> Nodes:
        """Those of some nodes that pairs may begin with."""
        return nodes if self._ours is None else nodes[self._ours(nodes)]

    def add(self, edges: Edges) -> Pairs:
        self._edges = _united(self._edges, edges)
        if self._turned is not None:
            self._turned = _united(self._turned, reversed_edges(edges))
        tails, heads = ends(edges)
        if edges.size <= FEW_EDGES:
            # Every new pair leads to the tail of a new edge and on from its head.
            return Pairs(None, self._crossing(self._edges, self._backward, tails, heads))
        return Pairs(None, self._reach(self._edges, self._first(self._reaching(tails))))

    def remove(self, edges: Edges, trusted: Trust | None, also: Edges = NONE) -> Pairs:
        crossed = np.union1d(edges, also)
        if crossed.size <= FEW_CROSSED:
            concerned = self._concerned(crossed)
            self._remove(edges)
            return Pairs(None, self._lost_between(concerned, trusted))
        sources = self._first(self._reaching(ends(crossed)[0]))
        before = self._edges
        self._remove(edges)
        kept = self._edges if trusted is None else self._trusted_from(sources, trusted)
        return Pairs(None, self._lost(before, kept, crossed, sources, trusted is None))

    def _remove(self, edges: Edges) -> None:
        self._edges = _without(self._edges, edges)
        if self._turned is not None:
            self._turned = _without(self._turned, reversed_edges(edges))

    def _concerned(self, crossed: Edges) -> list[tuple[Nodes, Nodes]]:
        """For each edge, what leads to it, its tail included, and what it leads to, its head included."""
        forward, backward = self._edges, self._backward
        return [
            (
                self._first(np.flatnonzero(reachable(self._n, backward, np.array([tail])))),
                np.flatnonzero(reachable(self._n, forward, np.array([head]))),
            )
            for tail, head in zip(*(nodes.tolist() for nodes in ends(crossed)), strict=True)
        ]

    def _lost_between(self, concerned: list[tuple[Nodes, Nodes]], trusted: Trust | None) -> Blocks:
        """The pairs of sources and targets that are not connected now; what is between the two is looked at alone."""
        targets = distinct(np.concatenate([NONE, *(ends_ for _, ends_ in concerned)]))
        leads = reachable(self._n, self._backward, targets)
        sources = distinct(np.concatenate([NONE, *(starts for starts, _ in concerned)]))
        kept = self._trusted_from(sources[leads[sources]], trusted, leads)
        for starts, ends_ in concerned:
            chunk = max(1, SEARCH_PAIRS // ends_.size)
            for begin in range(0, starts.size, chunk):
                part = starts[begin : begin + chunk]
                pairs = edges_of(part.repeat(ends_.size), np.tile(ends_, part.size))
                if kept.size:
                    still = _joined(self._reach(kept, part[leads[part]]))
                    pairs = np.setdiff1d(pairs, still, assume_unique=True)
                tails, heads = ends(pairs)
                yield tails, np.ones(tails.size, np.int64), heads

    def _trusted_from(self, sources: Nodes, trusted: Trust | None, within: Mask | None = None) -> Edges:
        """The trusted edges that lead on from the sources, to some nodes alone; sorted."""
        seen = np.zeros(self._n, np.bool_)
        seen[sources] = True
        parts, front = [NONE], sources
        while front.size:
            at, heads = leaving(self._edges, front)
            edges = edges_of(front[at], heads)
            if within is not None:
                edges = edges[within[heads]]
            if trusted is not None:
                edges = trusted(edges)
            parts.append(edges)
            heads = distinct(ends(edges)[1])
            front = heads[~seen[heads]]
            seen[front] = True
        edges = np.concatenate(parts)
        edges.sort()
        return edges

    def _lost(self, before: Edges, kept: Edges, crossed: Edges, sources: Nodes, exact: bool) -> Blocks:
        """Pairs from the sources over crossed edges that are not left over the kept ones."""
        tails, heads = ends(crossed)
        beyond = reachable(self._n, before, heads)
        for begin in range(0, sources.size, SEARCH_SOURCES):
            part = sources[begin : begin + SEARCH_SOURCES]
            lost = _joined(self._reach(before, part))
            lost = lost[beyond[lost & HEAD_MASK]]
            lost = np.setdiff1d(lost, _joined(self._reach(kept, part)), assume_unique=True)
            if not exact:
                lost = self._only_through(lost, before, tails, heads)
            tails_, heads_ = ends(lost)
            yield tails_, np.ones(tails_.size, np.int64), heads_

    def holds(self, tails: Nodes, heads: Nodes) -> Mask:
        found = np.zeros(tails.size, np.bool_)
        if tails.size <= FEW_EDGES:
            for at, (tail, head) in enumerate(zip(tails.tolist(), heads.tolist(), strict=True)):
                found[at] = self._connected(tail, head)
            return found
        leads = reachable(self._n, self._backward, heads)
        sources = distinct(tails[leads[tails]])
        pairs = edges_of(tails, heads)
        for tails, counts, heads in self._reach(self._trusted_from(sources, None, leads), sources):
            found |= np.isin(pairs, edges_of(tails.repeat(counts), heads))
        return found

    def _reaching(self, nodes: Nodes) -> Nodes:
        """The nodes themselves and all that reach one of them."""
        return np.flatnonzero(reachable(self._n, self._backward, nodes))

    def _connected(self, tail: int, head: int) -> bool:
        """Whether a path leads from one node to another: searched for from both ends, on the side with less to do."""
        ways = (self._edges, self._backward)
        fronts = [distinct(leaving(ways[0], np.array([tail]))[1]), np.array([head])]
        seen = [np.zeros(self._n, np.bool_) for _ in fronts]
        for side, front in enumerate(fronts):
            seen[side][front] = True
        while fronts[0].size and fronts[1].size:
            if seen[1][fronts[0]].any() or seen[0][fronts[1]].any():
                return True
            side = int(fronts[1].size < fronts[0].size)
            heads = distinct(leaving(ways[side], fronts[side])[1])
            fronts[side] = heads[~seen[side][heads]]
            seen[side][fronts[side]] = True
        return False

    def _only_through(self, pairs: Edges, edges: Edges, tails: Nodes, heads: Nodes) -> Edges:
        """The pairs that have a path over one of the given edges."""
        crossing = [np.empty(0, np.int64)]
        backward = reversed_edges(edges)
        for tail, head in zip(tails.tolist(), heads.tolist(), strict=True):
            crossing.append(_joined(self._crossing(edges, backward, np.array([tail]), np.array([head]))))
        return np.intersect1d(pairs, np.concatenate(crossing))

    def _crossing(self, edges: Edges, backward: Edges, tails: Nodes, heads: Nodes) -> Blocks:
        """What leads to a tail, with what its head leads to; a pair may come more than once."""
        for tail, head in zip(tails.tolist(), heads.tolist(), strict=True):
            sources = self._first(np.flatnonzero(reachable(self._n, backward, np.array([tail]))))
            targets = np.flatnonzero(reachable(self._n, edges, np.array([head])))
            yield sources, np.full(sources.size, targets.size), np.tile(targets, sources.size)

    def leading_from(self, sources: Nodes) -> Blocks:
        """All pairs from some nodes."""
        return self._reach(self._edges, sources)

    def _reach(self, edges: Edges, sources: Nodes) -> Blocks:
        """All pairs from the sources."""
        loops = compiled.loops(edges.size)
        starts = None if loops is None else edges.searchsorted(np.arange(self._n + 1) << HEAD_BITS)
        heads = edges & HEAD_MASK
        begin, chunk = 0, WORD
        while begin < sources.size:
            part = sources[begin : begin + chunk]
            begin += chunk
            if loops is not None:
                rows, nodes = loops.reach(starts, heads, part)
            else:
                rows, nodes = ends(_search(edges, part))
            yield part[rows], np.ones(rows.size, np.int64), nodes
            # The next ones will reach about as much as these did.
            chunk = min(SEARCH_SOURCES, max(1, SEARCH_PAIRS * part.size // max(rows.size, 1)))


def _search(edges: Edges, sources: Nodes) -> Edges:
    """All (position of the source, node) pairs, found front by front."""
    rows, heads = leaving(edges, sources)
    front = distinct(edges_of(rows, heads))
    seen = front
    while front.size:
        rows, nodes = ends(front)
        at, heads = leaving(edges, nodes)
        front = distinct(edges_of(rows[at], heads))
        at = np.minimum(seen.searchsorted(front), seen.size - 1)
        front = front[seen[at] != front]
        seen = _united(seen, front)
    return seen


def _joined(blocks: Blocks) -> Edges:
    """Pairs as sorted distinct edges."""
    parts = [edges_of(tails.repeat(counts), heads) for tails, counts, heads in blocks]
    return distinct(np.concatenate(parts)) if parts else np.empty(0, np.int64)


class Components:
    """One label per node: its connected component, -1 for nodes that no edge touches. `ours` is as for `Search`."""

    def __init__(self, ours: Ours | None = None) -> None:
        self._ours = ours
        self._labels: Nodes = np.empty(0, np.int64)
        self._edges: Edges = np.empty(0, np.int64)

    def grow(self, nodes: int) -> None:
        missing = nodes - self._labels.size
        if missing > 0:
            self._labels = np.concatenate((self._labels, np.full(missing, -1)))

    def add(self, edges: Edges) -> Pairs:
        before = self._labels
        self._edges = _united(self._edges, edges)
        tails, heads = ends(edges)
        ours = distinct(np.concatenate((tails, heads)))
        labels = np.where(before < 0, np.arange(before.size), before)
        merged = components(before.size, labels[tails], labels[heads])
        after = before.copy()
        after[ours] = labels[ours]
        after = np.where(after < 0, after, merged[after])
        self._labels = after
        touched = np.zeros(before.size, np.bool_)
        touched[after[ours]] = True
        members = np.flatnonzero((after >= 0) & touched[after])
        return _between(members, after[members], before[members], self._ours)

    def remove(self, edges: Edges, trusted: Trust | None, also: Edges = NONE) -> Pairs:
        before = self._labels
        self._edges = _without(self._edges, edges)
        touched = np.zeros(before.size, np.bool_)
        label = before[ends(np.union1d(edges, also))[0]]
        touched[label[label >= 0]] = True
        members = np.flatnonzero((before >= 0) & touched[before])
        at, heads = leaving(self._edges, members)
        inside = edges_of(members[at], heads)
        self._labels = self._relabeled(members, inside)
        kept = self._labels if trusted is None else self._relabeled(members, trusted(inside))
        return _between(members, before[members], kept[members], self._ours)

    def holds(self, tails: Nodes, heads: Nodes) -> Mask:
        label = self._labels[tails]
        return np.asarray((label >= 0) & (label == self._labels[heads]))

    def _relabeled(self, members: Nodes, edges: Edges) -> Nodes:
        """The labels with those of `members`, whole components, found anew from the edges in them."""
        after = self._labels.copy()
        after[members] = -1
        tails, heads = (members.searchsorted(nodes) for nodes in ends(edges))
        alive = distinct(np.concatenate((tails, heads)))
        after[members[alive]] = members[components(members.size, tails, heads)[alive]]
        return after


def _between(members: Nodes, whole: Nodes, part: Nodes, ours: Ours | None) -> Pairs:
    """The pairs of members in one whole but not in one part; with part -1, the pair of a node with itself too.

    With `ours`, the pairs that begin with such members.
    """
    # Sorted by whole, then by part: a member's partners are the stretch of its whole without that of its part.
    order = np.lexsort((members, part, whole))
    members, whole, part = members[order], whole[order], part[order]
    if not members.size:
        return Pairs(0, iter(()))
    fresh = np.concatenate(([True], whole[1:] != whole[:-1]))
    inner = fresh | np.concatenate(([True], part[1:] != part[:-1]))
    begins, counts = _stretches(fresh)
    skips, skipped = _stretches(inner | (part < 0))
    skipped = np.where(part < 0, 0, skipped)
    wanted = counts - skipped
    if ours is not None:
        wanted[~ours(members)] = 0
    return Pairs(int(wanted.sum()), _partners(members, begins, wanted, skips, skipped))


def _partners(members: Nodes, begins: Nodes, wanted: Nodes, skips: Nodes, skipped: Nodes) -> Blocks:
    """Every member with its partners: `wanted` of them from `begins` on, leaving out `skipped` at `skips`."""
    chunk = max(1, WRITE_WORDS * WORD // 8 // int(max(wanted.max(), 1)))
    for at in range(0, members.size, chunk):
        here = wanted[at : at + chunk]
        rows = np.arange(at, at + here.size).repeat(here)
        if rows.size:
            partner = begins[rows] + np.arange(rows.size) - (here.cumsum() - here).repeat(here)
            partner += np.where(partner >= skips[rows], skipped[rows], 0)
            yield members[at : at + here.size], here, members[partner]


def _stretches(fresh: Mask) -> tuple[Nodes, Nodes]:
    """For every position, where its stretch begins and how long it is."""
    starts = np.flatnonzero(fresh)
    lengths = np.diff(np.append(starts, fresh.size))
    return starts.repeat(lengths), lengths.repeat(lengths)
