"""What strategies remember: each kind says itself what it consists of, and comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import sempre
from sempre.api.stores import vacuum
from sempre.engine import standing_work_at
from sempre.maintain.auto import ChosenStrategy
from sempre.maintain.memory import described
from sempre.maintain.registry import STRATEGIES
from sempre.maintain.strategy import DeferredMemory
from sempre.maintain.strategy_names import STRATEGY_NAMES
from sempre.storage.memories import KINDS, LEADING, parts
from tests.engine import STRATEGIES as COMPARED
from tests.engine import UNHURRIED
from tests.inside import engine_of
from tests.memories import everything

RULES = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


def test_there_is_one_list_of_strategies() -> None:
    assert set(STRATEGIES) == set(STRATEGY_NAMES) == set(COMPARED)


def test_kinds_of_memories_and_of_sets_are_told_apart_by_their_names() -> None:
    assert len(LEADING) == sum(len(memory.sets) for memory in KINDS.values())
    assert not LEADING.keys() & {"facts", "explicit", "records", "symbols"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_memory_is_described_and_comes_back(strategy: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with sempre.Database(RULES, strategy=strategy, store=store, modules="off", limits=UNHURRIED) as db:
        db.apply(insert={"edge": [("x", "y"), ("y", "z"), ("a", "b"), ("b", "c"), ("c", "a")]})
        db.apply(delete={"edge": [("c", "a"), ("x", "y"), ("y", "z")]})
        db.apply(insert={"edge": [("c", "d")]})
        state = everything(db)
    for vacuumed in (False, True):
        if vacuumed:  # the symbols are numbered anew, in memories too
            vacuum(store)
        with sempre.Database(RULES, store=store, strategy=strategy, modules="off") as again:
            assert everything(again) == state
            for index, memory in engine_of(db).snapshot.memories.items():
                restored = DeferredMemory.settled(engine_of(again).snapshot.memories[index])
                assert described(restored, strategy) == described(memory, strategy)
                inner = memory.memory if isinstance(memory, ChosenStrategy) else memory
                kinds = {name.partition("/")[0] for name in parts(memory)}
                assert kinds <= (set() if inner is None else inner.sets.keys())
            assert again.verify().ok


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_forgotten_is_recalled(strategy: str) -> None:
    """A strategy goes on from facts alone: by itself if it is forgetful, else with what it recalls."""
    with sempre.Database(RULES, strategy="recompute", modules="off", limits=UNHURRIED) as db:
        db.apply(insert={"edge": [("a", "b"), ("b", "c"), ("c", "a")]})
        engine = engine_of(db)
        engine.strategy = strategy
        stratum = engine.program.strata[-1]
        recalled = STRATEGIES[strategy].recall(lambda: standing_work_at(engine, engine.snapshot, stratum), stratum)
        assert recalled is None or not STRATEGIES[strategy].forgetful
        engine._snapshot = replace(engine.snapshot, memories={stratum.index: recalled})
        db.apply(delete={"edge": [("c", "a")]})
        assert sorted(db["reach"]) == [("a", "b"), ("a", "c"), ("b", "c")]
        assert db.verify().ok
