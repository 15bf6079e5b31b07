"""What follows from new facts is found fact by fact as rounds of arrays find it: ranks and numbers included."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sempre.backends import growing, local
from sempre.kernel import compiled
from sempre.kernel.run import Run
from sempre.kernel.tally import Counted
from sempre.lang.parser import parse
from tests.engine import UNHURRIED, check_epochs
from tests.property.cycles import cyclic_case
from tests.property.programs import random_case
from tests.property.test_closed_below import PROGRAM as CLOSED
from tests.property.test_closed_below import epochs_of

pytestmark = pytest.mark.oracle

CASES = 8
EAGER = replace(UNHURRIED, grow_after=0)
CHOOSING = replace(EAGER, crowd_rows=0, choice_rows=0)
Plant = Callable[[pytest.MonkeyPatch], None]

# Facts of one relation meet in a rule, at two or three places, by several columns and without any.
PROGRAM = """
.decl e(x: number, y: number)
.decl n(x: number)
.decl p(x: number, y: number)
.decl q(x: number, y: number)
.decl r(x: number)
p(x, y) :- e(x, y).
p(x, z) :- p(x, y), p(y, z), !n(y).
q(y, x) :- p(x, y), q(x, x), x != y.
q(x, z) :- e(x, y), p(y, z), p(z, y).
q(x, x) :- e(x, _), p(x, x), r(y), p(y, x).
r(x) :- q(x, y), q(y, z), q(z, x).
r(x) :- n(x), r(y), p(y, 1).
"""
GRAPHS = parse(PROGRAM, "graphs.dl")
STRATA = parse(CLOSED, "strata.dl")

# What a lookup finds is looked up once more.
TRIANGLES = parse(
    """
.decl e(x: number, y: number)
.decl p(x: number, y: number)
.decl t(x: number)
p(x, y) :- e(x, y).
p(x, x) :- t(x), e(x, x).
t(x) :- p(x, y), p(y, z), p(z, x).
""",
    "triangles.dl",
)


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was followed fact by fact; None for what was not."""
    compiled.load(wait=True)
    made: list[Any] = []
    original = growing.grow

    def noting(*args: Any) -> Any:
        made.append(original(*args))
        return made[-1]

    monkeypatch.setattr(local, "grow", noting)
    return made


def _graphs(rng: random.Random) -> Any:
    """Epochs that insert edges, and delete some."""
    nodes = rng.randint(5, 9)

    def some(most: int) -> dict[str, set[tuple[int, ...]]]:
        names = {"e": (2, most), "n": (1, 1), "r": (1, 1), "q": (2, 1)}
        return {
            name: {tuple(rng.randrange(nodes) for _ in range(arity)) for _ in range(rng.randint(0, number))}
            for name, (arity, number) in names.items()
        }

    # All nodes are there from the beginning, or keys would not have room for those that come later.
    yield {"e": {(0, nodes - 1), (nodes - 1, 0)}, **{name: {(0,), (nodes - 1,)} for name in ("n", "r")}}, {}
    for _ in range(5):
        yield some(4), (some(2) if rng.random() < 0.5 else {})


def _edges(rng: random.Random) -> Any:
    """Epochs that insert edges among many."""

    def some(number: int) -> dict[str, set[tuple[int, ...]]]:
        return {"e": {(rng.randrange(16), rng.randrange(16)) for _ in range(number)}}

    yield {"e": {(0, 15), (15, 0), *some(30)["e"]}}, {}
    for _ in range(4):
        yield some(6), some(6)


def first_difference() -> int | None:
    """The first case that does not agree with the oracle: graphs that change at random, and random programs."""
    for seed in range(CASES):
        rng = random.Random(f"grown/{seed}")
        case = random_case(rng)
        cycles = cyclic_case(rng)
        for program, changes, limits in (
            (GRAPHS, list(_graphs(rng)), EAGER),
            (GRAPHS, list(_graphs(rng)), CHOOSING),
            (TRIANGLES, list(_edges(rng)), EAGER),
            # What grew is given, derived and deleted again, in strata upon strata: facts rest on ranks from growing.
            (STRATA, epochs_of(rng), EAGER),
            (case.program, [(case.facts, {}), *case.updates], EAGER),
            (cycles.program, [(cycles.facts, {}), *cycles.updates], CHOOSING),
        ):
            try:
                check_epochs(program, changes, "ranked", limits=limits)
            except Exception:  # noqa: BLE001  # a defect may show as a wrong result or as any error
                return seed
    return None


def test_growing_agrees_with_the_oracle(grown: list[Any]) -> None:
    assert first_difference() is None
    made = [found[0] for found in grown if found is not None]
    assert len(made) > 3 * CASES, "too few to say anything"
    assert sum(len(found.rounds) > 1 for found in made) > CASES, "too few with several rounds"


def test_rounds_that_are_not_ended_are_taken_again(grown: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SLICE", 5), ("MOST_WORK", 60), ("MOST_WAITING", 0), ("TABLE_BITS", (4, 5, 20))):
        monkeypatch.setattr(growing, name, value)
    assert first_difference() is None
    assert sum(bool(found is not None and found[0].pending) for found in grown) > CASES


def test_strategies_without_ranks_grow_too(grown: list[Any]) -> None:
    for seed in range(2):
        check_epochs(TRIANGLES, list(_edges(random.Random(seed))), "bf", limits=EAGER, modules="off")
    assert any(found is not None for found in grown)


def altered(change: Callable[[Any], Any]) -> Plant:
    """What was found, told wrong."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = growing.grow

        def wrong(*args: Any) -> Any:
            found = original(*args)
            return found if found is None else (change(found[0]), found[1])

        monkeypatch.setattr(local, "grow", wrong)

    return plant


def told(**differences: Any) -> Plant:
    """Code that says something else."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        original = growing.Growing.own_probe

        def wrong(self: Any, step: Any) -> None:
            original(self, step)
            at = self.starts[-1]
            if "both" in differences:
                self.code[at + 4] = differences["both"]
            if "relation" in differences:
                relation, *rest = self.indexes[-1]
                self.indexes[-1] = (relation + differences["relation"], *rest)
            if "free" in differences:
                self.indexes[-1] = (self.indexes[-1][0], 0, self.indexes[-1][2])

        monkeypatch.setattr(growing.Growing, "own_probe", wrong)

    return plant


def lying_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are columns of a table, and nobody copies what is read by address."""

    def apart(counted: Counted) -> Counted:
        return Counted(counted.packing, np.repeat(counted.keys, 4)[::4], counted.weights)

    def taken_as_it_is(self: Run, keys: Any) -> None:
        original(self, keys)
        self.keys = keys

    original = Run.__init__
    monkeypatch.setattr(Run, "__init__", taken_as_it_is)
    altered(lambda found: replace(found, numbers={n: apart(c) for n, c in found.numbers.items()}))(monkeypatch)


def _more(counted: Counted) -> Counted:
    return Counted(counted.packing, counted.keys, counted.weights + 1)


DEFECTS: dict[str, Plant] = {
    "numbers are too high": altered(
        lambda found: replace(found, numbers={n: _more(c) for n, c in found.numbers.items()})
    ),
    "rounds change places": altered(lambda found: replace(found, rounds=found.rounds[::-1])),
    "the last round is lost": altered(lambda found: replace(found, rounds=found.rounds[:-1])),
    "new facts find none of another relation": told(relation=1),
    "new facts are looked up by all columns": told(free=0),
    "a fact meets itself at every place": told(both=0),
    "a fact never meets itself": told(both=1),
    "numbers lie apart": lying_apart,
    "sieves know what is new": lambda patch: patch.setattr(growing.Growing, "may_sift", lambda self, step: True),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load(wait=True)
    DEFECTS[name](monkeypatch)
    assert first_difference() is not None
