"""A database that is closed and opened again, vacuumed, opened with another strategy: equals the oracle throughout."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.lang.printer import to_text
from sempre.storage.store import Store
from tests.budget import seeds
from tests.engine import FORGETTING, SMALL_PIECES, STRATEGIES, Truth, compare, lists, truths
from tests.inside import keeper_of
from tests.memories import check_memories
from tests.property.programs import Case, random_case

pytestmark = pytest.mark.oracle


def check_past(program: sempre.Program, store: Path | str, expected: list[Truth], rng: random.Random) -> None:
    """Any epoch that is still there reads as it was; `expected` has one for each."""
    with sempre.Database(program, store=store, limits=SMALL_PIECES) as db:
        epoch = rng.choice(keeper_of(db).store.epochs())
        with db.at_epoch(epoch) as past:
            compare(past, expected[epoch].facts, f"at epoch {epoch}")
            assert past.verify().ok


def check_case(
    case: Case,
    store: Path | str,
    rng: random.Random,
    strategies: tuple[str, ...],
    places: Sequence[Mapping[str, Any]] = ({},),
) -> int:
    """Every epoch in a database that is opened for it, or that goes on; returns how many counters were compared.

    `places` are options that say where strata are evaluated: some of them each time.
    """
    program = sempre.Program(to_text(case.program))
    epochs = [(case.facts, {}), *case.updates]
    expected = truths(case.program, epochs)
    # What each epoch of the store has: where vacuuming is an epoch, one more each time.
    have = expected[:1]
    compared = 0

    def opened() -> sempre.Database:
        strategy = rng.choice(strategies)
        return sempre.Database(program, store=store, strategy=strategy, limits=SMALL_PIECES, **rng.choice(places))

    db = opened()
    for number, (insert, delete) in enumerate(epochs, 1):
        db.apply(insert=lists(insert), delete=lists(delete))
        have.append(expected[number])
        if rng.random() < 0.7:
            db.close()
            if rng.random() < 0.3:
                vacuumed = Store(store, limits=SMALL_PIECES)
                vacuum(vacuumed, keep=rng.randint(1, 2))
                have += have[-1:] * (vacuumed.epochs()[-1] + 1 - len(have))
            if rng.random() < 0.3:
                check_past(program, store, have, rng)
            db = opened()
        where = f"after epoch {number}\n{to_text(case.program)}"
        assert db.epoch == len(have) - 1
        compare(db, expected[number].facts, where)
        compared += check_memories(db, expected[number], where)
        assert db.verify().ok, db.verify()
    db.close()
    check_files(store)
    return compared


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_strategy(strategy: str, tmp_path: Path) -> None:
    compared = 0
    for seed in range(6):
        rng = random.Random(f"{strategy} {seed}")
        compared += check_case(random_case(rng), tmp_path / str(seed) / "store", rng, (strategy,))
    assert (compared > 0) == (strategy not in FORGETTING)


@pytest.mark.parametrize("seed", range(20))
def test_any_strategy_after_any_other(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    check_case(random_case(rng), tmp_path / "store", rng, STRATEGIES)


@pytest.mark.parametrize("seed", range(8))
def test_any_strategy_in_a_store_that_a_url_names(seed: int) -> None:
    rng = random.Random(seed)
    check_case(random_case(rng), f"memory://oracle/store{seed}", rng, STRATEGIES)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 4_000, 1_000))
def test_many_more(first: int, tmp_path: Path) -> None:
    for seed in seeds(first, 80):
        rng = random.Random(seed)
        check_case(random_case(rng), tmp_path / str(seed) / "store", rng, STRATEGIES)
