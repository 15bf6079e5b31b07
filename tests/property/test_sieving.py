"""What a lookup finds and a later one drops is left out at once; what plans find stays the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from sempre.backends import sieves
from sempre.backends.bindings import view_of
from sempre.kernel import run, sieve
from sempre.kernel.sieve import Sieve
from sempre.lang.parser import parse
from tests.engine import check_epochs
from tests.property.cycles import cyclic_case
from tests.property.programs import Case, random_case

pytestmark = pytest.mark.oracle
CASES = 12
STRATEGIES = ("recompute", "dredc", "ranked")

POINTS = parse(
    """
.decl new(v: number, o: number)
.decl load(v: number, w: number)
.decl store(v: number, w: number)
.decl kind(k: number, w: number)
.decl points(v: number, o: number)
.decl heap(o: number, p: number)
.decl odd(v: number)
points(v, o) :- new(v, o).
points(v, p) :- load(v, w), points(w, o), heap(o, p).
heap(o, p) :- store(v, w), points(v, o), points(w, p).
points(v, o) :- points(w, o), kind(-3, w), load(v, w), kind(2, v).
odd(v) :- points(v, o), kind(7, o), heap(o, _).
""",
    "points.dl",
)


def sieved(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have every lookup sieved that can be; returns how many rows were left out, each time that it was."""
    for name, value in {"SIEVED_ROWS": 1, "LATER_ROWS": 1 << 30, "MARKED_VALUES": 1 << 16, "USEFUL_SHARE": 1.0}.items():
        monkeypatch.setattr(sieves, name, value)
    left_out: list[int] = []
    original = sieves.Sieving.saw

    def saw(self: Any, total: int, kept: int) -> None:
        left_out.append(total - kept)
        original(self, total, kept)

    monkeypatch.setattr(sieves.Sieving, "saw", saw)
    return left_out


def pointing_case(rng: random.Random) -> Case:
    """Constants before what is looked up, values that others' fields have no room for, and rows that come and go."""
    values = [-3, 0, 1, 2, 5, 7]

    def some(most: int) -> dict[str, set[tuple[int, ...]]]:
        found: dict[str, set[tuple[int, ...]]] = {
            name: {(rng.choice(values), rng.choice(values)) for _ in range(rng.randint(0, most))}
            for name in ("new", "load", "store", "kind")
        }
        if not rng.randrange(4):
            found["load"].add((rng.choice(values), 1 << 40))
        return found

    return Case(POINTS, some(12), [(some(4), some(6)) for _ in range(3)])


def check(strategy: str) -> None:
    for seed in range(CASES):
        for make in (random_case, cyclic_case, pointing_case):
            case = make(random.Random(f"sieving/{strategy}/{seed}"))
            check_epochs(case.program, [(case.facts, {}), *case.updates], strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_sieved_finds_the_same(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = sieved(monkeypatch)
    check(strategy)
    assert len(left_out) > 100
    assert sum(left_out) > 50, "too few rows were left out"


def mark_what_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a relation with several runs, only the last is marked."""
    original = view_of

    class Last:
        def __init__(self, view: Any) -> None:
            self.parts = view.parts[-1:]
            self.size = len(view)

        def __len__(self) -> int:
            return self.size

    monkeypatch.setattr(sieves, "view_of", lambda views, key: Last(original(views, key)))


def forget_where_fields_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def marked(values: Any, wanted: Any) -> Any:
        return sieve.marked(values[values >= 0], wanted)

    monkeypatch.setattr(run, "marked", marked)


def ignore_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column that is marked is the first one, whatever is looked up before it."""
    original = run.Run.marks
    monkeypatch.setattr(run.Run, "marks", lambda self, layout, prefix, wanted: original(self, layout, (), wanted))


def sieve_by_another_column(monkeypatch: pytest.MonkeyPatch) -> None:
    original = sieves.Sieving.sieve

    def wrong(self: Any, views: Any, layout: Any, total: int) -> Any:
        found = original(self, views, layout, total)
        return found and Sieve(0 if found.shift else layout.fields[0].bits, found.mask, found.marks)

    monkeypatch.setattr(sieves.Sieving, "sieve", wrong)


DEFECTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "only the last part is marked": mark_what_is_alone,
    "negative values are not marked": forget_where_fields_begin,
    "constants are ignored": ignore_constants,
    "another column": sieve_by_another_column,
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sieved(monkeypatch)
    DEFECTS[name](monkeypatch)
    with pytest.raises((AssertionError, IndexError)):  # a wrong result, or a value without a mark
        check("ranked")
