"""Alternatives in the bodies of aggregates: the engine rewrites them, the oracle takes the union of what they allow."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import sempre
from sempre.analysis import alternatives
from sempre.api.explanations import Proof
from sempre.lang import syntax as s
from sempre.lang.parser import parse
from tests.engine import STRATEGIES, compare, lists, truths
from tests.oracle.naive import Facts

pytestmark = pytest.mark.oracle

DECLARED = """
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.decl reach(x: number, y: number)
reach(x, y) :- e(x, y).
reach(x, z) :- reach(x, y), e(y, z).
.decl n(x: number, c: number)
.decl m(x: number, c: number)
"""
POOL = (
    "n(x, c) :- e(x, _), c = count : { e(x, y) ; f(x, y) }.",
    "n(x, c) :- e(x, _), c = count : { e(x, y), y > 1 ; f(y, x) ; reach(x, y), y != x }.",
    "n(x, count : { reach(x, y) ; reach(y, x) }) :- f(_, x).",
    "n(x, c) :- e(x, y), c = y * count : { e(x, z), !f(x, z) ; f(z, z) }.",
    "n(0, c) :- c = count : { e(x, y), f(y, x) ; reach(x, y), y = x + 1 ; f(x, y), !( e(y, z), z > x ) }.",
    "m(x, c) :- e(x, _), c = min y : { f(x, y) ; e(y, x) }.",
    "m(x, c) :- reach(x, _), c = max y : { f(x, y) ; f(y, _), y < x ; e(y, y) }.",
    "m(x, y) :- reach(x, y), 2 < min z : { e(z, x) ; f(y, z), z != x }.",
    "m(x, y) :- e(x, y), !( f(y, z), z > max a : { e(x, a) ; f(a, x) } ).",
    "m(x, c) :- e(x, y), (c = min z : { f(y, z) ; e(z, x) } ; f(x, c)).",
    "m(x, c) :- e(x, _), c = count : { f(x, y), y > min z : { e(z, x) ; f(z, y) } ; e(y, x) }.",
)


def _facts(rng: random.Random) -> Facts:
    def pairs() -> set[tuple[int, int]]:
        return {(rng.randrange(4), rng.randrange(4)) for _ in range(rng.randint(0, 4))}

    return {"e": pairs(), "f": pairs()}


def check_case(rng: random.Random, strategy: str) -> None:
    text = DECLARED + "\n".join(rng.sample(POOL, rng.randint(3, 6)))
    epochs = [(_facts(rng), _facts(rng)) for _ in range(4)]
    expected = truths(parse(text), epochs)
    with sempre.Database(text, strategy=strategy) as db:
        for (insert, delete), truth in zip(epochs, expected[1:], strict=True):
            db.apply(insert=lists(insert), delete=lists(delete))
            compare(db, truth.facts, text)
            assert db.verify().ok
        for relation in ("n", "m"):
            for one, other in list(db[relation])[:2]:
                proof = db.explain(f"{relation}({one}, {other})")
                assert isinstance(proof, Proof)
                assert proof.check() == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_alternatives_equal_the_oracle(strategy: str) -> None:
    for seed in range(4):
        check_case(random.Random(f"{strategy} {seed}"), strategy)


def _what_both_have_counts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    negate = alternatives._negate

    def planted(body: s.Formula, span: object) -> list[tuple[s.Formula, ...]]:
        return [()] if isinstance(body, s.Atom) else negate(body, body.span)

    monkeypatch.setattr(alternatives, "_negate", planted)


def _the_case_of_both_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = alternatives._cases
    monkeypatch.setattr(alternatives, "_cases", lambda formula, term: list(cases(formula, term))[:2])


def _the_others_need_not_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = alternatives._cases

    def planted(formula: s.Formula, term: s.Aggregate) -> list[s.Formula]:
        first, *others = cases(formula, term)
        kept = [part for part in first.parts if not isinstance(part, s.Negation)]  # type: ignore[union-attr]
        return [s.conjunction(kept), *others]

    monkeypatch.setattr(alternatives, "_cases", planted)


@pytest.mark.parametrize(
    "plant", [_what_both_have_counts_twice, _the_case_of_both_is_forgotten, _the_others_need_not_be_absent]
)
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
