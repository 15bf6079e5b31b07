"""However the same changes are cut into epochs, the state they end in is the same: facts and counters."""

from __future__ import annotations

import random

import pytest

import sempre
from tests.engine import STRATEGIES, database
from tests.memories import everything, same_state
from tests.oracle.values import Row
from tests.property.programs import Case, random_case

Operation = tuple[bool, str, Row]  # insert or delete, relation, row


def operations(case: Case) -> list[Operation]:
    """All changes of a case, one fact after the other."""
    found = []
    for insert, delete in [(case.facts, {}), *case.updates]:
        for is_insert, facts in ((False, delete), (True, insert)):
            found += [(is_insert, name, row) for name in sorted(facts) for row in sorted(facts[name], key=repr)]
    return found


def cut(changes: list[Operation], rng: random.Random, epochs: int) -> list[list[Operation]]:
    """The changes in `epochs` pieces, some of them empty."""
    places = sorted(rng.randint(0, len(changes)) for _ in range(epochs - 1))
    return [changes[a:b] for a, b in zip([0, *places], [*places, len(changes)], strict=True)]


def apply(db: sempre.Database, epochs: list[list[Operation]]) -> sempre.Database:
    for epoch in epochs:
        with db.transaction() as transaction:
            for insert, name, row in epoch:
                (transaction.insert if insert else transaction.delete)(name, [row])
    return db


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(8))
def test_any_split_ends_in_the_same_state(seed: int, strategy: str) -> None:
    rng = random.Random(seed)
    case = random_case(random.Random(9_000 + 10 * seed + STRATEGIES.index(strategy)))
    changes = operations(case)
    with database(case.program, strategy) as whole:
        apply(whole, [changes])
        for epochs in (2, 4, 9):
            with database(case.program, strategy) as db:
                same_state(apply(db, cut(changes, rng, epochs)), whole)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_changes_that_undo_each_other_leave_nothing(strategy: str) -> None:
    """Everything inserted and deleted again, in another order, is as if it had never been."""
    rng = random.Random(1)
    case = random_case(random.Random(31))
    with database(case.program, strategy) as db:
        before = everything(db)
        rows = [(name, row) for name in sorted(case.facts) for row in sorted(case.facts[name], key=repr)]
        apply(db, cut([(True, *row) for row in rows], rng, 3))
        rng.shuffle(rows)
        apply(db, cut([(False, *row) for row in rows], rng, 5))
        after = everything(db)
    for key in before.keys() & after.keys():
        assert before[key] == after[key], key or "facts"
