"""An epoch happens or it does not: whatever stops it, the database is as before, and usable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest

import sempre
from sempre.backends.local import LocalBackend
from tests.engine import STRATEGIES, UNHURRIED
from tests.memories import everything

# Two strata that recurse, a negation, a sum and a shortest path: every way of maintaining has its turn.
PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), reach(y, z).
.decl apart(x: symbol, y: symbol)
apart(x, y) :- edge(x, _), edge(_, y), !reach(x, y).
.decl degree(x: symbol, n: number)
degree(x, count(y)) :- edge(x, y).
.decl hops(x: symbol, n: number)
hops("a", 0).
hops(y, min(n + 1)) :- hops(x, n), edge(x, y).
"""
EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e")]
CHANGE = {"insert": {"edge": [("e", "f"), ("d", "b")]}, "delete": {"edge": [("b", "c"), ("d", "e")]}}
RATIO = """
.decl part(x: symbol, n: number, d: number)
.decl share(x: symbol, q: number)
share(x, n / d) :- part(x, n, d).
.decl linked(x: symbol, q: number)
linked(x, q) :- share(x, q), q > 0.
"""
OPERATIONS = ("count", "derive", "difference", "union")


class Stopped(Exception):
    """Planted."""


@contextmanager
def stopping_at(call: int, error: type[BaseException]) -> Iterator[list[int]]:
    """Raises at the given call, from 0, of an operation of the backend; yields the number of calls so far."""
    calls = [0]

    def stopping(real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] == call + 1:
                raise error
            return real(*arguments, **options)

        return operation

    with ExitStack() as patches:
        for name in OPERATIONS:
            patches.enter_context(mock.patch.object(LocalBackend, name, stopping(getattr(LocalBackend, name))))
        yield calls


def filled(strategy: str) -> sempre.Database:
    """A database with counters: something was deleted already."""
    db = sempre.Database(PROGRAM, strategy=strategy, limits=UNHURRIED)
    db.apply(insert={"edge": [*EDGES, ("e", "a")]})
    db.apply(delete={"edge": [("e", "a")]})
    return db


@pytest.mark.parametrize("error", [Stopped, KeyboardInterrupt])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_epoch_stopped_anywhere_leaves_the_last_one(strategy: str, error: type[BaseException]) -> None:
    with filled(strategy) as db, filled(strategy) as other:
        before, epoch = everything(db), db.epoch
        other.apply(**CHANGE)
        expected, call = everything(other), 0
        while True:
            with stopping_at(call, error) as calls:
                try:
                    db.apply(**CHANGE)
                    break
                except error:
                    assert calls[0] == call + 1
            assert db.epoch == epoch
            assert everything(db) == before
            if call % 10 == 0:
                assert db.verify().ok
            call += 1
        assert call > 10
        assert everything(db) == expected
        assert db.epoch == epoch + 1
        assert db.verify().ok


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_interrupted_start_can_be_repeated(strategy: str) -> None:
    with sempre.Database(PROGRAM, strategy=strategy, limits=UNHURRIED) as db:
        with stopping_at(4, KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            db.apply(insert={"edge": EDGES})
        db.apply(insert={"edge": EDGES})
        with filled(strategy) as other:
            assert set(db["reach"]) == set(other["reach"])
        assert db.verify().ok


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_functor_that_fails_undoes_its_epoch(strategy: str) -> None:
    with sempre.Database(RATIO, strategy=strategy, limits=UNHURRIED) as db:
        db.apply(insert={"part": [("a", 4, 2), ("b", 9, 3)]})
        db.apply(delete={"part": [("b", 9, 3)]})
        before = everything(db)
        with pytest.raises(sempre.DataError, match="has no value"):
            db.apply(insert={"part": [("c", 8, 2), ("d", 1, 0)]}, delete={"part": [("a", 4, 2)]})
        assert everything(db) == before
        assert db.verify().ok
        db.apply(insert={"part": [("c", 8, 2)]}, delete={"part": [("a", 4, 2)]})
        assert set(db["linked"]) == {("c", 4)}
        assert db.verify().ok


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_transaction_that_raises_changes_nothing(strategy: str) -> None:
    with filled(strategy) as db:
        before, epoch = everything(db), db.epoch
        try:
            with db.transaction() as transaction:
                transaction.insert("edge", [("x", "y")])
                transaction.delete("edge", EDGES)
                raise Stopped
        except Stopped:
            assert transaction.changes is None
        assert everything(db) == before
        assert db.epoch == epoch


@pytest.mark.parametrize("rows", [[("x",)], [("x", "y", "z")], [("x", 1)], [("x", None)]])
def test_bad_rows_change_nothing(rows: list[Any]) -> None:
    with filled("dredc") as db:
        before = everything(db)
        with pytest.raises(sempre.DataError):
            db.apply(insert={"edge": [("p", "q")], "reach": rows}, delete={"edge": EDGES})
        assert everything(db) == before
        assert ("p", "q") not in db["edge"]


GUARDED = """
.decl part(x: symbol, n: number, d: number)
.decl zero(d: number)
.decl share(x: symbol, q: number)
share(x, n / d) :- part(x, n, d), !zero(d).
share(x, q / d) :- share(x, q), part(x, _, d), !zero(d).
"""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_holds_neither_before_nor_after_is_not_computed(strategy: str) -> None:
    """An update compares two states; a division that neither of them asks for must not fail."""
    with sempre.Database(GUARDED, strategy=strategy, limits=UNHURRIED) as db:
        db.apply(insert={"part": [("a", 4, 2), ("b", 9, 3)], "zero": [(7,)]})
        db.apply(insert={"part": [("a", 1, 0)], "zero": [(0,)]}, delete={"zero": [(7,)]})
        assert db.verify().ok
        before = everything(db)
        with pytest.raises(sempre.DataError, match="has no value"):
            db.apply(delete={"zero": [(0,)]})
        assert everything(db) == before
        db.apply(delete={"part": [("a", 1, 0), ("b", 9, 3)], "zero": [(0,)]}, insert={"part": [("b", 8, 2)]})
        assert set(db["share"]) == {("a", 2), ("a", 1), ("a", 0), ("b", 4), ("b", 2), ("b", 1), ("b", 0)}
        assert db.verify().ok
