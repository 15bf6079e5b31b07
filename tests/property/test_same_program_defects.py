"""The comparison of stores with the oracle bites: what stores once got wrong, planted again, fails a random case."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sempre.analysis.model import Kind, Relation, Stratum
from sempre.analysis.rule_forms import normal_rule
from sempre.engine import Engine
from sempre.modules import find
from sempre.rewrites import passes, successors
from sempre.storage import digests, keeper, state, vacuum
from sempre.storage.parquet_blocks import Block
from tests.property.test_same_program import MAKERS, Run, check_codes, check_types

Patches = list[tuple[Any, str, Any]]
CASES = 40


def memories_of_any_strategy() -> Patches:
    return [(keeper, "memory_digest", lambda engine, stratum: digests.stratum_key(stratum))]


def rules_without_multiplicity() -> Patches:
    """A rule that is there twice is the same as one that is there once."""
    real = digests.memory_digest

    def digest(engine: Engine, stratum: Stratum) -> str:
        once = [
            tuple({normal_rule(rule): rule for rule in rules}.values())
            for rules in (stratum.nonrecursive, stratum.recursive)
        ]
        kinds = sorted(str(module) for module in engine.modules.get(stratum.index, ()))
        with mock.patch.object(engine, "modules", {}):
            return f"{kinds} {real(engine, replace(stratum, nonrecursive=once[0], recursive=once[1]))}"

    return [(keeper, "memory_digest", digest)]


def facts_that_were_put_off() -> Patches:
    """What was evaluated on demand is read as if its facts were there."""
    return [(state.OwnSets, "has_facts", lambda self, name: name in self._kept)]


def sets_beside_sets() -> Patches:
    """What strays stays where it is, and what is right is added to it."""
    return [(state.StraySets, "put_right", lambda self, contents: None)]


def files_of_what_is_put_off() -> Patches:
    """A query looks into the files for facts that are evaluated on demand."""
    return [(keeper, "kept_relations", lambda engine: [*engine.program.relations])]


def _all_relations() -> Patches:
    """Neighbors are stored like relations of the program, and a vacuum passes over what the program has not."""
    real = vacuum._symbol_columns

    def columns(name: str, content: Any, program: Any) -> Any:
        return real(name, content, program) if name.partition("/")[2] in program.relations else []

    def kept(engine: Engine) -> list[str]:
        return [name for name in engine.program.relations if name not in engine.deferred]

    return [(state, "kept_relations", kept), (keeper, "kept_relations", kept), (vacuum, "_symbol_columns", columns)]


def neighbors_by_number() -> Patches:
    """Neighbors are stored like relations of the program, by names that go by the order of rules."""
    made: list[str] = []

    def relation(source: Relation, one: Any) -> Relation:
        number = sum(name.startswith(f"next#{source.name}#") for name in made)
        made.append(f"next#{source.name}#{number}")
        columns = (*one.groups, one.column, one.column)
        names = (*(source.columns[g] for g in one.groups), "low", "high")
        return Relation(made[-1], names, tuple(source.types[column] for column in columns), span=source.span)

    real = successors.with_neighbors

    def with_neighbors(program: Any) -> Any:
        made.clear()
        return real(program)

    rewrites = tuple(with_neighbors if each is real else each for each in passes.REWRITES)
    return [
        *_all_relations(),
        (successors, "_relation", relation),
        (passes, "REWRITES", rewrites),
        (find, "with_neighbors", with_neighbors),
    ]


def neighbors_with_old_codes() -> Patches:
    """A vacuum numbers symbols anew, but not those of neighbors, which are stored."""
    return _all_relations()


def memories_with_old_codes() -> Patches:
    """A vacuum numbers symbols anew in facts only."""

    def columns(name: str, content: Any, program: Any) -> list[Any]:
        kind, _, relation = name.partition("/")
        if kind not in ("facts", "explicit") or not isinstance(content, Block):
            return []
        kinds = program.relations[relation].kinds
        return [column for column, each in zip(content.columns, kinds, strict=True) if each is Kind.SYMBOL]

    return [(vacuum, "_symbol_columns", columns)]


DEFECTS: dict[Callable[[], Patches], str] = {
    memories_of_any_strategy: "generic",
    rules_without_multiplicity: "generic",
    facts_that_were_put_off: "successors",
    sets_beside_sets: "successors",
    files_of_what_is_put_off: "successors",
    neighbors_by_number: "successors",
    neighbors_with_old_codes: "successors",
    memories_with_old_codes: "successors",
}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_defects_are_found(defect: Callable[[], Patches], tmp_path: Path) -> None:
    def run() -> None:
        for seed in range(CASES):
            rng = random.Random(f"{DEFECTS[defect]} {seed}")
            Run(MAKERS[DEFECTS[defect]](rng), tmp_path / str(seed), rng).go()

    _expect_failure(defect(), run)


def test_codes_that_are_seen(tmp_path: Path) -> None:
    def run() -> None:
        for seed in range(CASES):
            check_codes(random.Random(seed), tmp_path / str(seed))

    _expect_failure([(vacuum, "observes_codes", lambda program: False)], run)


def test_types_inside_of_types(tmp_path: Path) -> None:
    def plain(program: Any, relation: Relation) -> str:
        return repr((relation.columns, relation.types))

    def run() -> None:
        for seed in range(CASES):
            check_types(random.Random(seed), tmp_path / str(seed))

    _expect_failure([(digests, "columns_of", plain)], run)


def _expect_failure(patches: Patches, run: Callable[[], None]) -> None:
    with ExitStack() as stack:
        for target, name, planted in patches:
            stack.enter_context(mock.patch.object(target, name, planted))
        try:
            run()
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever a wrong state leads to
            return
    pytest.fail("nobody noticed")
