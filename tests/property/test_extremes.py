"""Random programs where the kernel is at its limits: tiny pieces, several threads, compiled loops, wide keys."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pytest

from sempre.kernel import compiled, layout
from sempre.kernel import trace as traces
from sempre.limits import Limits
from tests.engine import STRATEGIES, UNHURRIED, check_epochs
from tests.oracle.naive import explicit_facts, materialize
from tests.oracle.values import OracleError, Value
from tests.property.dice import Dice
from tests.property.programs import Case, random_case

pytestmark = pytest.mark.oracle
# Every strategy has cases of its own, so that together they see more of them.
CASES = 24
# Far apart, so that hardly any two columns fit one word together; some of them close together.
FAR = (0, 1, -(1 << 62), (1 << 62) + 3, -1, (1 << 61) - 7)


def check_all(cases: int, strategy: str, limits: Limits = UNHURRIED) -> int:
    """Compares so many cases with the oracle; returns how many have a meaning there."""
    checked = 0
    start = cases * STRATEGIES.index(strategy)
    for seed in range(start, start + cases):
        case = random_case(random.Random(seed))
        if has_meaning(case):
            check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=limits)
            checked += 1
    return checked


def has_meaning(case: Case) -> bool:
    """Whether the oracle can evaluate every epoch: far values overflow in some rules."""
    explicit = explicit_facts(case.program)
    try:
        for insert, delete in ((case.facts, {}), *case.updates):
            names = {*explicit, *insert, *delete}
            explicit = {n: (explicit.get(n, set()) - delete.get(n, set())) | insert.get(n, set()) for n in names}
            materialize(case.program, explicit)
    except OracleError:
        return False
    return True


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rows", [1, 3])
def test_joins_in_tiny_pieces(strategy: str, rows: int) -> None:
    limits = replace(UNHURRIED, piece_rows=rows, slice_rows=rows)
    assert check_all(CASES, strategy, limits) > CASES // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tiny_slices_on_several_threads(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert check_all(CASES, strategy, replace(UNHURRIED, slice_rows=2, parallel_rows=0)) > CASES // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_compiled_loops_for_everything(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load(wait=True)
    monkeypatch.setattr(compiled, "WORTH_ROWS", 0)
    monkeypatch.setattr("sempre.kernel.run.PROBES_PER_KEY", 0)
    assert check_all(CASES, strategy) > CASES // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("bits", [0, 4])
def test_wide_keys_for_everything(strategy: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "NARROW_BITS", bits)
    monkeypatch.setattr(layout, "_packings", {})
    assert check_all(CASES, strategy) > CASES // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_runs_that_are_never_merged(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MERGE_RATIO", 0)
    monkeypatch.setattr(traces, "SMALL_RUN", 0)
    monkeypatch.setattr(traces, "DEAD_SHARE", 0)
    assert check_all(CASES, strategy) > CASES // 2


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_values_far_apart(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Dice.value

    def far(dice: Dice, kind: str, size: int) -> Value:
        value: Any = original(dice, kind, size)
        if kind == "number":
            return FAR[value]
        return value + (1 << 63) if kind == "unsigned" and value % 2 else value

    monkeypatch.setattr(Dice, "value", far)
    assert check_all(2 * CASES, strategy) > CASES
