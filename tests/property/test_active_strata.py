"""Stratified programs through chains, with (stratum, cycle) as the iteration: other strategies have the same facts."""

from __future__ import annotations

import random

import pytest

from sempre.active.active_engine import ActiveEngine
from sempre.active.timeline import by_stratum
from sempre.lang.printer import to_text
from tests.budget import seeds as spending
from tests.chains import Subject
from tests.engine import STRATEGIES, compare, database, lists, updated
from tests.oracle.naive import explicit_facts
from tests.property.programs import Case, random_case

pytestmark = pytest.mark.oracle
BATCH = 15


def check(case: Case, rng: random.Random, strategy: str) -> bool:
    """All updates, each after a few cycles of the run so far; False if the program has aggregates in heads."""
    subject = Subject(case.program)
    program = subject.program
    if any(relation.aggregate for relation in program.relations.values()):
        return False
    subject.engine = ActiveEngine(program, subject.engine.backend, subject.decoder, phases=by_stratum(program))
    explicit = updated(explicit_facts(case.program), case.facts, {})
    epoch = subject.engine.begin()
    epoch.absorb(subject.encoded(explicit), {})
    with database(case.program, strategy) as db:
        db.apply(insert=lists(case.facts))
        for insert, delete in case.updates:
            for _ in range(rng.choice((0, 1, 2, 3, 100))):
                epoch.advance()
            epoch.absorb(subject.encoded(insert), subject.encoded(delete))
            db.apply(insert=lists(insert), delete=lists(delete))
        while epoch.advance():
            pass
        subject.engine.commit(epoch)
        found = {
            name: set(subject.decoded(name, version.rows()))
            for name, version in subject.engine.snapshot.versions.items()
        }
        compare(db, found, f"by {strategy}\n{to_text(case.program)}\n{case.facts} {case.updates}")
    return True


@pytest.mark.parametrize("start", range(0, 6 * BATCH, BATCH))
def test_random_cases(start: int) -> None:
    seeds = range(start, start + BATCH)
    rngs = [(random.Random(7_000_000 + seed), STRATEGIES[seed % len(STRATEGIES)]) for seed in seeds]
    assert sum(check(random_case(rng), rng, strategy) for rng, strategy in rngs) > BATCH / 2


@pytest.mark.slow
def test_thousands_of_random_cases() -> None:
    for seed in spending(8_000_000, 80):
        rng = random.Random(seed)
        check(random_case(rng), rng, STRATEGIES[seed % len(STRATEGIES)])
