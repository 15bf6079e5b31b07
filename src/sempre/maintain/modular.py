"""Strata whose rules are shared out: the modules take turns with the generic rules.

Every round starts with a front: facts that the generic rules have just made or broken. Before the generic rules go on
from there, each module hears of what is in the front for it and puts in what follows, so that closures are complete
before anybody reads them. What a module puts in it never hears of; a module that had its turn already hears of it in
the next round.

Overdeletion keeps what certainly holds: what a rule without recursion derives, or an explicit fact. That is final
before it begins, and the generic module says so (`Certain`): by the counter `nonrec`, or by evaluating backward.

Reference: [Hu22] Alg. 2 and 3.
Differs: modules see the front of the same round, not of the one before; the first addition is measured against the
state after overdeletion, as the bounds of Table 1 need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from sempre.analysis.model import NormalRule, Stratum
from sempre.data import dataclass
from sempre.maintain.decide import ModuleSize, paying_modules, why_not_shared
from sempre.maintain.memory import Checks, UnstoredMemory
from sempre.maintain.strategy import Change, Work, nonempty
from sempre.modules.closing import Closing, ModuleMemory, TrustedRows
from sempre.modules.spec import Module
from sempre.plan.backend import Rows, Tally, Version, View

# Those of some facts of a relation that hold, whatever becomes of the rest of the stratum.
Certain = Callable[[str, Rows], Rows]


@dataclass(frozen=True, slots=True)
class PartitionedMemory(UnstoredMemory):
    """What a stratum with modules remembers: the counters of the generic module, and what each module keeps."""

    modules: tuple[Module, ...]
    counters: Any
    kept: tuple[ModuleMemory, ...]

    kind: ClassVar[str] = "partitioned"

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """The counters are those of the rules that no module owns."""
        if self.counters is not None:
            self.counters.check(work, Exchange(work, stratum, self.modules).generic, checks)


class Exchange:
    """The modules of one stratum during an epoch, and what each of them has still to hear.

    `generic` is the stratum without the rules that they own. Without modules it does nothing.
    """

    def __init__(self, work: Work, stratum: Stratum, modules: Sequence[Module]) -> None:
        self.modules = tuple(modules)
        self.generic = without(stratum, owned_by(modules)) if modules else stratum
        self._work = work
        self._backend = work.backend
        self._closings = [Closing(module, work.backend) for module in modules]
        # Relations of modules that may answer with facts that were never there.
        self._loose = {head for module in modules if module.own is not None for head in module.heads}
        self._own = frozenset(stratum.relations)
        self._candidates = bool(work.modules.get(stratum.index))
        # Facts from outside that only nonrecursive rules derive need no proof: they hold as long as they are there.
        self._certain = not self.generic.recursive and len(modules) < 2
        self._waiting: list[dict[str, list[Rows]]] = [{} for _ in modules]
        self._gone: dict[str, Version] = {}

    def __bool__(self) -> bool:
        return bool(self._closings)

    # ------------------------------------------------------------------------------------------ starting, ending

    def start(self) -> None:
        """Begin from nothing: all that is below is new."""
        for closing, waiting in zip(self._closings, self._waiting, strict=True):
            for letter in self._below(closing):
                waiting[letter] = [self._work.new[letter].rows()]

    def resume(self, kept: Sequence[ModuleMemory], old: Mapping[str, Version]) -> None:
        """Go on from the last epoch; `old` are the relations of the stratum."""
        for closing, keeps in zip(self._closings, kept, strict=True):
            others = {
                letter: old[letter] if letter in self._own else self._work.old[letter]
                for letter in closing.letters
                if letter not in closing.backbone
            }
            closing.resume(keeps, others)

    def memory(self, counters: Any) -> PartitionedMemory | None:
        """What to remember."""
        if not self._closings:
            return None
        return PartitionedMemory(self.modules, counters, tuple(closing.kept() for closing in self._closings))

    def remembered(self, counters: Any) -> PartitionedMemory | None:
        """The same for strategies that may have no counters: that no module pays is remembered, too."""
        if not self._closings and self._candidates:
            return PartitionedMemory((), counters, ())
        return self.memory(counters)

    def _below(self, closing: Closing) -> list[str]:
        return [letter for letter in closing.letters if letter not in self._own]

    def loses(self) -> bool:
        """Whether something that a module reads below is gone."""
        changes = self._work.changes
        below = [letter for closing in self._closings for letter in self._below(closing) if letter in changes]
        return any(len(changes[letter].minus) for letter in below)

    # ------------------------------------------------------------------------------------------------- the turns

    def hear_gone(self) -> None:
        """Let the modules know what is gone below, at their next turn."""
        self._hear(lambda change: change.minus)

    def hear_new(self) -> None:
        """Let the modules know what is new below, at their next turn."""
        self._hear(lambda change: change.plus)

    def _hear(self, side: Callable[[Change], Rows]) -> None:
        for closing, waiting in zip(self._closings, self._waiting, strict=True):
            for letter in self._below(closing):
                if letter in self._work.changes and len(side(self._work.changes[letter])):
                    waiting.setdefault(letter, []).append(side(self._work.changes[letter]))

    def add(self, front: Mapping[str, Rows], present: Callable[[str], View]) -> dict[str, Rows]:
        """The front with what the modules make of it; `present` is a relation without it."""
        front = nonempty(self._backend, front)
        for turn, closing in enumerate(self._closings):
            told = self._told(turn, closing, front)
            if told:
                answer = closing.add(told, present)
                self._pass_on(turn, front, answer)
                front.update({head: rows for head, rows in answer.items() if len(rows)})
        return front

    def delete(self, front: Mapping[str, Rows], dead: Mapping[str, Version], certain: Certain) -> dict[str, Rows]:
        """The front with what the modules lose by it."""
        backend = self._backend
        front = nonempty(backend, front)

        def holds(head: str, rows: Rows) -> tuple[Rows, Rows]:
            if head in self._loose:
                rows = backend.intersection(rows, self._work.old[head])
            left = backend.difference(rows, dead[head])
            if head in front and not self._certain:
                left = backend.difference(left, backend.version(front[head]))
            safe = certain(head, left) if len(left) else left
            return safe, backend.difference(left, backend.version(safe)) if len(safe) else left

        for turn, closing in enumerate(self._closings):
            told = self._told(turn, closing, front)
            if told:
                answer = closing.delete(told, self._trust(turn, certain), holds)
                self._pass_on(turn, front, answer)
                if self._certain:
                    # What is lost outside and still proved inside stays; the rest is in the answer.
                    front = {name: rows for name, rows in front.items() if name not in closing.backbone}
                for head, rows in answer.items():
                    front[head] = backend.union([rows, front[head]]) if head in front else rows
        return {name: rows for name, rows in front.items() if len(rows)}

    def rederive(self, dead: Mapping[str, Version]) -> dict[str, Rows]:
        """The dead facts that modules still derive."""
        return {head: rows for closing in self._closings for head, rows in closing.rederive(dead).items()}

    def restore(self, old: Mapping[str, Version], counters: Sequence[Mapping[str, Tally]]) -> None:
        """Go on from facts and counters alone: the backbones are what other rules derive."""
        for closing in self._closings:
            for head in closing.module.heads:
                rows = old[head].rows()
                given = self._backend.union([self._backend.positive(tally[head], rows) for tally in counters])
                closing.backbone[head] = self._backend.version(given)
        self.resume([ModuleMemory(closing.backbone, closing.graph, object()) for closing in self._closings], old)

    def _told(self, turn: int, closing: Closing, front: Mapping[str, Rows]) -> dict[str, Rows]:
        """What a module hears in this turn."""
        waiting, self._waiting[turn] = self._waiting[turn], {}
        for letter in closing.letters:
            if letter in front:
                waiting.setdefault(letter, []).append(front[letter])
        return {letter: self._backend.union(parts) for letter, parts in waiting.items()}

    def _pass_on(self, turn: int, front: Mapping[str, Rows], answer: Mapping[str, Rows]) -> None:
        """Keep what a module found for those that had their turn."""
        for earlier in range(turn):
            for head in answer.keys() & set(self._closings[earlier].letters):
                rows = answer[head]
                if head in front:
                    rows = self._backend.difference(rows, self._backend.version(front[head]))
                self._waiting[earlier].setdefault(head, []).append(rows)

    def _trust(self, turn: int, certain: Certain) -> TrustedRows | None:
        """Says which facts a module may rest on while others are in doubt; None when it may rest on all.

        A module asks about the facts that it meets, so that nothing is looked at that the change does not concern.
        """
        if self._certain:
            return None
        closing, work, backend = self._closings[turn], self._work, self._backend

        def trusted(letter: str, rows: Rows) -> Rows:
            rows = backend.intersection(rows, closing.backbone.get(letter, work.old[letter]))
            if letter in self._own:
                rows = certain(letter, rows)
            elif letter in work.changes:
                rows = backend.difference(rows, self._gone_below(letter))
            return rows

        return trusted

    def _gone_below(self, letter: str) -> Version:
        if letter not in self._gone:
            self._gone[letter] = self._backend.version(self._work.changes[letter].minus)
        return self._gone[letter]


def owned_by(modules: Iterable[Module]) -> frozenset[int]:
    """The rules that modules own, by number."""
    return frozenset[int]().union(*(module.rules for module in modules))


def without(stratum: Stratum, owned: Collection[int]) -> Stratum:
    """A stratum without some of its rules."""

    def left(rules: tuple[NormalRule, ...]) -> tuple[NormalRule, ...]:
        return tuple(rule for rule in rules if rule.number not in owned)

    return replace(stratum, nonrecursive=left(stratum.nonrecursive), recursive=left(stratum.recursive))


def is_certain(stratum: Stratum, memory: Any) -> bool:
    """Whether one module does all the recursion of a stratum, so that nothing from outside rests on what it derives."""
    if not isinstance(memory, PartitionedMemory) or len(memory.modules) != 1:
        return False
    return all(rule.number in memory.modules[0].rules for rule in stratum.recursive)


def exchange_of(work: Work, stratum: Stratum, modules: Sequence[Module]) -> Exchange:
    """The modules of a stratum, ready to take turns."""
    if work.debug and modules:
        from sempre.maintain.bounds import WatchedExchange

        return WatchedExchange(work, stratum, modules)
    return Exchange(work, stratum, modules)


def taking_part(work: Work, stratum: Stratum, memory: Any) -> Sequence[Module]:
    """The modules of an update: those that are remembered; with no memory at all, those that are expected to pay."""
    if isinstance(memory, PartitionedMemory):
        return memory.modules
    if memory is not None:
        return ()
    modules = work.modules.get(stratum.index, ())
    return worthwhile(work, stratum, modules, {name: work.old[name] for name in stratum.relations})[0]


def worthwhile(
    work: Work, stratum: Stratum, modules: Sequence[Module], start: Mapping[str, Version]
) -> tuple[tuple[Module, ...], str]:
    """The modules that are expected to pay, given the first facts of the stratum, and why others are left out."""
    able, backend = work.backend.for_modules(), work.backend
    if not modules or (able is None and backend.for_paths() is None):
        return (), ""
    if able is None:
        why = why_not_shared(stratum, modules, lambda module: _edges_of(work, module, start), backend.limits)
        if why:
            return (), why
    return paying_modules(stratum, modules, lambda module: _size_of(work, module, start), backend.limits)


def _edges_of(work: Work, module: Module, start: Mapping[str, Version]) -> int:
    """How many facts a module hears of at first."""
    return sum(len(found) for name in module.letters if (found := start.get(name, work.new.get(name))) is not None)


def _size_of(work: Work, module: Module, start: Mapping[str, Version]) -> ModuleSize | None:
    """What a module would start from, as far as it is known."""
    if module.kind == "tc":
        (head,) = module.heads
        if head not in start:
            return None
        statistics = work.backend.statistics({head: start[head]})
        return ModuleSize(len(start[head]), max(statistics.distinct(head, column) for column in (0, 1)), 0)
    assert module.paths is not None
    versions = {
        letter: start[letter] if letter in start else work.new[letter]
        for letter in module.letters
        if letter in start or letter in work.new
    }
    limits, statistics = work.backend.limits, work.backend.statistics(versions)
    values = max((statistics.distinct(letter, column) for letter in versions for column in (0, 1)), default=0)
    sources = max((statistics.distinct(head, 0) for head in module.heads if head in versions), default=0)
    if values * module.paths.states > limits.matrix_nodes:
        # The estimate may be several times too large, and without the module dense edges are what is worst.
        values = _counted_values(versions.values())
    return ModuleSize(sum(map(len, versions.values())), values, sources)


def _counted_values(versions: Iterable[Version]) -> int:
    """How many values the relations have, counted."""
    return max((np.unique(column).size for version in versions for column in version.rows().columns()), default=0)
