"""The public API as the tests that compare with the oracle use it.

STRATEGIES lists what every comparison runs with; a new strategy is added here, and nowhere else. FORGETTING lists those
that remember nothing of a stratum from one epoch to the next: the others must have something to compare.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import sempre
from sempre.analysis.model import Kind
from sempre.files.records import parse_record
from sempre.lang import syntax as s
from sempre.lang.printer import to_text
from sempre.limits import Limits
from tests.inside import engine_of
from tests.memories import check_memories
from tests.oracle.counters import Counts, instances
from tests.oracle.counters import iterations as iterations_of
from tests.oracle.naive import Facts, explicit_facts, materialize
from tests.oracle.values import Row
from tests.rows import plain

STRATEGIES = ("recompute", "dred", "dredc", "bf", "bfc", "counting", "elastic", "ranked", "auto")
FORGETTING = ("recompute", "dred", "bf")
# No update is given up for taking long: what is tested must not depend on how busy the machine is.
UNHURRIED = Limits(time_moment=1e9, followed_moment=1e9)
# And segments and merges in a store, with a few rows already.
SMALL_PIECES = replace(UNHURRIED, shared_rows=4, merged_pieces=3)
Changes = tuple[Facts, Facts]  # (insert, delete); deletions come first


def database(program: s.ParsedProgram, strategy: str, limits: Limits = UNHURRIED, **options: Any) -> sempre.Database:
    """A new database for the program."""
    db = sempre.Database(_checked(to_text(program)), strategy=strategy, limits=limits, **options)
    engine_of(db).debug = True
    return db


@lru_cache(maxsize=512)
def _checked(text: str) -> sempre.Program:
    """A program; the same text is checked once, for whatever number of strategies."""
    return sempre.Program(text)


class Truth:
    """What the oracle has after an epoch; counters when they are asked for."""

    def __init__(self, program: s.ParsedProgram, explicit: Facts) -> None:
        self.program = program
        self.explicit = explicit
        self.facts = materialize(program, explicit)

    @cached_property
    def instances(self) -> Counts:
        return instances(self.program, self.explicit, self.facts)

    @cached_property
    def iterations(self) -> Counts:
        return iterations_of(self.program, self.explicit)


def truths(program: s.ParsedProgram, epochs: list[Changes]) -> list[Truth]:
    """The oracle at the start and after every epoch."""
    explicit = explicit_facts(program)
    found = [Truth(program, explicit)]
    for insert, delete in epochs:
        explicit = updated(explicit, insert, delete)
        found.append(Truth(program, explicit))
    return found


def check_epochs(
    program: s.ParsedProgram,
    epochs: list[Changes],
    strategy: str,
    expected: list[Truth] | None = None,
    verifying: bool = False,
    **options: Any,
) -> int:
    """Applies the epochs; after each, every relation, change set and counter must equal the oracle's.

    Returns how many counters of facts were compared. `expected` spares asking the oracle again, `verifying` asks the
    database as well whether it is right, `options` are those of the database.
    """
    expected = expected or truths(program, epochs)
    compared = 0
    with database(program, strategy, **options) as db:
        compare(db, expected[0].facts, "at the start")
        for number, (insert, delete) in enumerate(epochs, 1):
            before, after = expected[number - 1].facts, expected[number].facts
            changes = db.apply(insert=lists(insert), delete=lists(delete))
            where = f"after epoch {number}: insert {insert}, delete {delete}\n{to_text(program)}"
            compare(db, after, where)
            compared += check_memories(db, expected[number], where)
            assert not verifying or db.verify().ok, f"verify() {where}"
            for name in after:
                added, removed = (table_rows(db, name, side[name]) for side in (changes.added, changes.removed))
                assert added == after[name] - before[name], f"{name} added {where}"
                assert removed == before[name] - after[name], f"{name} removed {where}"
    return compared


def lists(facts: Facts) -> dict[str, list[Row]]:
    return {name: sorted(rows, key=repr) for name, rows in facts.items()}


def compare(db: sempre.Database, expected: Facts, where: str) -> None:
    for name, rows in expected.items():
        found = [tuple(map(plain, row)) for row in db[name]]
        assert set(found) == rows, f"{name} {where}"
        assert len(found) == len(rows), f"{name} has a row twice {where}"


def updated(explicit: Facts, insert: Facts, delete: Facts) -> Facts:
    """The explicit facts after an epoch."""
    names = {*explicit, *insert, *delete}
    empty: set[Row] = set()
    return {n: (explicit.get(n, empty) - delete.get(n, empty)) | insert.get(n, empty) for n in names}


def table_rows(db: sempre.Database, name: str, table: Any) -> set[Row]:
    """The rows of an Arrow table; records cross as their text."""
    types = db.program.checked.types
    columns = [
        [parse_record(text, type_, types) for text in column] if type_.kind is Kind.RECORD else column
        for type_, column in zip(db.program.relations[name].types, table.to_pydict().values(), strict=True)
    ]
    if not columns:
        return {()} if table.num_rows else set()
    return {tuple(map(plain, row)) for row in zip(*columns, strict=True)}
