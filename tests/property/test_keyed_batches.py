"""Batches of rows with keys: a relation is what a dictionary would be, whatever comes before and after."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.api import keyed
from sempre.diagnostics import DataError
from sempre.files.columns import table_of
from sempre.spark.batches import Batch
from sempre.spark.operations import Operations

RULES = """
.decl price(item: symbol, shop: symbol, cost: number)
.decl free(item: symbol)
.decl least(item: symbol, cost: number)
least(i, c) :- price(i, _, _), c = min k : { price(i, _, k) }.
.decl seen(item: symbol, cost: number)
seen(i, c) :- price(i, _, c).
"""
Key = tuple[str, str]
Step = tuple[int, bool, Key, int]  # place in the order, whether it inserts, the key, and the cost


def batch_of(db: sempre.Database, steps: list[Step], key: tuple[str, ...] = ("item", "shop")) -> Batch:
    relation = db.program.checked.relations["price"]
    columns: list[list[Any]] = [[k[0] for *_, k, _ in steps], [k[1] for *_, k, _ in steps], [s[3] for s in steps]]
    inserts = np.array([insert for _, insert, *_ in steps], np.bool_)
    ranks = np.array([rank for rank, *_ in steps], np.int64)
    return Batch(len(steps), {"price": Operations(table_of(relation, columns), inserts, ranks, key)})


def take(db: sempre.Database, steps: list[Step], number: int) -> None:
    db._take_batch(batch_of(db, steps), ("stream", number), lambda epoch, changes: None)


def applied(have: dict[Key, int], steps: list[Step]) -> None:
    for _, insert, key, cost in sorted(steps, key=lambda step: (step[0], step[1])):
        if insert:
            have[key] = cost
        else:
            have.pop(key, None)


def run(rng: random.Random) -> None:
    have: dict[Key, int] = {}
    with sempre.Database(RULES) as db:
        db.epoch  # noqa: B018  # materialized, as by `maintain`
        for number in range(6):
            ranks = rng.sample(range(40), rng.randrange(7))
            steps = [
                (rank, rng.random() < 0.7, (rng.choice("abc"), rng.choice("xy")), rng.randrange(4)) for rank in ranks
            ]
            take(db, steps, number)
            applied(have, steps)
            assert {(i, s): c for i, s, c in db["price"]} == have
            assert len(db["price"]) == len(have)
            assert set(db["seen"]) == {(i, c) for (i, _), c in have.items()}
            if rng.random() < 0.3:  # something else changes the relation, too, and breaks the key
                extra = (rng.choice("abc"), rng.choice("xy"), rng.randrange(4, 9))
                db.apply(insert={"price": [extra]})
                key = extra[:2]
                take(db, [(0, True, key, 1)], 100 + number)
                have[key] = 1
                assert {(i, s): c for i, s, c in db["price"]} == have
                assert len(db["price"]) == len(have)
        assert db.verify().ok


def many(seeds: int) -> None:
    for seed in range(seeds):
        run(random.Random(seed))


def test_a_relation_with_keys_is_a_dictionary() -> None:
    many(15)


def test_facts_that_are_not_replaced_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed, "facts_that_go", lambda backend, name, there, rows: ([there[0][:0]] * len(there), 0))
    with pytest.raises(AssertionError):
        many(15)


def test_rows_that_only_chance_could_tell_apart_are_refused() -> None:
    with sempre.Database(RULES) as db:
        db.epoch  # noqa: B018
        twice = [(1, True, ("a", "x"), 1), (1, True, ("a", "x"), 2)]
        with pytest.raises(DataError, match=r"E667.*several rows of `price` with one key"):
            take(db, twice, 0)
        assert not len(db["price"])
        take(db, [(1, True, ("a", "x"), 1)] * 2, 0)
        take(db, [*twice, (2, True, ("a", "x"), 3)], 1)
        take(db, [*twice, (2, False, ("a", "x"), 0), (1, True, ("b", "x"), 4)], 2)
        assert set(db["price"]) == {("b", "x", 4)}
