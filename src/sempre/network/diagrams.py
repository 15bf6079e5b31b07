"""Conditions on base facts, as decision diagrams: in which sets of base facts something holds.

A condition only ever needs facts to be there, never to be absent. A diagram asks for one fact after the other: it holds
if `without` holds, or if the fact is there and `with_` does. Facts are asked for in one order, and no two diagrams are
equal, so conditions are equal where they are the same object. All the sets of facts that a condition has are shared in
it: a grid of paths is a small diagram, where the list of its paths is endless.

Reference: [Bryant86]. Differs: only conditions without negation, for which `either` and `both` are all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from sempre.network.node import Fact

# One question of a diagram as plain values: the fact, its number in `names`, and the places of the answers.
Written = tuple[tuple[Any, ...], ...]

_LEAF = 1 << 62  # leaves are asked last


class Diagram:
    """One condition. `level` says when its fact is asked for: the least first. What asks for nothing has itself."""

    __slots__ = ("__weakref__", "level", "with_", "without")

    def __init__(self, level: int, without: Diagram | None = None, with_: Diagram | None = None) -> None:
        self.level = level
        self.without: Diagram = without or self
        self.with_: Diagram = with_ or self


NEVER, ALWAYS = Diagram(_LEAF), Diagram(_LEAF)
Pair = tuple[Diagram, Diagram]


class Diagrams:
    """The diagrams of one node. Facts are asked for in the order in which the node heard of them: near ones first."""

    def __init__(self) -> None:
        self.levels: dict[Fact, int] = {}
        self.facts: list[Fact] = []
        self._made: WeakValueDictionary[tuple[int, int, int], Diagram] = WeakValueDictionary()
        self._eithers: dict[Pair, Diagram] = {}
        self._boths: dict[Pair, Diagram] = {}

    def __len__(self) -> int:
        """How many questions all diagrams together have."""
        return len(self._made)

    def forget(self) -> None:
        """Drop what was remembered of earlier operations, and the diagrams that nobody else holds."""
        self._eithers.clear()
        self._boths.clear()

    def remembered(self) -> int:
        """Of how many operations the result is remembered."""
        return len(self._eithers) + len(self._boths)

    def there(self, fact: Fact) -> Diagram:
        """The condition that a fact is there."""
        return self._question(self._level(fact), NEVER, ALWAYS)

    def _level(self, fact: Fact) -> int:
        found = self.levels.get(fact)
        if found is None:
            found = self.levels[fact] = len(self.facts)
            self.facts.append(fact)
        return found

    def _question(self, level: int, without: Diagram, with_: Diagram) -> Diagram:
        if without is with_:
            return without
        key = (level, id(without), id(with_))
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = Diagram(level, without, with_)
        return found

    # -------------------------------------------------------------------------------------------- operations

    def either(self, one: Diagram, other: Diagram) -> Diagram:
        """The condition that one of two holds."""
        return self._combined(one, other, NEVER, ALWAYS, self._eithers)

    def both(self, one: Diagram, other: Diagram) -> Diagram:
        """The condition that both hold."""
        return self._combined(one, other, ALWAYS, NEVER, self._boths)

    def _combined(
        self, one: Diagram, other: Diagram, neutral: Diagram, final: Diagram, known: dict[Pair, Diagram]
    ) -> Diagram:
        """Two conditions put together; `neutral` changes nothing, `final` everything. No recursion: chains are long."""

        def simple(a: Diagram, b: Diagram) -> Diagram | None:
            if a is b or b is neutral:
                return a
            if a is neutral:
                return b
            return final if a is final or b is final else known.get((a, b))

        found = simple(one, other)
        if found is not None:
            return found
        waiting: list[Pair] = [(one, other)]
        while waiting:
            pair = a, b = waiting[-1]
            level = min(a.level, b.level)
            a0, a1 = (a.without, a.with_) if a.level == level else (a, a)
            b0, b1 = (b.without, b.with_) if b.level == level else (b, b)
            without, with_ = simple(a0, b0), simple(a1, b1)
            if without is None:
                waiting.append((a0, b0))
            elif with_ is None:
                waiting.append((a1, b1))
            else:
                known[pair] = known[b, a] = self._question(level, without, with_)
                waiting.pop()
        return known[one, other]

    def without(self, levels: set[int]) -> Callable[[Diagram], Diagram]:
        """A function that gives what is left of a condition when some facts are gone for good."""
        first, last = min(levels), max(levels)
        known: dict[Diagram, Diagram] = {}

        def left(diagram: Diagram) -> Diagram:
            waiting = [diagram]
            while waiting:
                at = waiting[-1]
                if at not in known:
                    if at.level > last:
                        known[at] = at
                    else:
                        missing = [part for part in (at.without, at.with_) if part not in known]
                        if missing:
                            waiting += missing
                            continue
                        without, with_ = known[at.without], known[at.with_]
                        gone = at.level >= first and at.level in levels
                        known[at] = without if gone else self._question(at.level, without, with_)
                waiting.pop()
            return known[diagram]

        return left

    # ----------------------------------------------------------------------------------------------- as data

    def written(self, diagram: Diagram, stamps: dict[Fact, int]) -> Written:
        """A condition as plain values, each question after its answers; with the stamps of its facts."""
        places = {NEVER: 0, ALWAYS: 1}
        out: list[tuple[Any, ...]] = []
        waiting = [diagram]
        while waiting:
            at = waiting[-1]
            if at in places:
                waiting.pop()
                continue
            missing = [part for part in (at.with_, at.without) if part not in places]
            if missing:
                waiting += missing
                continue
            fact = self.facts[at.level]
            out.append((fact, stamps[fact], places[at.without], places[at.with_]))
            places[at] = len(out) + 1
            waiting.pop()
        return tuple(out)

    def read(self, written: Written, gone: Iterable[Fact]) -> Diagram:
        """The condition that was written; facts that are `gone` are not there."""
        missing = set(gone)
        made: list[Diagram] = [NEVER, ALWAYS]
        for fact, _, without, with_ in written:
            if fact in missing:
                made.append(made[without])
            else:
                made.append(self.either(made[without], self.both(self.there(fact), made[with_])))
        return made[-1] if written else ALWAYS


def facts_of(written: Sequence[tuple[Any, ...]]) -> set[Fact]:
    """The base facts that a condition asks for."""
    return {question[0] for question in written}
