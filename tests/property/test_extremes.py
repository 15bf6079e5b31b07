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
from tests import budget
from tests.engine import STRATEGIES, UNHURRIED, check_epochs, truths
from tests.oracle.values import OracleError, Value
from tests.property.dice import Dice
from tests.property.programs import random_case

pytestmark = pytest.mark.oracle
# Every strategy has cases of its own, so that together they see more of them; the slow tests go on from there.
CASES = 8
SLOW_SECONDS = 5
# Far apart, so that hardly any two columns fit one word together; some of them close together.
FAR = (0, 1, -(1 << 62), (1 << 62) + 3, -1, (1 << 61) - 7)


SEEDS = pytest.mark.parametrize(
    "many", [pytest.param(False, id="few"), pytest.param(True, id="many", marks=pytest.mark.slow)]
)
ALL = pytest.mark.parametrize("strategy", STRATEGIES)


def check_all(many: bool, strategy: str, limits: Limits = UNHURRIED) -> None:
    """Compares cases with the oracle; most of them must have a meaning there."""
    tried = checked = 0
    for seed in budget.seeds(CASES, SLOW_SECONDS) if many else range(CASES):
        tried += 1
        case = random_case(random.Random(seed + 100_000 * STRATEGIES.index(strategy)))
        epochs = [(case.facts, {}), *case.updates]
        try:
            expected = truths(case.program, epochs)
        except OracleError:  # far values overflow in some rules
            continue
        check_epochs(case.program, epochs, strategy, expected, limits=limits)
        checked += 1
    assert checked > tried // 2 or tried < CASES


@SEEDS
@ALL
@pytest.mark.parametrize("rows", [1, 3])
def test_joins_in_tiny_pieces(strategy: str, many: bool, rows: int) -> None:
    limits = replace(UNHURRIED, piece_rows=rows, slice_rows=rows)
    check_all(many, strategy, limits)


@SEEDS
@ALL
def test_tiny_slices_on_several_threads(strategy: str, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    check_all(many, strategy, replace(UNHURRIED, slice_rows=2, parallel_rows=0))


@SEEDS
@ALL
def test_compiled_loops_for_everything(strategy: str, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load(wait=True)
    monkeypatch.setattr(compiled, "WORTH_ROWS", 0)
    monkeypatch.setattr("sempre.kernel.run.PROBES_PER_KEY", 0)
    check_all(many, strategy)


@SEEDS
@ALL
@pytest.mark.parametrize("bits", [0, 4])
def test_wide_keys_for_everything(strategy: str, many: bool, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "NARROW_BITS", bits)
    monkeypatch.setattr(layout, "_packings", {})
    check_all(many, strategy)


@SEEDS
@ALL
def test_runs_that_are_never_merged(strategy: str, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "MERGE_RATIO", 0)
    monkeypatch.setattr(traces, "SMALL_RUN", 0)
    monkeypatch.setattr(traces, "DEAD_SHARE", 0)
    check_all(many, strategy)


@SEEDS
@ALL
def test_values_far_apart(strategy: str, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Dice.value

    def far(dice: Dice, kind: str, size: int) -> Value:
        value: Any = original(dice, kind, size)
        if kind == "number":
            return FAR[value]
        return value + (1 << 63) if kind == "unsigned" and value % 2 else value

    monkeypatch.setattr(Dice, "value", far)
    check_all(many, strategy)
