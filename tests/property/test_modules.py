"""Modules on equals modules off equals the oracle, in facts, changes and counters, within the framework's bounds."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

import sempre
from sempre.kernel.reach import Components, Matrix
from sempre.lang.printer import to_text
from sempre.limits import Limits
from sempre.maintain.backward_forward import _Search
from sempre.maintain.modular import Exchange
from sempre.maintain.update import StratumUpdate
from sempre.modules.closing import Closing
from sempre.modules.find import partition
from tests import budget
from tests.engine import FORGETTING, UNHURRIED, check_epochs, lists
from tests.property.closures import modular_case

pytestmark = pytest.mark.oracle
STRATEGIES = ("recompute", "dredc", "auto", "dred", "bf", "bfc")
SEEDS = {strategy: 10_000 * number for number, strategy in enumerate(STRATEGIES)}
BATCH = 25
Patches = list[tuple[Any, str, Callable[..., Any]]]


def check(seed: int, strategy: str, limits: Limits = UNHURRIED) -> int:
    case = modular_case(random.Random(seed))
    return check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=limits)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("start", range(0, 75, BATCH))
def test_random_cases(strategy: str, start: int) -> None:
    compared = sum(check(SEEDS[strategy] + seed, strategy) for seed in range(start, start + BATCH))
    assert (compared > 0) == (strategy not in FORGETTING)


@pytest.mark.parametrize("start", range(0, 50, BATCH))
def test_searching_instead_of_matrices(start: int) -> None:
    for seed in range(start, start + BATCH):
        check(50_000 + seed, "dredc", replace(UNHURRIED, matrix_nodes=0))


def check_steps(seed: int, strategy: str) -> int:
    """The number of chains without their head that a module has."""
    rng = random.Random(seed)
    case, modules = modular_case(rng, stepping=True), rng.choice(["rch", "rch,linear,tc,stc"])
    check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, modules=modules, limits=UNHURRIED)
    found = partition(sempre.Program(to_text(case.program)).checked, modules).values()
    return sum("` is a `" in module.reason or "` are `" in module.reason for several in found for module in several)


@pytest.mark.parametrize("strategy", ["dredc", "auto", "dred", "bf", "bfc"])
def test_chains_without_their_head(strategy: str) -> None:
    assert sum(check_steps(70_000 + seed, strategy) for seed in range(12)) > 4


@pytest.mark.slow
def test_thousands_of_chains_without_their_head() -> None:
    for seed in budget.seeds(70_100, 60):
        for strategy in STRATEGIES:
            check_steps(seed, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100_000, 105_000, 1_000))
def test_thousands_of_random_cases(first: int) -> None:
    for seed in budget.seeds(first, 60):
        for strategy in STRATEGIES:
            check(seed, strategy)


def test_on_equals_off() -> None:
    for seed in range(60_000, 60_020):
        case = modular_case(random.Random(seed))
        text = to_text(case.program)
        with sempre.Database(text) as on, sempre.Database(text, modules="off") as off:
            for insert, delete in [(case.facts, {}), *case.updates]:
                ours, theirs = (db.apply(insert=lists(insert), delete=lists(delete)) for db in (on, off))
                for name in on:
                    assert set(on[name]) == set(off[name]), f"{name}\n{text}"
                    for side in ("added", "removed"):
                        assert getattr(ours, side)[name].num_rows == getattr(theirs, side)[name].num_rows
            assert on.verify().ok


def test_a_failed_epoch_leaves_the_modules_as_they_were() -> None:
    """The graph is changed while an epoch runs; when that fails, the next one starts from what was committed."""
    program = """
        .decl e(x: number, y: number)
        .decl r(x: number, y: number)
        r(x, y) :- e(x, y).
        r(x, z) :- r(x, y), r(y, z).
    """
    with sempre.Database(program) as db:
        db.apply(insert={"e": [(1, 2), (2, 3), (3, 4)]})
        with mock.patch.object(Exchange, "memory", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            db.apply(insert={"e": [(4, 5)]}, delete={"e": [(1, 2)]})
        assert set(db["r"]) == {(1, 2), (2, 3), (3, 4), (1, 3), (2, 4), (1, 4)}
        db.apply(delete={"e": [(2, 3)]})
        assert set(db["r"]) == {(1, 2), (3, 4)}
        assert db.verify().ok


# ---------------------------------------------------------------------------------------------- the tests bite


def trust_everything() -> Patches:
    """Facts that may rest on themselves are trusted."""
    return [(Exchange, "_trust", lambda self, turn, certain: None)]


def forget_the_oracle() -> Patches:
    """Facts that lost their paths and hold from outside do not enter the backbone."""
    return [(Closing, "_entrust", lambda self, head, rows: None)]


def keep_own_facts_given() -> Patches:
    """What a module overdeletes itself stays in its backbone."""
    real = Closing.delete

    def delete(self: Any, told: Any, trusted: Any, holds: Any) -> Any:
        nothing = self._backend.empty(self.module.heads[0]).rows()
        with mock.patch.object(self._backend, "intersection", return_value=nothing):
            return real(self, told, trusted, holds)

    return [(Closing, "delete", delete)]


def never_rederive() -> Patches:
    return [(Closing, "rederive", lambda self, dead: {})]


def forget_what_is_gone_below() -> Patches:
    return [(Exchange, "hear_gone", lambda self: None)]


def forget_what_is_new_below() -> Patches:
    return [(Exchange, "hear_new", lambda self: None)]


def miss_a_column_of_the_matrix() -> Patches:
    real = Matrix._close

    def close(self: Any, rows: Any, nodes: Any, edges: Any) -> None:
        real(self, rows, nodes, edges)
        rows[:, 0] &= ~np.uint64(2)

    return [(Matrix, "_close", close)]


def keep_dissolved_components() -> Patches:
    return [(Components, "_relabeled", lambda self, members, edges: self._labels)]


def trust_more_than_holds() -> Patches:
    """DRed takes for certain whatever it is asked about."""
    return [(StratumUpdate, "certain", lambda self, name, rows: rows)]


def derive_nothing_again() -> Patches:
    """B/F takes what it could not prove for gone, though a module may still derive it."""
    return [(_Search, "derived_again", lambda self: {})]


def miss_trusted_paths() -> Patches:
    """Pairs with a path over doubtful edges count as proved."""
    return [(Matrix, "_proved", lambda self, nodes, wanted, trusted: wanted)]


def say_nothing_to_earlier_modules() -> Patches:
    return [(Exchange, "_pass_on", lambda self, turn, front, answer: None)]


@pytest.mark.parametrize(
    "plant",
    [
        trust_everything,
        forget_the_oracle,
        keep_own_facts_given,
        never_rederive,
        forget_what_is_gone_below,
        forget_what_is_new_below,
        miss_a_column_of_the_matrix,
        keep_dissolved_components,
        say_nothing_to_earlier_modules,
    ],
)
def test_a_planted_defect_is_found(plant: Callable[[], Patches]) -> None:
    with ExitStack() as stack:
        for owner, name, replacement in plant():
            stack.enter_context(mock.patch.object(owner, name, replacement))
        with pytest.raises((AssertionError, IndexError, ValueError, sempre.StateError)):
            check_all(range(75))


@pytest.mark.parametrize(
    ("plant", "strategy"),
    [(trust_more_than_holds, "dred"), (derive_nothing_again, "bfc"), (miss_trusted_paths, "bfc")],
)
def test_a_planted_defect_of_another_strategy_is_found(plant: Callable[[], Patches], strategy: str) -> None:
    with ExitStack() as stack:
        for owner, name, replacement in plant():
            stack.enter_context(mock.patch.object(owner, name, replacement))
        with pytest.raises((AssertionError, sempre.StateError)):
            check_all(range(75), strategy)


def check_all(seeds: range, strategy: str = "dredc") -> None:
    for seed in seeds:
        check(SEEDS["dredc"] + seed, strategy)
