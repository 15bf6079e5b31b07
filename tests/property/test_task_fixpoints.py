"""Strata closed share by share, as tasks do it, are what they are as a whole; without Spark."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sempre
from sempre.analysis.model import Kind
from sempre.limits import Limits
from sempre.spark.cluster import task_fixpoints
from sempre.spark.cluster.column_types import kinds_of, table_of
from sempre.spark.cluster.shares import Split, decide
from sempre.spark.cluster.task_fixpoints import Closer, Pass
from tests.engine import database
from tests.inside import engine_of
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
    "equivalence": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol) eqrel
        p(x, y) :- e(x, y), x != "b".""",
    "regular chains": """
        .decl e(x: symbol, y: symbol)
        .decl f(x: symbol, y: symbol)
        f(x, y) :- e(y, x), x != y.
        .decl p(x: symbol, y: symbol)
        p(x, y) :- f(x, y).
        p(x, w) :- p(x, y), e(y, z), f(z, w).
        p(x, z) :- e(x, y), p(y, z).""",
    "several heads": """
        .decl e(x: symbol, y: symbol)
        .decl odd(x: symbol, y: symbol)
        .decl even(x: symbol, y: symbol)
        odd(x, y) :- e(x, y).
        even(x, z) :- odd(x, y), e(y, z).
        odd(x, z) :- even(x, y), e(y, z).""",
    "over a closure": """
        .decl e(x: symbol, y: symbol)
        .decl c(x: symbol, y: symbol)
        c(x, y) :- e(x, y).
        c(x, z) :- c(x, y), c(y, z).
        .decl p(x: symbol, y: symbol)
        p(x, y) :- e(y, x).
        p(x, z) :- p(x, y), c(y, z).""",
    "pairs of pairs": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol, z: symbol, w: symbol)
        p(x, y, y, x) :- e(x, y).
        p(x, y, z, w) :- e(x, y), e(y, z), e(z, w).
        p(a, b, e, f) :- p(a, b, c, d), p(c, d, e, f).""",
    "three columns": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol, from: symbol)
        p(x, y, x) :- e(x, y).
        p(y, z, from) :- p(x, y, from), e(y, z).""",
    "shortest": """
        .decl e(x: symbol, y: symbol)
        .decl p(x: symbol, y: symbol, d: number)
        p(x, y, min(1)) :- e(x, y).
        p(x, z, min(d + 1)) :- p(x, y, d), e(y, z).""",
}

# What the search from first values is for.
PATHS = {"right linear", "left linear", "transitive", "several heads", "new symbols", "equivalence", "regular chains"}
PATHS |= {"over a closure"}


def plain_table(db: sempre.Database, name: str, rows: Any) -> pa.Table:
    """Rows as tasks read them."""
    relation = db.program.relations[name]
    kinds = kinds_of(relation, db.program.checked.types)
    return table_of(db._backend.values, rows.columns(), len(rows), kinds, relation.arity)


def inputs_of(db: sempre.Database, split: Split, own: tuple[str, ...]) -> dict[str, pa.Table]:
    snapshot = engine_of(db).snapshot
    versions = {n: (snapshot.explicit if n in own else snapshot.versions)[n] for n in split.copied}
    return {name: plain_table(db, name, version.rows()) for name, version in versions.items()}


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows, as values that compare: NaN equals itself."""
    return [tuple(repr(value) for value in row.values()) for row in table.to_pylist()]


def rows_by_name(found: Iterable[tuple[str, pa.Table]]) -> dict[str, list[tuple[Any, ...]]]:
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for name, table in found:
        rows.setdefault(name, []).extend(rows_of(table))
    return rows


def check_shares(split: Split, inputs: Mapping[str, pa.Table], db: sempre.Database, own: tuple[str, ...]) -> None:
    """Every share in a process of its own: codes differ from one to the next."""
    other = dict(reversed(list(inputs.items())))
    shares = [Closer(split, other if share % 2 else inputs).share(share) for share in range(split.parts)]
    found = rows_by_name(chain.from_iterable(shares))
    for name in own:
        wanted = rows_of(plain_table(db, name, engine_of(db).version(name).rows()))
        mine = found.get(name, [])
        assert len(mine) == len(set(mine))
        assert set(mine) == set(wanted)


def check_strata(db: sempre.Database) -> list[Split]:
    program = engine_of(db).program
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
    assert sum(split.module is not None for split in splits) > 5
    assert sum(bool(split.keys) for split in splits) > 5
    assert sum(split.parts == 1 for split in splits) > 5
    relations = [relation for split in splits for relation in split.program.relations.values()]
    assert any(Kind.RECORD in relation.kinds for relation in relations)


def check_pass(
    split: Split, inputs: Mapping[str, pa.Table], db: sempre.Database, own: tuple[str, ...], at: Path
) -> None:
    """All shares as tasks of one worker do them, which has done those of other passes before, in the same folders."""
    copies, targets = ({name: at / kind / name for name in names} for kind, names in (("in", inputs), ("out", own)))
    for folder in (*copies.values(), *targets.values()):
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            left.unlink()
    for name, table in inputs.items():
        pq.write_table(table, copies[name] / "rows.parquet")
    run = Pass(split, {n: str(p) for n, p in copies.items()}, {n: str(p) for n, p in targets.items()})
    for share in range(split.parts):
        task: Pass = pickle.loads(pickle.dumps(run))
        batch = pa.RecordBatch.from_pydict({"id": [share]})
        for report in task(iter([batch])):
            assert sum(report.column("rows").to_pylist()) >= 0
    for name in own:
        found = [row for file in targets[name].iterdir() for row in rows_of(pq.read_table(file))]
        wanted = rows_of(plain_table(db, name, engine_of(db).version(name).rows()))
        assert sorted(found) == sorted(wanted)


def first_wrong_pass(folder: Path) -> int | None:
    """The first random program that comes out wrong when one worker closes one after the other."""
    for seed in range(CASES):
        case = random_case(random.Random(7_000_000 + seed))
        with database(case.program, "recompute") as db:
            db.apply(insert=case.facts)
            program = engine_of(db).program
            for stratum in program.strata:
                split = decide(program, stratum, {}, PARTS)
                if split is not None and not split.seeded:
                    inputs = inputs_of(db, split, stratum.relations)
                    try:
                        check_pass(split, inputs, db, stratum.relations, folder)
                    except (AssertionError, KeyError):
                        return seed
    return None


def test_one_worker_does_many_passes(tmp_path: Path) -> None:
    assert first_wrong_pass(tmp_path) is None


def test_a_worker_that_mistakes_one_pass_for_another_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Closer] = {}

    def by_names(run: Pass) -> Closer:
        token = repr((run.split.reason, run.split.stratum.relations, sorted(run.copies.items())))
        if token not in kept:
            kept.clear()
            kept[token] = Closer(run.split, {n: pq.read_table(p, partitioning=None) for n, p in run.copies.items()})
        return kept[token]

    monkeypatch.setattr(task_fixpoints, "closer_for", by_names)
    assert first_wrong_pass(tmp_path) is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_on_random_graphs(name: str) -> None:
    rng = random.Random(name)
    for size in (0, 1, 8, 40):
        nodes = [chr(ord("a") + at) for at in range(12)]
        with sempre.Database(PROGRAMS[name], strategy="recompute") as db:
            db.apply(insert={"e": [(rng.choice(nodes), rng.choice(nodes)) for _ in range(size)]})
            for split in check_strata(db):
                assert (split.module is not None) == (name in PATHS)
                assert split.parts == PARTS


@pytest.mark.parametrize("name", ["right linear", "left linear", "with negation", "shortest"])
def test_first_facts_from_outside(name: str) -> None:
    """Where they are too many to copy, each task gets its own."""
    rng = random.Random(name)
    nodes = [chr(ord("a") + at) for at in range(12)]
    with sempre.Database(PROGRAMS[name], strategy="recompute") as db:
        db.apply(insert={"e": [(rng.choice(nodes), rng.choice(nodes)) for _ in range(30)]})
        program = engine_of(db).program
        stratum = next(stratum for stratum in program.strata if stratum.recursive)
        split = decide(program, stratum, {"p": 100, "e": 30}, PARTS, Limits(copied_rows=50))
        assert split is not None
        assert split.seeded
        copies = {name: plain_table(db, name, engine_of(db).version(name).rows()) for name in split.copied}
        facts = [row for row in db["p"] if name != "shortest" or row[2] == 1]
        rng.shuffle(facts)
        seeds = facts[: len(facts) // 2] + [row for row in facts if tuple(row[:2]) in db["e"]]
        seeds = [row for row in seeds if tuple(row[:2]) in db["e"] or name != "shortest"]
        (at, *_) = split.keys["p"]
        tables = []
        for value in nodes:
            mine = [row for row in seeds if row[at] == value]
            if mine:
                columns = zip(*mine, strict=True)
                table = pa.table({f"c{at}": pa.array(column) for at, column in enumerate(columns)})
                tables += list(Closer(split, copies).from_seeds(table))
        found = rows_by_name(tables)["p"]
        assert len(found) == len(set(found))
        assert set(found) == set(rows_of(plain_table(db, "p", engine_of(db).version("p").rows())))
