"""Active rules on shards equal the oracle: any number of workers, any order of steps and messages."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sempre.active import shard, sharding
from sempre.active.gathering import given_parts
from sempre.active.timeline import AllGiven, Given
from sempre.lang.printer import to_text
from tests import shards
from tests.budget import seeds
from tests.chains import Subject, check_chains
from tests.engine import updated
from tests.oracle.active import Given as OracleGiven
from tests.oracle.active import own_facts, put, run
from tests.oracle.naive import Facts
from tests.property.active_programs import random_case
from tests.shards import Scheduler, encoded_input, timeline

pytestmark = pytest.mark.oracle
BATCH = 25
CASES = 100
HORIZON = 40


def check(seed: int, workers: int | None = None) -> str:
    """One case under one schedule: the input in portions, then updates while messages are under way."""
    rng = random.Random(seed)
    case = random_case(rng)
    workers = workers or rng.choice((1, 2, 2, 3, 5))
    subject = Subject(case.program)
    scheduler = Scheduler(subject, workers, rng)
    explicit = updated(own_facts(case.program), case.facts, {})
    given: OracleGiven = {}
    told: AllGiven = {}
    scheduler.mail += encoded_input(scheduler, explicit)
    where = f"\nseed {seed}, {workers} workers\n{to_text(case.program)}\n{explicit}"
    for step in case.script:
        scheduler.play(rng.choice((0, 3, 30)), HORIZON)
        insert, delete = step.update
        if step.cycle:
            given = put(given, step.cycle, insert, delete)
            back = [(to, replace(part, numbers=-part.numbers)) for to, part in given_parts(scheduler.sharding, told)]
            told = {at: _given(subject, both) for at, both in given.items() if any(map(any, map(dict.values, both)))}
            scheduler.mail += [(to, [part]) for to, part in [*back, *given_parts(scheduler.sharding, told)]]
        else:
            after = updated(explicit, insert, delete)
            flips = {name: explicit.get(name, set()) ^ after.get(name, set()) for name in {*explicit, *after}}
            scheduler.mail += encoded_input(scheduler, {name: rows for name, rows in flips.items() if rows})
            explicit = after
        where += f"\n{step}"
    scheduler.settle(HORIZON)
    expected = run(case.program, explicit, given=given)
    if not expected.ended or expected.cycles >= HORIZON:
        assert any(shard.is_busy for shard in scheduler.shards), where
        return "endless"
    assert not any(shard.is_busy for shard in scheduler.shards), where
    found = timeline(scheduler, told)
    assert found.cycles == expected.cycles, where
    check_chains(subject, found, expected, where)
    return "ended"


def test_who_waits_for_the_others_has_nothing_to_absorb(monkeypatch: pytest.MonkeyPatch) -> None:
    absorbed: list[int] = []
    original = shard.ShardRun.absorbing

    def absorbing(run: Any, late: Any) -> Any:
        absorbed.append(max(late))
        return original(run, late)

    monkeypatch.setattr(shard.ShardRun, "absorbing", absorbing)
    cycles = 0
    for seed in range(15):
        rng = random.Random(seed)
        case = random_case(rng)
        subject = Subject(case.program)
        scheduler = Scheduler(subject, rng.choice((2, 3)), rng)
        explicit = updated(own_facts(case.program), case.facts, {})
        scheduler.mail += encoded_input(scheduler, explicit)
        scheduler.settle_in_step(HORIZON)
        expected = run(case.program, explicit)
        if expected.ended and expected.cycles < HORIZON:
            check_chains(subject, timeline(scheduler, {}), expected, f"seed {seed}")
            cycles += expected.cycles
    assert cycles > 30
    assert set(absorbed) == {0}  # the input


def _given(subject: Subject, both: tuple[Facts, Facts]) -> dict[str, Given]:
    coming, going = both
    nothing: Facts = {name: set() for name in {*coming, *going}}
    added, deleted = (subject.encoded({**nothing, **facts}) for facts in both)
    return {name: Given(added[name], deleted[name]) for name in nothing}


@pytest.mark.parametrize("start", range(0, CASES, BATCH))
def test_random_schedules(start: int) -> None:
    outcomes = [check(seed) for seed in range(start, start + BATCH)]
    assert outcomes.count("ended") > BATCH / 2


@pytest.mark.slow
def test_thousands_of_random_schedules() -> None:
    for seed in seeds(70_000, 60):
        check(seed)


def forget_what_others_told_before(patch: pytest.MonkeyPatch) -> None:
    original = shard.ShardAbsorption._tell

    def tell(update: Any, at: int) -> Any:
        update._run.told.clear()
        found = original(update, at)
        return found if at in update._late else set()

    patch.setattr(shard.ShardAbsorption, "_tell", tell)


def decide_what_is_at_home_elsewhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shard.Outbox, "own", lambda out, name, counted: counted)


def tell_fragments_only_of_what_comes(patch: pytest.MonkeyPatch) -> None:
    original = shard.odd
    patch.setattr(shard, "odd", lambda parts: original(parts[:1]))


def absorb_only_the_first_cycle_of_what_came(patch: pytest.MonkeyPatch) -> None:
    original = shard.ShardRun.absorbing
    patch.setattr(shard.ShardRun, "absorbing", lambda run, late: original(run, {at: late[at] for at in list(late)[:1]}))


def keep_the_sides_of_a_fragment(patch: pytest.MonkeyPatch) -> None:
    original = shard.ShardAbsorption._turn

    def turn(update: Any, name: str, at: int) -> None:
        if name in update._turns:
            original(update, name, at)

    patch.setattr(shard.ShardAbsorption, "_turn", turn)


def lose_what_came_early(patch: pytest.MonkeyPatch) -> None:
    original = shard.ShardRun.decide
    patch.setattr(shard.ShardRun, "decide", lambda run, arrived: original(run, {}))


def let_every_worker_find_rules_without_variables(patch: pytest.MonkeyPatch) -> None:
    original = sharding.sharded

    def sharded(program: Any, workers: int) -> Any:
        found = original(program, workers)
        return replace(found, rules=(found.program.rules,) * workers)

    patch.setattr(shards, "sharded", sharded)


DEFECTS: list[Callable[[pytest.MonkeyPatch], None]] = [
    forget_what_others_told_before,
    decide_what_is_at_home_elsewhere,
    tell_fragments_only_of_what_comes,
    absorb_only_the_first_cycle_of_what_came,
    keep_the_sides_of_a_fragment,
    lose_what_came_early,
    let_every_worker_find_rules_without_variables,
]


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(150):
        try:
            check(seed)
        except Exception:  # noqa: BLE001  # a failed assertion, or whatever the defect leads to
            return
    pytest.fail("not found")
