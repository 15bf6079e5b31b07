"""Conditions as diagrams are what lists of sets of facts are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

from sempre.network.diagrams import ALWAYS, NEVER, Diagram, Diagrams
from sempre.network.node import Fact

FACTS: list[Fact] = [("link", (number,)) for number in range(6)]
Sets = frozenset[frozenset[Fact]]


def least(sets: set[frozenset[Fact]]) -> Sets:
    """Without the sets that contain others: equal conditions have equal ones."""
    return frozenset(one for one in sets if not any(other < one for other in sets))


def truth(diagram: Diagram, diagrams: Diagrams, there: frozenset[Fact]) -> bool:
    while diagram not in (NEVER, ALWAYS):
        diagram = diagram.with_ if diagrams.facts[diagram.level] in there else diagram.without
    return diagram is ALWAYS


def worlds() -> Iterator[frozenset[Fact]]:
    for bits in product((0, 1), repeat=len(FACTS)):
        yield frozenset(fact for fact, bit in zip(FACTS, bits, strict=True) if bit)


def check(diagrams: Diagrams, diagram: Diagram, sets: Sets) -> None:
    for world in worlds():
        assert truth(diagram, diagrams, world) == any(one <= world for one in sets)


def test_operations_are_those_of_sets() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        diagrams, other = Diagrams(), Diagrams()
        rng.shuffle(FACTS)
        known: dict[Sets, Diagram] = {frozenset(): NEVER, frozenset({frozenset()}): ALWAYS}
        for fact in FACTS:
            known[frozenset({frozenset({fact})})] = diagrams.there(fact)
        for _ in range(12):
            (one, a), (two, b) = rng.choice(list(known.items())), rng.choice(list(known.items()))
            either, both = least({*one, *two}), least({x | y for x in one for y in two})
            for sets, diagram in ((either, diagrams.either(a, b)), (both, diagrams.both(a, b))):
                assert known.setdefault(sets, diagram) is diagram
                check(diagrams, diagram, sets)
        gone = set(rng.sample(FACTS, 2))
        left = diagrams.without({diagrams.levels[fact] for fact in gone})
        stamps = dict.fromkeys(FACTS, 2)
        for sets, diagram in known.items():
            rest = frozenset(one for one in sets if not one & gone)
            check(diagrams, left(diagram), rest)
            if diagram is not NEVER:
                written = diagrams.written(diagram, stamps)
                check(other, other.read(written, ()), sets)
                check(other, other.read(written, gone), rest)


def test_chains_are_as_long_as_they_like_and_nothing_is_kept() -> None:
    diagrams = Diagrams()
    facts: list[Fact] = [("link", (number,)) for number in range(5_000)]
    chain = ALWAYS
    for one in [diagrams.there(fact) for fact in facts][::-1]:
        chain = diagrams.both(chain, one)
    assert len(diagrams.written(chain, dict.fromkeys(facts, 2))) == 5_000
    assert diagrams.without({4_999})(chain) is NEVER
    del chain, one
    diagrams.forget()
    assert len(diagrams) == 0
