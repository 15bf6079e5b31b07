"""Aggregates in Python: the engine equals the oracle, which has functions of its own for them."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sempre
from sempre.api.explanations import Proof
from sempre.api.options import check_functions
from sempre.kernel import calling
from sempre.lang.parser import parse
from sempre.python_functions import REGISTERED
from tests.engine import STRATEGIES, compare, lists, truths
from tests.oracle.naive import Facts
from tests.oracle.values import OWN

pytestmark = pytest.mark.oracle

DECLARED = """
.aggregate median(x: number): float
.aggregate longest(s: symbol): symbol
.aggregate parity(u: unsigned): unsigned
.aggregate width(x: float): float
.aggregate spread(x: number): number
.decl e(x: number, y: number)
.decl w(s: symbol, n: number)
.decl reach(x: number, y: number)
reach(x, y) :- e(x, y).
reach(x, z) :- reach(x, y), e(y, z).
.decl p(x: number, f: float)
.decl q(s: symbol)
.decl r(x: number, n: number)
.decl u(x: number, n: unsigned)
"""
POOL = (
    "p(x, m) :- e(x, _), m = @median y : { e(x, y) }.",
    "p(x, m) :- reach(x, _), m = @median y + z : { reach(x, y), e(y, z) }.",
    "p(x, @median(y) : { reach(x, y) }) :- e(x, _).",
    "q(@longest s : { w(s, _) }).",
    'q(cat(s, "+")) :- e(x, _), s = @longest t : { w(t, n), n >= x }.',
    "q(s) :- w(s, n), !( e(n, x), x > @spread y : { reach(n, y) } ).",
    "r(x, n) :- e(x, n), n = @spread y : { e(x, y) }.",
    "r(x, n) :- reach(x, _), n = @spread y : { e(y, x), x != y }.",
    "r(x, n) :- reach(x, _), n = sum @spread y : { e(z, y) } : { reach(x, z) }.",
    "u(x, n) :- e(x, _), n = @parity itou(y) : { reach(x, y) }.",
    "p(x, n) :- e(x, _), n = @width itof(y) : { w(_, y), y != x }.",
)


def _width(values: list[float]) -> float | None:
    return max(values) - min(values) if values else None


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(REGISTERED)
    sempre.aggregate(name="median")(statistics.median)
    sempre.aggregate(name="width")(lambda values: _width(values))

    @sempre.aggregate(merge=True)
    def longest(one: str, other: str) -> str:
        return max(one, other, key=lambda text: (len(text), text))

    @sempre.aggregate(merge=True, empty=7)
    def parity(one: int, other: int) -> int:
        return one ^ other

    @sempre.aggregate(empty=-1)
    def spread(values: list[int]) -> int:
        assert values == sorted(values)
        return values[-1] - values[0]

    def odd(values: list[Any]) -> int:
        total = 0
        for value in values:
            total ^= value
        return total if values else 7

    ours: dict[str, Callable[[list[Any]], Any]] = {
        "@median": lambda values: float(statistics.median(values)) if values else None,
        "@longest": lambda values: max(values, key=lambda text: (len(text), text)) if values else None,
        "@parity": odd,
        "@width": _width,
        "@spread": lambda values: max(values) - min(values) if values else -1,
    }
    for name, function in ours.items():
        monkeypatch.setitem(OWN, name, function)
    yield
    REGISTERED.clear()
    REGISTERED.update(before)


def _facts(rng: random.Random) -> Facts:
    pairs = {(rng.randrange(5), rng.randrange(5)) for _ in range(rng.randint(0, 5))}
    return {"e": pairs, "w": {(rng.choice(("a", "b", "a1", "b2", "é", "")), rng.randrange(4)) for _ in range(3)}}


def check_case(rng: random.Random, strategy: str) -> None:
    text = DECLARED + "\n".join(rng.sample(POOL, rng.randint(3, 7)))
    epochs = [(_facts(rng), _facts(rng)) for _ in range(4)]
    expected = truths(parse(text), epochs)
    with sempre.Database(text, strategy=strategy) as db:
        for (insert, delete), truth in zip(epochs, expected[1:], strict=True):
            db.apply(insert=lists(insert), delete=lists(delete))
            compare(db, truth.facts, text)
            assert db.verify().ok
        for relation in ("p", "q", "r", "u"):
            for row in list(db[relation])[:2]:
                fact = f"{relation}({', '.join(_written(value, relation, at) for at, value in enumerate(row))})"
                proof = db.explain(fact)
                assert isinstance(proof, Proof)
                assert proof.check() == [], fact


def _written(value: Any, relation: str, column: int) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value}u" if (relation, column) == ("u", 1) else repr(value)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_aggregates_equal_the_oracle(strategy: str) -> None:
    for seed in range(3):
        check_case(random.Random(f"{strategy} {seed}"), strategy)


def _values_come_once(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = calling.aggregated
    monkeypatch.setattr(calling, "aggregated", lambda name, groups: whole(name, [sorted(set(g)) for g in groups]))


def _empty_groups_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = calling.aggregated

    def planted(name: str, groups: list[list[Any]]) -> tuple[list[int], list[Any]]:
        found, results = whole(name, groups)
        kept = [at for at, index in enumerate(found) if groups[index]]
        return [found[at] for at in kept], [results[at] for at in kept]

    monkeypatch.setattr(calling, "aggregated", planted)


@pytest.mark.parametrize("plant", [_values_come_once, _empty_groups_are_forgotten])
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(30):
        try:
            check_case(random.Random(seed), "auto")
        except AssertionError:
            return
    pytest.fail("no case noticed")


SMALL = ".aggregate f(x: number): number .decl e(x: number) .decl p(x: number) p(n) :- n = @f x : { e(x) }."
BAD: dict[str, tuple[Callable[[list[int]], Any], str]] = {
    "wrong type": (lambda values: "text", "`@f` gave 'text', which is no number"),
    "no number": (lambda values: None, "`@f` gave None, which is no number"),
    "exception": (lambda values: 1 // 0, "`@f` raised ZeroDivisionError: integer division or modulo by zero"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_function_that_fails_ends_the_epoch(what: str) -> None:
    function, message = BAD[what]
    sempre.aggregate(name="f")(function)
    with sempre.Database(SMALL) as db:
        with pytest.raises(sempre.DataError, match="E510") as error:
            db.apply(insert={"e": [(1,)]})
        assert message in str(error.value)
        assert not len(db["e"])


def test_what_is_not_registered_as_an_aggregate_is_refused() -> None:
    with pytest.raises(sempre.ProgramError, match="no Python function is registered for the aggregate `@f`"):
        sempre.Database(SMALL)
    sempre.functor(name="f")(lambda x: x)
    with pytest.raises(sempre.ProgramError, match="E339"):
        sempre.Database(SMALL)


@pytest.mark.parametrize("place", ["workers", "cluster"])
def test_places_without_the_function_are_refused(place: str) -> None:
    sempre.aggregate(name="f")(sum)
    program = sempre.Program(SMALL).checked
    with pytest.raises(sempre.BackendError, match=f"the aggregate `@f` is Python, and cannot run on the {place}"):
        check_functions(program, place)
    check_functions(program, "auto")
