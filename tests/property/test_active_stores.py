"""Active databases in stores equal the oracle after every opening: all cycles, whatever was given, and older epochs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.api.stores import vacuum
from sempre.kernel.chains import Chain
from sempre.lang.printer import to_text
from sempre.storage import memories
from sempre.storage.store import Store
from tests.budget import seeds
from tests.chains import Subject, check_chains
from tests.engine import lists, updated
from tests.faults.world import SMALL_PIECES
from tests.oracle.active import Given, own_facts, put, run
from tests.property.active_programs import random_case

pytestmark = pytest.mark.oracle
BATCH = 10


def check(seed: int, folder: Path) -> int:
    """The epochs of a case, opened anew in between and in the end; returns how many were compared."""
    rng = random.Random(seed)
    case = random_case(rng)
    text, path = to_text(case.program), folder / str(seed)
    explicit = own_facts(case.program)
    given: Given = {}
    history = []
    steps = [(0, (case.facts, {})), *((step.cycle, step.update) for step in case.script)]
    db = sempre.Database(text, store=path, cycles=200, limits=SMALL_PIECES)
    try:
        for cycle, (insert, delete) in steps:
            after, told = explicit, given
            if cycle:
                told = put(given, cycle, insert, delete)
            else:
                after = updated(explicit, insert, delete)
            try:
                db.apply(insert=lists(insert), delete=lists(delete), cycle=cycle)
            except sempre.DataError:  # it has no end, and has not happened
                pass
            else:
                explicit, given = after, told
                history.append((db.epoch, explicit, given))
            if rng.random() < 0.5:
                db.close()
                if rng.random() < 0.3:
                    vacuum(Store(path, limits=SMALL_PIECES), keep=3)
                db = sempre.Database.open(path, cycles=200, limits=SMALL_PIECES)
        where = f"\nseed {seed}\n{text}\n{steps}"
        for epoch, facts, told in history[-2:]:
            with db.at_epoch(epoch) as past:
                subject = Subject.of(past)
                check_chains(subject, subject.engine.timeline, run(case.program, facts, given=told), where)
                assert past.verify().ok, where
    finally:
        db.close()
    return len(history[-2:])


@pytest.mark.parametrize("start", range(0, 3 * BATCH, BATCH))
def test_random_cases(start: int, tmp_path: Path) -> None:
    assert sum(check(seed, tmp_path) for seed in range(start, start + BATCH)) > BATCH


@pytest.mark.slow
def test_thousands_of_random_cases(tmp_path: Path) -> None:
    for seed in seeds(50_000, 40):
        check(seed, tmp_path)


def lose_what_was_given(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memories.MemoryReader, "rows", lambda reader, kind, relation: {})


def lose_facts_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Chain, "_sorted_out", lambda chain, rows: chain)


def store_no_change_of_numbers(patch: pytest.MonkeyPatch) -> None:
    original = memories.change

    def change(before: Any, after: Any) -> Any:
        return ((name, block) for name, block in original(before, after) if not (name.startswith("added/") and before))

    patch.setattr(memories, "change", change)


@pytest.mark.parametrize("plant", [lose_what_was_given, lose_facts_that_are_gone, store_no_change_of_numbers])
def test_a_planted_defect_is_found(plant: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert callable(plant)
    plant(monkeypatch)
    for seed in range(60):
        try:
            check(seed, tmp_path)
        except Exception:  # noqa: BLE001  # a failed assertion, or whatever the defect leads to
            return
    pytest.fail("not found")
