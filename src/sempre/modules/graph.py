"""The graph that a module's facts are read off: values in states of its automaton, joined by facts.

A fact `l(u, v)` is an edge from `u` in state `p` to `v` in state `q` for every step (p, l, q). A fact of a head is a
pair of a value in its start state and one in a final state that a path connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sempre.data import dataclass
from sempre.kernel.capacity import check_nodes
from sempre.kernel.graphs import HEAD_BITS, HEAD_MASK, Edges, Mask, Nodes, edges_of, ends, reversed_edges
from sempre.kernel.join import distinct
from sempre.kernel.reach import Components, Matrix, Pairs, Reach, Search
from sempre.modules.spec import Module, closure
from sempre.plan.ops import Automaton

Column: TypeAlias = NDArray[np.int64]
Facts: TypeAlias = tuple[Column, ...]
# Those of some facts of a letter that need no proof.
Trust: TypeAlias = Callable[[str, Sequence[Column]], Facts]

# Numbers are looked up in a table when it needs at most this many slots a value.
TABLE_SLOTS = 8


@dataclass(frozen=True, slots=True)
class FactBlocks:
    """Facts of a head in blocks, made while they are read, once; `size` is how many there are, None when not known."""

    size: int | None
    blocks: Iterator[Facts]


class Reasoning(Protocol):
    """What a module at work asks of its algorithm: a `Graph`, or what a user has written."""

    def is_exact(self, head: str) -> bool: ...

    def add(self, facts: Mapping[str, Facts]) -> dict[str, FactBlocks]: ...

    def remove(
        self, facts: Mapping[str, Facts], trusted: Trust | None, also: Mapping[str, Facts]
    ) -> dict[str, FactBlocks]: ...

    def holds(self, head: str, facts: Facts) -> Mask: ...


class Graph:
    """The edges of one module and what they connect; a matrix has at most `matrix_nodes`.

    With `ours`, which says of values whether they are ours, it is one of several graphs that have the same edges: it
    finds, and is asked about, facts whose first value is ours.
    """

    def __init__(self, module: Module, matrix_nodes: int, ours: Callable[[Column], Mask] | None = None) -> None:
        self._matrix_nodes = matrix_nodes
        self._paths = module.paths or closure(module.heads[0])
        self._undirected = module.paths is None
        self._ours = None if ours is None else partial(self._are_ours, ours)
        self._reach: Reach = Components(self._ours) if self._undirected else Matrix(self._ours)
        self._numbers = _Numbers()
        between = [(tail, head) for tail, _, head in self._paths.steps]
        # Where two relations can be the same step, an edge stays until the last fact behind it goes.
        self._behind = _Counts() if len(set(between)) < len(between) else None

    def _are_ours(self, ours: Callable[[Column], Mask], nodes: Nodes) -> Mask:
        return ours(self._numbers.values[nodes // self._paths.states])

    def is_exact(self, head: str) -> bool:
        """Whether `add` and `remove` find no fact of a head that was true before, or is true after."""
        return len(self._paths.finals[head]) == 1 and not isinstance(self._reach, Search)

    def add(self, facts: Mapping[str, Facts]) -> dict[str, FactBlocks]:
        """The facts of heads that become true with these."""
        edges = self._edges(facts)
        if self._behind is not None:
            edges = self._behind.add(edges)
        size = len(self._numbers) * self._paths.states
        if isinstance(self._reach, Matrix) and size > self._matrix_nodes:
            self._reach = Search(self._reach.edges, self._ours)
        self._reach.grow(size)
        return self._facts(self._reach.add(edges)) if edges.size else {}

    def remove(
        self, facts: Mapping[str, Facts], trusted: Trust | None, also: Mapping[str, Facts]
    ) -> dict[str, FactBlocks]:
        """The facts of heads that were true over these, and are not true over trusted facts alone.

        `also` are facts of heads that go and were never given: they were true over others.
        """
        edges = self._edges(facts)
        given = None if trusted is None else partial(self._trusted, trusted)
        derived = distinct(self._edges(also))
        if self._behind is not None:
            told = edges
            edges = self._behind.remove(told)
            if given is not None:
                # What is left behind an edge may rest on what the lost fact proved: it is no proof by itself.
                derived = np.union1d(derived, np.setdiff1d(told, edges))
        return self._facts(self._reach.remove(edges, given, derived)) if edges.size or derived.size else {}

    def holds(self, head: str, facts: Facts) -> NDArray[np.bool_]:
        """Which facts of a head are true."""
        tails, heads = (self._numbers.known(column) for column in facts)
        known = (tails >= 0) & (heads >= 0)
        found = np.zeros(known.size, np.bool_)
        if known.any():
            states = self._paths.states
            tails, heads = tails[known] * states + self._paths.starts[head], heads[known] * states
            answer = np.zeros(tails.size, np.bool_)
            for final in sorted(self._paths.finals[head]):
                answer |= self._reach.holds(tails, heads + final)
            found[known] = answer
        return found

    def _trusted(self, trusted: Trust, edges: Edges) -> Edges:
        """Those of the edges that a trusted fact is behind, sorted and distinct."""
        states, values = self._paths.states, self._numbers.values
        (tails, tail_states), (heads, head_states) = (np.divmod(nodes, states) for nodes in ends(edges))
        found: list[Edges] = [np.empty(0, np.int64)]
        for state, letter, following in self._paths.steps:
            mine = (tail_states == state) & (head_states == following)
            if mine.any():
                facts = trusted(letter, (values[tails[mine]], values[heads[mine]]))
                first, second = (self._numbers.known(column) * states for column in facts)
                found.append(edges_of(first + state, second + following))
        return distinct(np.concatenate(found))

    def _edges(self, facts: Mapping[str, Facts]) -> Edges:
        """The edges of some facts; sorted and distinct, unless facts behind them are counted."""
        edges = _edges(self._paths, self._numbers, facts)
        return edges if self._behind is not None else distinct(edges)

    def _facts(self, pairs: Pairs) -> dict[str, FactBlocks]:
        """What pairs of nodes mean, by head."""
        values = self._numbers.values
        if self._paths.states == 1:
            (head,) = self._paths.starts
            blocks = ((values[tails].repeat(counts), values[heads]) for tails, counts, heads in pairs.blocks)
            return {head: FactBlocks(pairs.size, blocks)}
        found: dict[str, list[Facts]] = {}
        for tails, counts, heads in pairs.blocks:
            tail, tail_state = np.divmod(tails.repeat(counts), self._paths.states)
            end, end_state = np.divmod(heads, self._paths.states)
            for head, start in self._paths.starts.items():
                mine = np.flatnonzero((tail_state == start) & _finals(self._paths, head)[end_state])
                if mine.size:
                    found.setdefault(head, []).append((values[tail[mine]], values[end[mine]]))
        return {head: FactBlocks(sum(part[0].size for part in parts), iter(parts)) for head, parts in found.items()}


class Paths:
    """What a module's facts connect, searched for source by source: nothing is remembered but the edges."""

    def __init__(self, module: Module, facts: Mapping[str, Facts]) -> None:
        self._paths = module.paths or closure(module.heads[0])
        self._numbers = _Numbers()
        edges = distinct(_edges(self._paths, self._numbers, facts))
        if module.paths is None:
            edges = distinct(np.concatenate((edges, reversed_edges(edges))))
        self._search = Search(edges)
        self._search.grow(len(self._numbers) * self._paths.states)

    @property
    def values(self) -> Column:
        """The values that facts have."""
        return self._numbers.values

    def leading_from(self, head: str, chosen: Mask) -> Iterator[Facts]:
        """The facts of a head whose first value is chosen among `values`, in blocks; no fact comes twice."""
        states, values = self._paths.states, self.values
        finals = _finals(self._paths, head)
        nodes = np.flatnonzero(chosen) * states + self._paths.starts[head]
        for tails, counts, heads in self._search.leading_from(nodes):
            tails, (ends, state) = tails.repeat(counts) // states, np.divmod(heads, states)
            mine = finals[state]
            if not mine.all():
                tails, ends = tails[mine], ends[mine]
            if finals.sum() > 1:
                pairs = distinct(edges_of(tails, ends))
                tails, ends = pairs >> HEAD_BITS, pairs & HEAD_MASK
            yield values[tails], values[ends]


def _edges(paths: Automaton, numbers: _Numbers, facts: Mapping[str, Facts]) -> Edges:
    """The edges of some facts, whose values are numbered if they were not; in no order, and some more than once."""
    states = paths.states
    numbers.take([column for columns in facts.values() for column in columns])
    check_nodes(len(numbers) * states)
    numbered = {
        letter: (numbers.known(tails) * states, numbers.known(heads) * states)
        for letter, (tails, heads) in facts.items()
    }
    parts = [
        edges_of(numbered[letter][0] + state, numbered[letter][1] + following)
        for state, letter, following in paths.steps
        if letter in numbered
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _finals(paths: Automaton, head: str) -> Mask:
    """Which states are final for a head."""
    finals = np.zeros(paths.states, np.bool_)
    finals[list(paths.finals[head])] = True
    return finals


class _Numbers:
    """Values numbered from 0, in order as far as they came at once."""

    def __init__(self) -> None:
        self.values: Column = np.empty(0, np.int64)
        self._sorted: Column = self.values
        self._numbers: Nodes = self.values
        self._table: Nodes = self.values

    def __len__(self) -> int:
        return self.values.size

    def known(self, column: Column) -> Nodes:
        """The numbers of values, -1 for those without."""
        if not self.values.size:
            return np.full(column.size, -1)
        if self._table.size:
            places = column - int(self._sorted[0])
            inside = (places >= 0) & (places < self._table.size)
            if inside.all():
                return self._table[places]
            return np.where(inside, self._table[np.where(inside, places, 0)], -1)
        at = np.minimum(self._sorted.searchsorted(column), self._sorted.size - 1)
        return np.asarray(np.where(self._sorted[at] == column, self._numbers[at], -1))

    def take(self, columns: Sequence[Column]) -> None:
        """Number the values that have no number yet."""
        missing = [column[self.known(column) < 0] for column in columns]
        fresh = distinct(np.concatenate([np.empty(0, np.int64), *missing]))
        if fresh.size:
            at = self._sorted.searchsorted(fresh)
            numbers = np.arange(self.values.size, self.values.size + fresh.size)
            self.values = np.concatenate((self.values, fresh))
            self._sorted = np.insert(self._sorted, at, fresh)
            self._numbers = np.insert(self._numbers, at, numbers)
            self._table = self._tabled()

    def _tabled(self) -> Nodes:
        """The number of every value between the least and the greatest, if few of those have none."""
        least = int(self._sorted[0])
        span = int(self._sorted[-1]) - least + 1
        if span > TABLE_SLOTS * self._sorted.size:
            return np.empty(0, np.int64)
        table = np.full(span, -1)
        table[self._sorted - least] = self._numbers
        return table


class _Counts:
    """How many facts are behind each edge."""

    def __init__(self) -> None:
        self._edges: Edges = np.empty(0, np.int64)
        self._counts: NDArray[np.int64] = np.empty(0, np.int64)

    def add(self, edges: Edges) -> Edges:
        """Count edges, which may repeat; returns those that are new."""
        distinct, times = np.unique(edges, return_counts=True)
        at = self._edges.searchsorted(distinct)
        fresh = np.ones(distinct.size, np.bool_)
        inside = at < self._edges.size
        fresh[inside] = self._edges[at[inside]] != distinct[inside]
        self._counts[at[~fresh]] += times[~fresh]
        self._edges = np.insert(self._edges, at[fresh], distinct[fresh])
        self._counts = np.insert(self._counts, at[fresh], times[fresh])
        return distinct[fresh]

    def remove(self, edges: Edges) -> Edges:
        """Count edges out; returns those that nothing is behind anymore."""
        distinct, times = np.unique(edges, return_counts=True)
        at = self._edges.searchsorted(distinct)
        self._counts[at] -= times
        gone = at[self._counts[at] == 0]
        lost = self._edges[gone]
        self._edges, self._counts = np.delete(self._edges, gone), np.delete(self._counts, gone)
        return np.asarray(lost)
