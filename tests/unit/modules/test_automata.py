"""Automata against brute force: the words of a chain program, by unfolding its grammar."""

from __future__ import annotations

import random
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from sempre.api import Program
from sempre.modules.automata import Deterministic, collapsed
from sempre.modules.find import partition
from sempre.plan.ops import Automaton
from sempre.rewrites.equivalences import close_equivalences

LONGEST = 6
HEADS = ("p", "q", "r")
LETTERS = (*HEADS, "e", "f")

Rule = tuple[str, tuple[str, ...]]


def unfoldings(head: str, rules: list[Rule]) -> set[tuple[str, ...]]:
    """The words, up to a length, that rules used from left to right make of a head."""
    found: set[tuple[str, ...]] = {(head,)}
    pending = list(found)
    while pending:
        word = pending.pop()
        for place, letter in enumerate(word):
            for name, body in rules:
                longer = (*word[:place], *body, *word[place + 1 :])
                if name == letter and len(longer) <= LONGEST and longer not in found:
                    found.add(longer)
                    pending.append(longer)
    return found


def accepted(automaton: Automaton, head: str) -> set[tuple[str, ...]]:
    """The nonempty words, up to a length, that lead from the head's start to one of its final states."""
    steps = {(state, letter): to for state, letter, to in automaton.steps}
    assert len(steps) == len(automaton.steps), "deterministic"
    found: set[tuple[str, ...]] = set()
    front: set[tuple[tuple[str, ...], int]] = {((), automaton.starts[head])}
    for _ in range(LONGEST):
        front = {
            ((*word, letter), steps[state, letter])
            for word, state in front
            for letter in automaton.letters
            if (state, letter) in steps
        }
        found |= {word for word, state in front if state in automaton.finals[head]}
    return found


def text_of(rules: list[Rule]) -> str:
    lines = [f".decl {name}(x: number, y: number)" for name in LETTERS]
    for head, word in rules:
        body = ", ".join(f"{letter}(x{i}, x{i + 1})" for i, letter in enumerate(word))
        lines.append(f"{head}(x0, x{len(word)}) :- {body}.")
    # One stratum for all heads, by rules that no module takes.
    lines += [f"{a}(x, y) :- {b}(x, y), x < y." for a, b in product(HEADS, HEADS) if a != b]
    return "\n".join(lines)


@settings(deadline=None, max_examples=400)
@given(
    st.lists(
        st.tuples(st.sampled_from(HEADS), st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3).map(tuple)),
        min_size=1,
        max_size=6,
    )
)
def test_an_automaton_accepts_what_its_rules_unfold_to(rules: list[Rule]) -> None:
    program = close_equivalences(Program(text_of(rules)).checked)
    owned: set[int] = set()
    heads: set[str] = set()
    for modules in partition(program).values():
        for module in modules:
            assert module.paths is not None
            assert not owned & module.rules
            assert not heads & {*module.heads}
            owned |= module.rules
            heads |= {*module.heads}
            mine = [rules[number] for number in module.rules]
            assert {head for head, _ in mine} == {*module.heads} == {*module.paths.starts} == {*module.paths.finals}
            for head in module.heads:
                assert accepted(module.paths, head) == unfoldings(head, mine), (module, head)
                used = {state for state, _, _ in module.paths.steps} | {to for _, _, to in module.paths.steps}
                assert used == set(range(module.paths.states))


def test_regular_rules_are_recognized_often() -> None:
    """Left, right and joined extensions of one head in every order of their letters."""
    for before, after, between in product(("e", "f"), repeat=3):
        rules = [("p", (before, "p")), ("p", ("p", after)), ("p", ("p", between, "p")), ("q", ("q", "p"))]
        program = close_equivalences(Program(text_of(rules)).checked)
        ((module,),) = partition(program).values()
        assert module.rules == {0, 1, 2, 3}
        assert module.heads == ("p", "q")
        for head in module.heads:
            assert module.paths is not None
            assert accepted(module.paths, head) == unfoldings(head, rules)


def squeezed(word: tuple[str, ...], letter: str) -> tuple[str, ...]:
    """The word with one of a letter where it has several in a row."""
    return tuple(a for i, a in enumerate(word) if not (a == letter and i and word[i - 1] == letter))


def test_collapsed_words_stand_for_all_words() -> None:
    """Every word, squeezed, is among those that are left, and those that are left were there before."""
    rng = random.Random(5)
    collapsing = 0
    for _ in range(300):
        states = rng.randint(1, 4)
        steps = tuple({letter: rng.randrange(states) for letter in "ef" if rng.random() < 0.7} for _ in range(states))
        finals = frozenset(state for state in range(states) if rng.random() < 0.5)
        given = Deterministic(steps, finals)
        left = collapsed(given, {"e"})
        before, after = words(given), words(left)
        assert after <= before
        if after != before:
            collapsing += 1
            assert {squeezed(word, "e") for word in before} == after
    assert collapsing > 20


def words(given: Deterministic) -> set[tuple[str, ...]]:
    found: set[tuple[str, ...]] = set()
    front: list[tuple[tuple[str, ...], int]] = [((), 0)]
    for _ in range(LONGEST):
        front = [((*word, letter), to) for word, state in front for letter, to in given.steps[state].items()]
        found |= {word for word, state in front if state in given.finals}
    return found
