"""What an aggregate reads is evaluated once for equal values of what it shares with the rule."""

from __future__ import annotations

from typing import Any

import pytest

import sempre
from sempre.backends import pipeline
from sempre.lang.parser import parse
from sempre.limits import Limits
from sempre.workers import nested
from tests.workers import database_on_workers

# Nothing is copied to all workers.
SPREAD = Limits(everywhere_rows=-1)
PROGRAM = """
.decl parent(p: number, x: number)
.decl below(p: number, x: number)
.decl size(p: number, n: number)
size(p, n) :- parent(p, _), n = count : { below(p, _) }.
.decl total(p: number, n: number)
total(p, n) :- parent(p, _), n = sum x : { below(_, x) }.
"""


def test_equal_rows_ask_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = pipeline._Nested.solutions

    def noticed(nested: Any, rows: Any, *rest: Any) -> Any:
        asked.append(rows.size)
        return real(nested, rows, *rest)

    monkeypatch.setattr(pipeline._Nested, "solutions", noticed)
    with sempre.Database(sempre.Program(PROGRAM), strategy="recompute") as db:
        db.materialise({"parent": [(p, x) for p in (1, 2) for x in range(500)], "below": [(1, x) for x in range(30)]})
        assert set(db["size"]) == {(1, 30), (2, 0)}
        assert set(db["total"]) == {(1, 435), (2, 435)}
    assert sorted(asked) == [1, 2]


def test_workers_ask_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = nested.Nested._start

    def noticed(nested: Any, rows: Any, weights: bool) -> Any:
        asked.append(rows.size)
        return real(nested, rows, weights)

    monkeypatch.setattr(nested.Nested, "_start", noticed)
    program = parse(PROGRAM.replace("below(p, _)", "below(p, x), below(_, x)"))
    with database_on_workers(program, 2, strategy="recompute", limits=SPREAD) as db:
        db.apply(insert={"parent": [(p, x) for p in (1, 2) for x in range(500)], "below": [(1, x) for x in range(30)]})
        assert set(db["size"]) == {(1, 30), (2, 0)}
        assert set(db["total"]) == {(1, 435), (2, 435)}
    assert asked
    assert max(asked) <= 2
