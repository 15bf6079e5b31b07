"""Finite automata: from word-labeled sketches to one small deterministic automaton for several relations.

A `Sketch` is what a set of regular chain rules says: its edges carry words over relation names, and a relation that
stands for a sketch of its own is replaced by it. From there it goes the classical way: words become steps, empty steps
go, subsets make it deterministic, equal futures make it small.

Reference: [Hu22] section 6.4; [HS04] for which chains are regular.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sempre.data import dataclass
from sempre.plan.ops import Automaton

Word = tuple[str, ...]
# A chain program with more states than this is cheaper to evaluate rule by rule.
MOST_STATES = 64
MOST_SKETCHED = 512


class TooManyStates(Exception):
    """The automaton would have more states than it is worth."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """States `0..states-1` and edges (state, word, next state); each head has its start and its final state."""

    states: int
    edges: tuple[tuple[int, Word, int], ...]
    ends: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Deterministic:
    """Steps by state and letter, from state 0."""

    steps: tuple[Mapping[str, int], ...]
    finals: frozenset[int]


class _Loose:
    """A nondeterministic automaton in the making; the letter `None` is an empty step."""

    def __init__(self, states: int) -> None:
        self.steps: list[list[tuple[str | None, int]]] = [[] for _ in range(states)]

    def state(self) -> int:
        if len(self.steps) >= MOST_SKETCHED:
            raise TooManyStates
        self.steps.append([])
        return len(self.steps) - 1

    def add_word(self, origin: int, word: Word, target: int, known: Mapping[str, Deterministic]) -> None:
        """A path for a word; letters in `known` are replaced by their automata."""
        for position, letter in enumerate(word):
            following = target if position == len(word) - 1 else self.state()
            if letter in known:
                self.add_copy(origin, known[letter], following)
            else:
                self.steps[origin].append((letter, following))
            origin = following
        if not word:
            self.steps[origin].append((None, target))

    def add_copy(self, origin: int, automaton: Deterministic, target: int) -> None:
        copies = [self.state() for _ in automaton.steps]
        self.steps[origin].append((None, copies[0]))
        for state, steps in enumerate(automaton.steps):
            self.steps[copies[state]] += [(letter, copies[following]) for letter, following in steps.items()]
            if state in automaton.finals:
                self.steps[copies[state]].append((None, target))

    def closed(self, states: Iterable[int]) -> frozenset[int]:
        """What empty steps reach."""
        found, pending = set(states), list(states)
        while pending:
            for letter, following in self.steps[pending.pop()]:
                if letter is None and following not in found:
                    found.add(following)
                    pending.append(following)
        return frozenset(found)


def languages(sketch: Sketch, known: Mapping[str, Deterministic]) -> dict[str, Deterministic]:
    """The words of each head of a sketch, where letters in `known` stand for words of their own."""
    loose = _Loose(sketch.states)
    for origin, word, target in sketch.edges:
        loose.add_word(origin, word, target, known)
    return {head: _small(_determined(loose, start, final)) for head, (start, final) in sketch.ends.items()}


def collapsed(given: Deterministic, letters: Collection[str]) -> Deterministic:
    """The words that matter when some letters are transitive relations: two such letters in a row are also one.

    A letter is left as it is where some word, so shortened, would not be among the words.
    """
    for letter in sorted(letters):
        once = [step[letter] for step in given.steps if letter in step]
        twice = [(state, given.steps[state][letter]) for state in once if letter in given.steps[state]]
        if all(_includes(given, state, following) for state, following in twice):
            given = _small(_without_doubles(given, letter))
    return given


def _includes(given: Deterministic, larger: int, smaller: int) -> bool:
    """Whether every word that leads from one state to a final one does so from another."""
    seen: set[tuple[int | None, int]] = {(larger, smaller)}
    pending: list[tuple[int | None, int]] = [(larger, smaller)]
    while pending:
        big, small = pending.pop()
        if small in given.finals and big not in given.finals:
            return False
        for letter, to in given.steps[small].items():
            pair = (None if big is None else given.steps[big].get(letter), to)
            if pair not in seen:
                seen.add(pair)
                pending.append(pair)
    return True


def _without_doubles(given: Deterministic, letter: str) -> Deterministic:
    """The words without two of a letter in a row: a second copy of each state is for after the letter."""
    count = len(given.steps)
    steps = [
        {name: to + count * (name == letter) for name, to in step.items() if not (after and name == letter)}
        for after in (False, True)
        for step in given.steps
    ]
    return Deterministic(tuple(steps), frozenset(s + count * after for s in given.finals for after in (0, 1)))


def automaton(parts: Mapping[str, Deterministic]) -> Automaton:
    """One automaton for several heads, which share states with the same future."""
    steps: list[Mapping[str, int]] = []
    finals: set[int] = set()
    starts: dict[str, int] = {}
    for head, part in parts.items():
        offset = len(steps)
        starts[head] = offset
        steps += [{letter: offset + to for letter, to in step.items()} for step in part.steps]
        finals |= {offset + state for state in part.finals}
    blocks = _future_classes(steps, finals)
    blocks = _merged_starts(steps, blocks, {starts[head] for head in parts})
    return _numbered(steps, finals, starts, blocks)


def _determined(loose: _Loose, start: int, final: int) -> Deterministic:
    first = loose.closed((start,))
    numbers = {first: 0}
    pending = [first]
    steps: list[dict[str, int]] = []
    for subset in pending:
        reached: dict[str, set[int]] = {}
        for state in sorted(subset):
            for letter, following in loose.steps[state]:
                if letter is not None:
                    reached.setdefault(letter, set()).add(following)
        step = {}
        for letter, states in reached.items():
            closed = loose.closed(states)
            if closed not in numbers:
                if len(numbers) >= MOST_STATES:
                    raise TooManyStates
                numbers[closed] = len(numbers)
                pending.append(closed)
            step[letter] = numbers[closed]
        steps.append(step)
    return Deterministic(tuple(steps), frozenset(number for subset, number in numbers.items() if final in subset))


def _small(given: Deterministic) -> Deterministic:
    """The least automaton of the same words; a start without a way back may also pose as a final state."""
    live = _alive(given)
    steps = [
        {letter: to for letter, to in step.items() if to in live} if state in live else {}
        for state, step in enumerate(given.steps)
    ]
    blocks = _future_classes(steps, set(given.finals))
    numbers: dict[int, int] = {}
    order = [0]
    numbers[blocks[0]] = 0
    made: list[Mapping[str, int]] = []
    for state in order:
        for to in steps[state].values():
            if blocks[to] not in numbers:
                numbers[blocks[to]] = len(numbers)
                order.append(to)
        made.append({letter: numbers[blocks[to]] for letter, to in steps[state].items()})
    return Deterministic(tuple(made), frozenset(numbers[blocks[s]] for s in given.finals if blocks[s] in numbers))


def _alive(given: Deterministic) -> set[int]:
    """States from which a final one can be reached."""
    live = set(given.finals)
    while True:
        more = {s for s, step in enumerate(given.steps) if s not in live and any(to in live for to in step.values())}
        if not more:
            return live
        live |= more


def _future_classes(steps: Sequence[Mapping[str, int]], finals: set[int]) -> list[int]:
    """A class per state; equal where the same words lead to a final state."""
    blocks = [int(state in finals) for state in range(len(steps))]
    while True:
        seen: dict[object, int] = {}
        refined = []
        for state, step in enumerate(steps):
            key = (blocks[state], frozenset((letter, blocks[to]) for letter, to in step.items()))
            refined.append(seen.setdefault(key, len(seen)))
        if len(set(refined)) == len(set(blocks)):
            return refined
        blocks = refined


def _merged_starts(steps: Sequence[Mapping[str, int]], blocks: list[int], starts: set[int]) -> list[int]:
    """Classes where a start that nothing leads to joins a state with the same steps.

    Only whether it is final tells the two apart, and that concerns the empty path alone, which never counts.
    """
    entered = {blocks[to] for step in steps for to in step.values()}
    by_steps: dict[frozenset[tuple[str, int]], int] = {}
    for state, step in enumerate(steps):
        if blocks[state] in entered:
            by_steps.setdefault(frozenset((letter, blocks[to]) for letter, to in step.items()), blocks[state])
    merged = list(blocks)
    for state in starts:
        if blocks[state] not in entered:
            key = frozenset((letter, blocks[to]) for letter, to in steps[state].items())
            merged[state] = by_steps.get(key, blocks[state])
    return merged


def _numbered(
    steps: Sequence[Mapping[str, int]], finals: set[int], starts: Mapping[str, int], blocks: Sequence[int]
) -> Automaton:
    """The automaton of the classes, numbered from the starts on; each head has the final states that it can reach."""
    numbers: dict[int, int] = {}
    order: list[int] = []
    for start in starts.values():
        if blocks[start] not in numbers:
            numbers[blocks[start]] = len(numbers)
            order.append(start)
    made: list[tuple[int, str, int]] = []
    for state in order:
        for letter, to in sorted(steps[state].items()):
            if blocks[to] not in numbers:
                numbers[blocks[to]] = len(numbers)
                order.append(to)
            made.append((numbers[blocks[state]], letter, numbers[blocks[to]]))
    final_numbers = {numbers[blocks[state]] for state in finals if blocks[state] in numbers}
    found = {head: numbers[blocks[start]] for head, start in starts.items()}
    reached = {head: frozenset(_reached(made, start) & final_numbers) for head, start in found.items()}
    return Automaton(len(numbers), tuple(made), found, reached)


def _reached(steps: Iterable[tuple[int, str, int]], start: int) -> set[int]:
    """States that some path, the empty one included, leads to."""
    found = {start}
    while True:
        more = {to for origin, _, to in steps if origin in found and to not in found}
        if not more:
            return found
        found |= more
