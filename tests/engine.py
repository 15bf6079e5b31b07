"""The public API as the tests that compare with the oracle use it.

STRATEGIES lists what every comparison runs with; a new strategy is added here, and nowhere else.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from sempre.lang import syntax as s
from sempre.lang.printer import to_text
from tests.oracle.naive import Facts, explicit_facts, materialize
from tests.oracle.values import Row, Value, canonical

STRATEGIES = ("recompute",)
Changes = tuple[Facts, Facts]  # (insert, delete); deletions come first


def database(program: s.Program, strategy: str) -> Any:
    """A new database for the program; skips the test where there is no engine."""
    sempre = importlib.import_module("sempre")
    if not hasattr(sempre, "Database"):
        pytest.skip("there is no engine yet")
    return sempre.Database(sempre.Program(to_text(program)), strategy=strategy)


def check_epochs(program: s.Program, epochs: list[Changes], strategy: str) -> None:
    """Applies the epochs; after each, every relation and every change set must equal the oracle's."""
    with database(program, strategy) as db:
        explicit = explicit_facts(program)
        before = materialize(program, explicit)
        compare(db, before, "at the start")
        for number, (insert, delete) in enumerate(epochs, 1):
            explicit = updated(explicit, insert, delete)
            after = materialize(program, explicit)
            changes = db.apply(insert=lists(insert), delete=lists(delete))
            where = f"after epoch {number}: insert {insert}, delete {delete}\n{to_text(program)}"
            compare(db, after, where)
            for name in after:
                assert table_rows(changes.added[name]) == after[name] - before[name], f"{name} added {where}"
                assert table_rows(changes.removed[name]) == before[name] - after[name], f"{name} removed {where}"
            before = after


def lists(facts: Facts) -> dict[str, list[Row]]:
    return {name: sorted(rows, key=repr) for name, rows in facts.items()}


def compare(db: Any, expected: Facts, where: str) -> None:
    for name, rows in expected.items():
        found = [tuple(map(plain, row)) for row in db[name]]
        assert set(found) == rows, f"{name} {where}"
        assert len(found) == len(rows), f"{name} has a row twice {where}"


def updated(explicit: Facts, insert: Facts, delete: Facts) -> Facts:
    """The explicit facts after an epoch."""
    names = {*explicit, *insert, *delete}
    empty: set[Row] = set()
    return {n: (explicit.get(n, empty) - delete.get(n, empty)) | insert.get(n, empty) for n in names}


def table_rows(table: Any) -> set[Row]:
    """The rows of an Arrow table."""
    return {tuple(map(plain, row.values())) for row in table.to_pylist()}


def plain(value: Any) -> Value:
    """A value as the oracle has it: records are tuples, NaN is one."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return canonical(value.item() if hasattr(value, "item") else value)
