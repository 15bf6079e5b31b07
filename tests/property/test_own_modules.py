"""Modules that users write equal the oracle under random changes, within the bounds of the framework."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.lang.parser import parse
from sempre.maintain.strategy_names import MODULAR_STRATEGIES
from tests.engine import Changes, check_epochs, truths
from tests.oracle.naive import Facts
from tests.oracle.values import Row

pytestmark = pytest.mark.oracle
EXAMPLE = Path(__file__).parents[2] / "examples" / "intervals"
# The module takes the joining rule alone, or the copying one too. Both ways, or neither, another rule feeds it.
FEEDBACK = "span(other, begin, end) :- span(room, begin, end), beside(room, other), end - begin >= 8."
ROOMS = 3
HOURS = 12


def example() -> Any:
    spec = importlib.util.spec_from_file_location("intervals", EXAMPLE / "intervals.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INTERVALS = example()
ROOMS_STATE: Any = INTERVALS.Rooms


def epochs_of(dice: random.Random) -> list[Changes]:
    """Bookings, some of which end before they begin, neighbors, and spans that are given."""
    have: dict[str, set[Row]] = {"booked": set(), "beside": set(), "span": set()}
    epochs: list[Changes] = []
    for epoch in range(5):
        insert: Facts = {}
        delete: Facts = {}
        for name, rows in have.items():
            number = {"booked": 9, "beside": 2, "span": 2}[name] if epoch == 0 else dice.choice((0, 1, 2))
            insert[name] = {row_of(name, dice) for _ in range(number)}
            delete[name] = {row for row in sorted(rows, key=repr) if dice.random() < 0.2}
            have[name] = (rows - delete[name]) | insert[name]
        epochs.append((insert, delete))
    return epochs


def row_of(name: str, dice: random.Random) -> Row:
    room, other = (f"room {dice.randrange(ROOMS)}" for _ in range(2))
    if name == "beside":
        return (room, other)
    begin = dice.randrange(HOURS)
    return (room, begin, begin + dice.choice((-1, 0, 1, 2, 3, 5, 9)))


def check(seed: int, strategy: str, module: Any = None) -> None:
    dice = random.Random(f"intervals {seed}")
    text = (EXAMPLE / "rooms.dl").read_text("utf-8")
    program = parse(text if dice.random() < 0.7 else text.replace(FEEDBACK, ""))
    epochs = epochs_of(dice)
    check_epochs(program, epochs, strategy, truths(program, epochs), modules=["auto", module or INTERVALS.Intervals()])


@pytest.mark.parametrize("strategy", MODULAR_STRATEGIES)
def test_intervals(strategy: str) -> None:
    for seed in range(12):
        check(seed, strategy)


class Trusting:
    """Takes doubtful facts for certain ones."""

    name = "trusting"
    rules = INTERVALS.Intervals.rules

    def start(self) -> Any:
        class State(ROOMS_STATE):  # type: ignore[misc]  # loaded from its file
            def remove(self, facts: Any, derived: Any, trusted: Any) -> Any:
                return super().remove(facts, derived, None)

        return State()


class Missing:
    """Does not look at what it derived itself."""

    name = "missing"
    rules = INTERVALS.Intervals.rules

    def start(self) -> Any:
        class State(ROOMS_STATE):  # type: ignore[misc]  # loaded from its file
            def add(self, facts: Any) -> Any:
                answer = super().add(facts)
                return {name: tuple(column[:-1] for column in columns) for name, columns in answer.items()}

        return State()


@pytest.mark.parametrize("module", [Trusting, Missing])
def test_a_planted_defect_is_found(module: Any) -> None:
    def check_all() -> None:
        for seed in range(60):
            check(seed, "dredc", module())

    with pytest.raises((AssertionError, sempre.StateError)):
        check_all()


def test_the_example_prints_what_it_measures(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.argv", ["intervals.py", "--bookings", "12"])
    INTERVALS.main()
    slow, fast = capsys.readouterr().out.splitlines()
    assert slow.startswith("rule by rule: ")
    assert fast.startswith("by the module: ")
    assert slow.split(" spans")[0].split()[-1] == fast.split(" spans")[0].split()[-1]
