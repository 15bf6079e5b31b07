"""What only has to be there is asked once for each value: rules find what they found, as often as they did."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.backends import tails
from sempre.backends.bindings import Bindings
from sempre.limits import Limits
from tests.budget import seeds
from tests.engine import check_epochs
from tests.property.cycles import cyclic_case
from tests.property.tails import tailed_case

pytestmark = pytest.mark.oracle
CASES = 6
# Whatever is asked, pieces of a few rows, which ask one after the other, and two threads.
ALWAYS = Limits(merging_rows=1, piece_rows=7, slice_rows=3, parallel_rows=1)
# With sets of facts, with numbers of instances, and with ranks.
STRATEGIES = ("recompute", "dredc", "ranked", "auto")


def observed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were asked about, time after time."""
    asked: list[int] = []
    original = tails.TailRunner.kept

    def kept(self: Any, rows: Bindings, *others: Any) -> Bindings:
        asked.append(rows.size)
        return original(self, rows, *others)

    monkeypatch.setattr(tails.TailRunner, "kept", kept)
    return asked


def check(strategy: str, seed: int | str) -> None:
    for make in (tailed_case, cyclic_case):
        case = make(random.Random(f"tails/{strategy}/{seed}"))
        check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=ALWAYS, threads=2)


def check_all(strategy: str, cases: int) -> None:
    for seed in range(cases):
        check(strategy, seed)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_asked_is_what_was_found(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = observed(monkeypatch)
    check_all(strategy, CASES)
    assert len(asked) > 20
    assert sum(asked) > 60, "too few rows were asked about"


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_tails(strategy: str) -> None:
    for seed in seeds(0, 30):
        check(strategy, f"slow/{seed}")


def the_last_answer_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(self: Any, *arguments: Any) -> Any:
        numbers = original(self, *arguments)
        numbers[-1:] = 0
        return numbers

    original = tails.TailRunner._asked
    monkeypatch.setattr(tails.TailRunner, "_asked", asked)


def answers_are_true_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one state answered is taken for the answer of the next."""

    def learn(self: Any, values: Any, field: Any, views: Any, counts: bool) -> None:
        if self._of and self._of[0] == counts:
            self._of = (counts, *(views[read] for read in self._reads))
        original(self, values, field, views, counts)

    original = tails.TailRunner._learn
    monkeypatch.setattr(tails.TailRunner, "_learn", learn)
    monkeypatch.setattr(tails.Ending, "forget", lambda self: None)


def ways_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tails.TailRunner._asked
    monkeypatch.setattr(tails.TailRunner, "_asked", lambda *arguments: np.minimum(original(*arguments), 1))


def weights_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(self: Any, rows: Bindings, views: Any, counts: bool) -> Bindings:
        found = original(self, rows, views, counts)
        weights = None if found.weights is None else np.sign(found.weights)
        return Bindings(found.size, found.columns, found.fields, weights)

    original = tails.TailRunner.kept
    monkeypatch.setattr(tails.TailRunner, "kept", kept)


def a_tail_forgets_what_else_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that read another variable of the rows are taken for steps that do not."""
    original = tails.names_of

    def names_of(step: Any) -> Any:
        found = original(step)
        return None if found is None else (set(sorted(found[0])[:1]), found[1])

    monkeypatch.setattr(tails, "names_of", names_of)


def answers_are_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value gets the answer of its neighbor."""

    def learn(self: Any, *arguments: Any) -> None:
        original(self, *arguments)
        self._numbers = np.roll(self._numbers, 1)

    original = tails.TailRunner._learn
    monkeypatch.setattr(tails.TailRunner, "_learn", learn)


DEFECTS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, type[Exception]]] = {
    the_last_answer_is_lost: ("recompute", AssertionError),
    answers_are_true_for_ever: ("recompute", AssertionError),
    ways_are_not_counted: ("dredc", AssertionError),
    weights_are_forgotten: ("dredc", AssertionError),
    a_tail_forgets_what_else_it_reads: ("recompute", KeyError),
    answers_are_mixed_up: ("recompute", AssertionError),
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: str(defect.__name__))
def test_a_planted_defect_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy, error = DEFECTS[defect]
    defect(monkeypatch)
    with pytest.raises(error):
        check_all(strategy, 40)


def test_a_test_comes_before_what_it_guards() -> None:
    """Nothing is divided by zero in a tail whose value was tested for it; nor where the tests are in the tail."""
    text = """
    .decl e(x: number, y: number)
    .decl f(x: number, y: number)
    .decl p(y: number)
    .decl q(y: number)
    p(y) :- e(_, y), y != 0, f(y, c), z = 10 / y, f(z, d), f(d, c).
    q(y) :- e(_, y), f(y, c), f(c, d), y != 0, f(10 / y, c), f(y, w), 10 / w != 3.
    """
    facts = {"e": [(1, 0), (1, 2), (1, 5)], "f": [(0, 0), (0, 5), (2, 5), (5, 2), (5, 5), (2, 2)]}
    with sempre.Database(text, limits=ALWAYS) as db:
        db.materialise(facts)
        assert (set(db["p"]), set(db["q"])) == ({(2,), (5,)}, {(2,), (5,)})


PATHS = ".decl e(x: number, y: number)\n.decl p(x: number)\np(a) :- e(a, b), e(b, c), e(c, d), e(d, f), e(f, g)."


def hubs(size: int) -> list[tuple[int, int]]:
    """Everything leads to ten places, and from these everywhere: 10^4 * 10^5 paths of three steps for each ten more."""
    return [(node, hub) for node in range(10, size) for hub in range(10)] + [
        (hub, node) for node in range(10, size) for hub in range(10)
    ]


@pytest.mark.parametrize("strategy", ["recompute", "dredc", "auto"])
def test_paths_are_counted_without_being_looked_at(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """10^13 paths; a change of two edges is followed as well."""
    found = 0
    original = tails.TailRunner._asked

    def asked(self: Any, values: Any, *others: Any) -> Any:
        nonlocal found
        found += values.size
        return original(self, values, *others)

    monkeypatch.setattr(tails.TailRunner, "_asked", asked)
    size = 600
    with sempre.Database(PATHS, strategy=strategy, threads=1) as db:
        db.materialise({"e": hubs(size)})
        assert len(db["p"]) == size
        assert 0 < found < 10 * size
        changes = db.apply(delete={"e": [(10, hub) for hub in range(10)]}, insert={"e": [(size, 3)]})
        assert changes.added["p"].to_pylist() == [{"x": size}]
        assert changes.removed["p"].to_pylist() == [{"x": 10}]


def test_numbers_that_do_not_fit_are_no_numbers() -> None:
    """More paths than 64 bits count: `dredc` says so, and `auto` does without numbers."""
    text = ".decl e(x: number, y: number)\n.decl p(x: number)\np(v0) :- " + ", ".join(
        f"e(v{n}, v{n + 1})" for n in range(9)
    )
    rows = [(x, y) for x in range(200) for y in range(200)]
    gone = {"e": [(0, y) for y in range(200)]}
    with sempre.Database(f"{text}.", strategy="auto", limits=Limits(merging_rows=1)) as db:
        db.materialise({"e": rows})
        assert len(db["p"]) == 200
        db.apply(delete=gone)
        assert len(db["p"]) == 199
    with sempre.Database(f"{text}.", strategy="dredc", limits=Limits(merging_rows=1)) as db:
        db.materialise({"e": rows})
        with pytest.raises(sempre.SempreError, match="one fact has more derivations than 64 bits can count"):
            db.apply(delete=gone)
        assert len(db["p"]) == 200
