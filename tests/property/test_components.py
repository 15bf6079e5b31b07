"""A random program means the same inside of components: the oracle has the program as it was before it was put there.

What is made: type parameters for the types of columns, a base and a component that inherits from it, rules of the base
that are overridden (and wrong), rules for a relation of the instance around, names that are hidden by others.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sempre.analysis import components
from sempre.diagnostics import SempreError
from sempre.lang import syntax as s
from tests.budget import seeds
from tests.engine import STRATEGIES, compare, database, lists, table_rows, truths
from tests.oracle.naive import Facts
from tests.property.programs import Case, random_case

pytestmark = pytest.mark.oracle
CASES = 8


@dataclass(frozen=True)
class Wrapped:
    """A program with components, and the prefixes under which each relation of the old one is found."""

    program: s.ParsedProgram
    prefixes: tuple[str, ...]

    def facts(self, facts: Facts) -> Facts:
        return {prefix + name: rows for prefix in self.prefixes for name, rows in facts.items()}


def wrapped(program: s.ParsedProgram, rng: random.Random) -> Wrapped:
    """The program in a component, in one of many ways."""
    kinds = sorted({a.type_name for item in program.items if isinstance(item, s.RelationDecl) for a in item.attributes})
    given = [kind for kind in kinds if kind in ("number", "symbol", "unsigned", "float") and rng.random() < 0.7]
    parameters = {kind: f"T{number}" for number, kind in enumerate(given)}
    items = [_with_types(item, parameters) for item in program.items]
    names = tuple(parameters.values())
    derived = sorted({head.atom.relation for item in items if isinstance(item, s.Rule) for head in item.heads})
    overridden = {name for name in derived if rng.random() < 0.4}
    base: list[s.Item] = []
    mine: list[s.Item] = []
    for item in items:
        if isinstance(item, s.RelationDecl):
            allowed = ("overridable",) if item.name in overridden else ()
            base.append(replace(item, qualifiers=(*item.qualifiers, *allowed)))
        elif not isinstance(item, s.Rule):
            base.append(item)
        elif any(head.atom.relation in overridden for head in item.heads) or rng.random() < 0.3:
            mine.append(item)
        else:
            base.append(item)
    # What is overridden has no effect: here, that the relation has no rule without a body at all.
    base += [_nonsense(decl) for decl in items if isinstance(decl, s.RelationDecl) and decl.name in overridden]
    inner: list[s.Item] = []
    if rng.random() < 0.5:  # rules of the outer instance in an inner one, which has a name of its own beside them
        moved = [item for item in mine if rng.random() < 0.5]
        mine = [item for item in mine if item not in moved]
        inner = [s.RelationDecl("own", (s.Attribute("x", "number"),)), *moved]
    parent = s.Component(s.ComponentType("Base", names), (), tuple(base))
    nested: tuple[s.Item, ...] = ()
    if inner:
        part = s.ComponentType("Part")
        nested = (s.Component(part, (), tuple(inner)), s.Instantiation("part", part))
    child = s.Component(
        s.ComponentType("Whole", names), (s.ComponentType("Base", names),), (*nested, *mine), tuple(sorted(overridden))
    )
    instances = ("one.", "two.")[: rng.choice((1, 1, 2))]
    made = [s.Instantiation(name[:-1], s.ComponentType("Whole", tuple(given))) for name in instances]
    order: list[s.Item] = [parent, child, *made]
    rng.shuffle(order)
    return Wrapped(s.ParsedProgram(tuple(order)), instances)


def _with_types(item: s.Item, parameters: dict[str, str]) -> s.Item:
    if not isinstance(item, s.RelationDecl):
        return item
    attributes = tuple(replace(a, type_name=parameters.get(a.type_name, a.type_name)) for a in item.attributes)
    return replace(item, attributes=attributes)


def _nonsense(decl: s.RelationDecl) -> s.Rule:
    """A rule for a relation that would fail the check if it were taken."""
    head = s.Atom(decl.name, tuple(s.Variable("nowhere") for _ in decl.attributes))
    return s.Rule((s.Head(head),), s.Atom("none", ()))


def check_wrapped(case: Case, rng: random.Random, strategy: str) -> None:
    made = wrapped(case.program, rng)
    epochs = [(case.facts, {}), *case.updates]
    expected = truths(case.program, epochs)
    with database(made.program, strategy) as db:
        compare(db, made.facts(expected[0].facts), "at the start")
        for number, (insert, delete) in enumerate(epochs, 1):
            changes = db.apply(insert=lists(made.facts(insert)), delete=lists(made.facts(delete)))
            before, after = made.facts(expected[number - 1].facts), made.facts(expected[number].facts)
            compare(db, after, f"after epoch {number}")
            for name in after:
                assert table_rows(db, name, changes.added[name]) == after[name] - before[name]
                assert table_rows(db, name, changes.removed[name]) == before[name] - after[name]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_program_means_the_same_in_components(strategy: str) -> None:
    for seed in range(CASES):
        rng = random.Random(1000 * STRATEGIES.index(strategy) + seed)
        check_wrapped(random_case(rng), rng, strategy)


@pytest.mark.slow
def test_many_programs_mean_the_same_in_components() -> None:
    for seed in seeds(1_000, 60):
        rng = random.Random(f"components {seed}")
        check_wrapped(random_case(rng), rng, rng.choice(STRATEGIES))


def _nothing_is_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    fill: Any = components._Making.fill

    def planted(self: components._Making, *args: Any) -> None:
        fill(self, *args[:-1], frozenset())

    monkeypatch.setattr(components._Making, "fill", planted)


def _parameters_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "_bound", lambda component, type_, binding: binding)


def _names_belong_to_the_innermost(monkeypatch: pytest.MonkeyPatch) -> None:
    full = components._Names.full

    def planted(self: components._Names, name: str, space: Callable[[components.Instance], set[str]]) -> str:
        found = full(self, name, space)
        return found if found == name else self.instance.prefix + name

    monkeypatch.setattr(components._Names, "full", planted)


def _the_second_instance_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = vars(components.Instance)["prefix"].fget
    monkeypatch.setattr(components.Instance, "prefix", property(lambda self: prefix(self).replace("two.", "one.")))


@pytest.mark.parametrize(
    "plant",
    [
        _nothing_is_overridden,
        _parameters_are_dropped,
        _names_belong_to_the_innermost,
        _the_second_instance_is_the_first,
    ],
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(30):
        rng = random.Random(seed)
        try:
            check_wrapped(random_case(rng), rng, "recompute")
        except (AssertionError, SempreError, KeyError):
            return
    pytest.fail("no case noticed")
