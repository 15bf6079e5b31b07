"""A module at work: it hears of facts that come and go, and answers with the facts that follow.

What a module hears are the facts of its letters that it did not derive itself. Those of its heads are its *backbone*:
the facts of a head are exactly those that paths over the backbone and the other letters give. A fact that is given from
outside after the module derived it does not enter the backbone; one whose derivation is lost while it still holds from
outside does. The graph is a copy of all that, quick to ask, and made again whenever it is not that of the epoch.

Reference: [Hu22] Alg. 4 to 12.
Differs: the graph is a bit matrix, a set of edges or component labels; overdeletion keeps what trusted facts prove, so
it is smaller than the paper's, and exact where all facts from outside are trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sempre.data import dataclass
from sempre.modules.graph import Column, FactBlocks, Facts, Graph, Reasoning
from sempre.modules.own import OwnGraph
from sempre.modules.spec import Module
from sempre.plan.backend import Backend, ModuleBackend, Paths, Rows, Version, View

Told = Mapping[str, Rows]
# Those of some facts of a letter that need no proof.
TrustedRows = Callable[[str, Rows], Rows]


@dataclass(frozen=True, slots=True)
class ModuleMemory:
    """What a module remembers between epochs: its backbone, and the graph, if that is still the one of `stamp`."""

    backbone: Mapping[str, Version]
    graph: Paths
    stamp: object


class Closing:
    """A module during one epoch."""

    def __init__(self, module: Module, backend: Backend) -> None:
        self.module = module
        self._backend = backend
        self.graph = paths_of(module, backend)
        self.backbone: dict[str, Version] = {head: backend.empty(head) for head in module.heads}
        self.letters = module.letters
        # Whether overdeletion may have gone further than what is left proves.
        self._doubtful = False

    def resume(self, kept: ModuleMemory, others: Mapping[str, Version]) -> None:
        """Go on from an earlier epoch. `others` are the letters that are not heads, as they were then."""
        self.backbone = dict(kept.backbone)
        if kept.graph.stamp is kept.stamp:
            self.graph = kept.graph
            # Until the epoch is done the graph belongs to nobody: if it fails, the next one makes it again.
            self.graph.stamp = None
            return
        standing = {**others, **self.backbone}
        self.graph.learn({letter: version.rows() for letter, version in standing.items()})

    def kept(self) -> ModuleMemory:
        """What the next epoch starts from."""
        self.graph.stamp = object()
        return ModuleMemory(self.backbone, self.graph, self.graph.stamp)

    def add(self, told: Told, present: Callable[[str], View]) -> dict[str, Rows]:
        """The facts of heads that come with these, themselves included. `present` has those that are there."""
        backend = self._backend
        news: dict[str, Rows] = {}
        answer: dict[str, list[Rows]] = {}
        for letter, rows in told.items():
            if letter in self.backbone:
                derived, rows = self.graph.parted(letter, rows)
                if len(derived):
                    answer[letter] = [derived]
                self.backbone[letter] = self.backbone[letter].adding(rows)
            news[letter] = rows
        for head, rows in self.graph.add(news).items():
            fresh = rows if self.graph.is_exact(head) else backend.difference(rows, present(head))
            answer.setdefault(head, []).append(fresh)
        return {head: backend.union(parts) for head, parts in answer.items()}

    def delete(
        self, told: Told, trusted: TrustedRows | None, holds: Callable[[str, Rows], tuple[Rows, Rows]]
    ) -> dict[str, Rows]:
        """The facts of heads that may be gone with these; those that no path gives are among them.

        `trusted` gives those of some facts from outside that are left and need no proof; None when all are such.
        `holds` parts facts of a head into those that are left and hold anyway, and those that are left and may not.
        """
        backend = self._backend
        gone: dict[str, list[Rows]] = {}
        self._doubtful |= trusted is not None or not all(map(self.graph.is_exact, self.module.heads))
        while told:
            given, derived = self._forget(told)
            told = {}
            for head, rows in self.graph.remove(given, trusted, derived).items():
                safe, lost = holds(head, rows)
                if len(safe):
                    self._entrust(head, safe)
                if len(lost):
                    gone.setdefault(head, []).append(lost)
                    # What goes is no part of the backbone any longer, and what rests on that goes too.
                    again = backend.intersection(lost, self.backbone[head])
                    if len(again):
                        told[head] = again
        return {head: backend.union(rows) for head, rows in gone.items()}

    def rederive(self, dead: Mapping[str, Version]) -> dict[str, Rows]:
        """The dead facts of heads that paths over what is left still give."""
        if not self._doubtful:
            return {}
        found = {}
        for head in self.module.heads:
            if len(dead[head]):
                found[head] = self.graph.parted(head, dead[head].rows())[0]
        return {head: rows for head, rows in found.items() if len(rows)}

    def _forget(self, told: Told) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """Take facts out of the backbone; those that were not in it were derived."""
        given: dict[str, Rows] = {}
        derived: dict[str, Rows] = {}
        for letter, rows in told.items():
            if letter in self.backbone:
                backbone = self.backbone[letter]
                rest = self._backend.difference(rows, backbone)
                if len(rest):
                    derived[letter] = rest
                rows = self._backend.intersection(rows, backbone)
                self.backbone[letter] = backbone.removing(rows)
            given[letter] = rows
        return given, derived

    def _entrust(self, head: str, rows: Rows) -> None:
        """Take facts into the backbone that lost their paths but hold from outside."""
        self._doubtful = True
        fresh = self._backend.difference(rows, self.backbone[head])
        self.backbone[head] = self.backbone[head].adding(fresh)
        self.graph.learn({head: fresh})


def paths_of(module: Module, backend: Backend) -> Paths:
    """The algorithm of a module, which knows nothing yet: over this process's columns, or where the rows are."""
    able, shared = backend.for_modules(), backend.for_paths()
    if able is not None:
        return ColumnPaths(module, able)
    assert shared is not None, "this backend has no modules"
    return shared.paths(module.heads, module.paths)


class ColumnPaths:
    """A `Graph`, or what a user has written, which work on columns, as one that works on rows."""

    def __init__(self, module: Module, backend: ModuleBackend) -> None:
        self._backend = backend
        self._graph: Reasoning = Graph(module, backend.limits.matrix_nodes) if module.own is None else OwnGraph(module)
        self.stamp: object = None

    def is_exact(self, head: str) -> bool:
        return self._graph.is_exact(head)

    def learn(self, facts: Told) -> None:
        self._graph.add(self._columns(facts))

    def add(self, facts: Told) -> dict[str, Rows]:
        return self._collected(self._graph.add(self._columns(facts)))

    def remove(self, facts: Told, trusted: TrustedRows | None, also: Told) -> dict[str, Rows]:
        def known(letter: str, columns: Sequence[Column]) -> Facts:
            assert trusted is not None
            return self._facts(trusted(letter, self._backend.collect(letter, (columns,), columns[0].size)))

        return self._collected(
            self._graph.remove(self._columns(facts), None if trusted is None else known, self._columns(also))
        )

    def parted(self, head: str, rows: Rows) -> tuple[Rows, Rows]:
        derived = self._graph.holds(head, self._facts(rows))
        if not derived.any():  # as for most
            return self._backend.empty(head).rows(), rows
        return self._backend.chosen(rows, derived), self._backend.chosen(rows, ~derived)

    def _columns(self, facts: Told) -> dict[str, Facts]:
        return {letter: self._facts(rows) for letter, rows in facts.items()}

    def _facts(self, rows: Rows) -> Facts:
        return tuple(self._backend.columns(rows))

    def _collected(self, found: Mapping[str, FactBlocks]) -> dict[str, Rows]:
        return {head: self._backend.collect(head, facts.blocks, facts.size) for head, facts in found.items()}
