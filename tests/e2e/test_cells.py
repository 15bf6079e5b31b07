"""The edits of a real ontology, replayed version by version."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from sempre.api import Database, Program
from tests.engine import STRATEGIES
from tests.oracle.naive import Facts, evaluate

ROOT = Path(__file__).parents[2]


def benchmark(name: str) -> Any:
    """A script of the benchmarks as a module."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


cells = benchmark("cells")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_first_versions_equal_recomputation(strategy: str) -> None:
    path = cells.stream_file()
    if not path.exists():
        pytest.skip(f"{path} is not here; SEMPRE_SHARED names the folder that has data/cells")
    done = cells.replay(path, strategy, limit=60, samples=6)
    assert (len(done.milliseconds), done.compared) == (59, 6)


# A muscle cell that beats is a heart cell by definition; a tissue of it has heart cells as parts.
FACTS: Facts = {
    "sub": {("beater", "muscle"), ("muscle", "cell"), ("pump", "tissue")},
    "ex": {("beater", "does", "pulse"), ("pump", "part", "beater")},
    "def_genus": {("heart", "muscle"), ("organ", "tissue")},
    "def_diff": {("heart", "does", "beat"), ("organ", "part", "heart"), ("organ", "part", "cell")},
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_definitions_classify(strategy: str) -> None:
    program = Program.from_file(cells.PROGRAM)
    with Database(program, strategy=strategy) as db:
        db.apply(insert={name: list(rows) for name, rows in FACTS.items()})
        assert ("beater", "heart") not in db["isa"]
        changes = db.apply(insert={"sub": [("pulse", "beat")]})
        added = {tuple(row.values()) for row in changes.added["inferred"].to_pylist()}
        assert {("beater", "heart"), ("pump", "organ")} <= added
        facts = {**FACTS, "sub": {*FACTS["sub"], ("pulse", "beat")}}
        for name, rows in evaluate(program.syntax, facts).items():
            assert set(db[name]) == rows, name
        db.apply(delete={"ex": [("beater", "does", "pulse")]})
        assert ("pump", "organ") not in db["isa"]
        assert db.verify().ok
