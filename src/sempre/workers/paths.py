"""Paths that workers search for together: all have all edges, and each finds the facts that are at home with it.

A fact `head(u, v)` is at home with the owner of `u`. So what one worker finds need not travel, and nothing but edges
does. All have the same matrix of bits: to close that costs less than to write out the facts it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.kernel.trace import RowSet
from sempre.modules.graph import FactBlocks, Graph
from sempre.modules.spec import Module
from sempre.workers.framing import Column
from sempre.workers.placing import owners

Collect = Callable[[str, Iterable[Sequence[Column]], "int | None"], RowSet]
Told = Mapping[str, Sequence[Column]]


class SharedPaths:
    """The paths of one module that begin with values of one worker."""

    def __init__(self, module: Module, matrix_nodes: int, workers: int, me: int, collect: Collect) -> None:
        def ours(values: Column) -> NDArray[np.bool_]:
            return np.asarray(owners(values, workers) == me)

        self._heads = module.heads
        self._graph = Graph(module, matrix_nodes, ours)
        self._collect = collect

    def learn(self, facts: Told) -> None:
        """Take facts in."""
        self._graph.add(_some(facts))

    def add(self, facts: Told) -> tuple[RowSet, ...] | RowSet:
        """Take facts in; the facts of each head that follow, and perhaps some that were there."""
        return self._collected(self._graph.add(_some(facts)))

    def remove(self, facts: Told, also: Told) -> tuple[RowSet, ...] | RowSet:
        """Forget facts; the facts of each head that go with them, or with facts of heads that were derived."""
        return self._collected(self._graph.remove(_some(facts), None, _some(also)))

    def holds(self, head: str, facts: Sequence[Column]) -> NDArray[np.bool_]:
        """Which facts of a head, all at home here, are true."""
        return self._graph.holds(head, (facts[0], facts[1]))

    def _collected(self, found: Mapping[str, FactBlocks]) -> tuple[RowSet, ...] | RowSet:
        nothing = FactBlocks(0, iter(()))
        rows = [
            self._collect(head, blocks.blocks, blocks.size)
            for head in self._heads
            for blocks in (found.get(head, nothing),)
        ]
        return rows[0] if len(rows) == 1 else tuple(rows)


def _some(facts: Told) -> dict[str, tuple[Column, ...]]:
    return {letter: tuple(columns) for letter, columns in facts.items() if columns[0].size}
