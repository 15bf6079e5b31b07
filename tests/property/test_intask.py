"""Strata closed share by share, as tasks do it, are what they are as a whole; without Spark."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

import sempre
from sempre.spark import intask
from sempre.spark.intask import Closer, packed
from sempre.spark.shares import Split, decide
from tests.engine import database
from tests.property.programs import random_case

PARTS = 3
CASES = 150

PROGRAMS = {
    "right linear": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol)
        p(x, y) :- e(x, y).
        p(x, z) :- p(x, y), e(y, z).""",
    "left linear": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol)
        p(x, y) :- e(x, y), x != "a".
        p(x, z) :- e(x, y), p(y, z).""",
    "transitive": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol)
        p("a", "zz").
        p(x, y) :- e(x, y).
        p(x, z) :- p(x, y), p(y, z).""",
    "mutual": """
        .decl e(x: symbol, y: symbol)
        .decl odd(x: symbol, y: symbol)
        .decl even(y: symbol, x: symbol)
        odd(x, y) :- e(x, y).
        even(z, x) :- odd(x, y), e(y, z).
        odd(x, z) :- even(y, x), e(y, z).""",
    "new symbols": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol)
        p(cat(x, y), y) :- e(x, y).
        p(x, z) :- p(x, y), e(y, z).""",
    "with negation": """
        .decl e(x: symbol, y: symbol)
        .decl stop(x: symbol)
        stop(x) :- e(x, x).
        .decl p(x: symbol, y: symbol)
        p(x, y) :- e(x, y).
        p(x, z) :- p(x, y), e(y, z), !stop(y).""",
    "shortest": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol, d: number)
        p(x, y, min(1)) :- e(x, y).
        p(x, z, min(d + 1)) :- p(x, y, d), e(y, z).""",
}


def explicit(db: Any, name: str) -> pa.Table:
    rows = db._engine.snapshot.explicit[name].rows()
    return db._decoder.table(db.program.relations[name], rows.columns(), len(rows))


def inputs_of(db: Any, split: Split, own: tuple[str, ...]) -> dict[str, pa.Table]:
    return {name: explicit(db, name) if name in own else db[name].to_arrow() for name in split.copied}


def rows_of(batches: Any) -> list[tuple[Any, ...]]:
    """The rows, as values that compare: NaN equals itself."""
    return [tuple(repr(value) for value in row.values()) for batch in batches for row in batch.to_pylist()]


def check_shares(split: Split, inputs: Mapping[str, pa.Table], db: Any, own: tuple[str, ...]) -> None:
    """Every share in a process of its own: codes differ from one to the next."""
    copies = packed(inputs)
    other = dict(reversed(copies.items()))
    for name in own:
        found: list[tuple[Any, ...]] = []
        for share in range(split.parts):
            found += rows_of(Closer(split, other if share % 2 else copies).share(name, share))
        wanted = rows_of([intask._for_spark(db[name].to_arrow())])
        assert len(found) == len(set(found))
        assert set(found) == set(wanted)


def check_strata(db: Any) -> list[Split]:
    program = db._engine.program
    found = []
    for stratum in program.strata:
        split = decide(program, stratum, {}, PARTS)
        if split is not None:
            check_shares(split, inputs_of(db, split, stratum.relations), db, stratum.relations)
            found.append(split)
    return found


def test_random_cases() -> None:
    splits: list[Split] = []
    for seed in range(CASES):
        case = random_case(random.Random(7_000_000 + seed))
        with database(case.program, "recompute") as db:
            db.apply(insert=case.facts)
            splits += check_strata(db)
    assert sum(bool(split.keys) for split in splits) > 10
    assert sum(not split.keys for split in splits) > 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_on_random_graphs(name: str) -> None:
    rng = random.Random(name)
    for size in (0, 1, 8, 40):
        nodes = [chr(ord("a") + at) for at in range(12)]
        with sempre.Database(PROGRAMS[name], strategy="recompute") as db:
            db.apply(insert={"e": [(rng.choice(nodes), rng.choice(nodes)) for _ in range(size)]})
            (split,) = check_strata(db)
            assert split.keys
            assert split.parts == PARTS


@pytest.mark.parametrize("name", ["right linear", "left linear", "with negation", "shortest"])
def test_first_facts_from_outside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are too many to copy, each task gets its own."""
    monkeypatch.setattr("sempre.spark.shares.COPIED_ROWS", 50)
    rng = random.Random(name)
    nodes = [chr(ord("a") + at) for at in range(12)]
    with sempre.Database(PROGRAMS[name], strategy="recompute") as db:
        db.apply(insert={"e": [(rng.choice(nodes), rng.choice(nodes)) for _ in range(30)]})
        program = db._engine.program
        stratum = next(stratum for stratum in program.strata if stratum.recursive)
        split = decide(program, stratum, {"p": 100, "e": 30}, PARTS)
        assert split is not None
        assert split.seeded
        copies = packed({name: db[name].to_arrow() for name in split.copied})
        facts = [row for row in db["p"] if name != "shortest" or row[2] == 1]
        rng.shuffle(facts)
        seeds = facts[: len(facts) // 2] + [row for row in facts if tuple(row[:2]) in db["e"]]
        seeds = [row for row in seeds if tuple(row[:2]) in db["e"] or name != "shortest"]
        (at, *_) = split.keys["p"]
        found: list[tuple[Any, ...]] = []
        for value in nodes:
            mine = [row for row in seeds if row[at] == value]
            if mine:
                table = pa.Table.from_arrays(
                    [pa.array(column) for column in zip(*mine, strict=True)], names=db.program.relations["p"].columns
                )
                found += rows_of(Closer(split, copies).from_seeds("p", table))
        assert len(found) == len(set(found))
        assert set(found) == set(rows_of([db["p"].to_arrow()]))
