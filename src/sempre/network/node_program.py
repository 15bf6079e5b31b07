"""A local program made ready for nodes: what every relation and every rule means to the algorithm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sempre.analysis.model import Fold, Kind, Match, NormalRule, Not, Relation, Stratum
from sempre.analysis.strata import matches
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.reduce import AGGREGATES, Merging, float_rank
from sempre.network.codegen import Code, RuleEntry
from sempre.network.localize import LocalProgram
from sempre.network.node_tables import Row


@dataclass(slots=True, eq=False)
class RelationPlan:
    """One relation. `place` is where its location stands in a key; `sign` is -1 where larger values are better."""

    number: int
    name: str
    location: int
    place: int
    aggregate: tuple[str, int] | None
    recursive: bool
    folds: bool
    sign: int
    least: Any
    value_kind: str
    parts: Merging | None
    steps: tuple[Step, ...] = ()
    recursive_steps: tuple[Step, ...] = ()
    triggers: tuple[Step, ...] = ()
    restart: int = 0

    def split(self, row: Row) -> tuple[Row, Any]:
        """The key of a row, and its aggregated value."""
        if self.aggregate is None:
            return row, None
        column = self.aggregate[1]
        return row[:column] + row[column + 1 :], row[column]

    def join(self, key: Row, value: Any) -> Row:
        """The row with this key and this value."""
        if self.aggregate is None:
            return key
        column = self.aggregate[1]
        return (*key[:column], value, *key[column:])

    def rank(self, value: Any) -> Any:
        """Where an aggregated value stands among others: the least is the best."""
        if self.value_kind == "float":
            value = float_rank(value)
        return -value if self.sign < 0 else value

    def claim(self, value: Any, level: int = 0) -> tuple[Any, int, Any, Any]:
        """A claim that rests on nothing recursive."""
        if self.aggregate is None:
            return (self.least, level, None, None)
        if self.folds:
            return (0, 1, value, None)
        return (self.rank(value), level, value, None)


@dataclass(frozen=True, slots=True)
class Step:
    """One way into a rule. `inside` has (atom, relation) for the atoms of the head's own recursive component."""

    rule: int
    pivot: int
    full: int
    outer: int
    nested: bool
    head: RelationPlan
    inside: tuple[tuple[int, int], ...]


class NodeProgram:
    """What all nodes share; it never changes."""

    def __init__(self, local: LocalProgram) -> None:
        self.local = local
        self.code = Code(local)
        self.sources: Mapping[str, str] = local.source.sources
        self.numbers = self.code.numbers
        self.home = local.stratum_of()
        self.relations = [self._relation(local.relations[name]) for name in self.numbers]
        for name, number in self.numbers.items():
            self._enter(self.relations[number], self.code.entries[name])
        self.atoms = [
            tuple(self.numbers[match.relation] for match in self.code.positives(rule)) for rule in local.rules
        ]
        self.order = sorted(self.relations, key=lambda plan: self.home[plan.name])
        for plan in self.order:
            first = next(at for at, other in enumerate(self.order) if self.home[other.name] == self.home[plan.name])
            plan.restart = first

    def _stratum(self, relation: str) -> Stratum:
        return self.local.strata[self.home[relation]]

    def _relation(self, relation: Relation) -> RelationPlan:
        location = relation.location
        assert location is not None
        aggregate = relation.aggregate
        place = location - 1 if aggregate and aggregate[1] < location else location
        stratum = self._stratum(relation.name)
        recursive = bool(stratum.recursive)
        ranked = [other for name in stratum.relations if (other := self.local.relations[name]).aggregate]
        sign = -1 if any(other.aggregate and other.aggregate[0] == "max" for other in ranked) else 1
        return RelationPlan(
            number=self.numbers[relation.name],
            name=relation.name,
            location=location,
            place=place,
            aggregate=aggregate,
            recursive=recursive,
            folds=aggregate is not None and not recursive,
            sign=sign,
            least=_least(ranked) if recursive else 0,
            value_kind=_value_kind(relation),
            parts=AGGREGATES[aggregate[0]].parts if aggregate else None,
        )

    def _enter(self, plan: RelationPlan, entries: list[RuleEntry]) -> None:
        """Sort the ways into rules from a relation by when they are taken."""
        steps = [(entry, self._step(entry)) for entry in entries]
        plan.steps = tuple(step for entry, step in steps if entry.pivot is not None)
        plan.triggers = tuple(step for entry, step in steps if entry.pivot is None)
        plan.recursive_steps = tuple(
            step
            for entry, step in steps
            if entry.pivot is not None and any(relation == plan.number for _, relation in step.inside)
        )

    def _step(self, entry: RuleEntry) -> Step:
        rule = self.local.rules[entry.rule]
        head = self.relations[self.numbers[rule.relation]]
        inside = []
        for at, match in enumerate(self.code.positives(rule)):
            if head.recursive and self.home[match.relation] == self.home[rule.relation]:
                inside.append((at, self.numbers[match.relation]))
        nested = any(not isinstance(literal, Match) and _has_atoms(literal) for literal in rule.body)
        return Step(
            entry.rule, -1 if entry.pivot is None else entry.pivot, entry.full, entry.outer, nested, head, tuple(inside)
        )

    # ------------------------------------------------------------------------------------------------ errors

    def rule(self, number: int) -> NormalRule:
        return self.local.rules[number]

    def fault(self, number: int, message: str) -> DataError:
        rule = self.rule(number)
        diagnostic = Diagnostic("E510", message, rule.span, detail=f"while evaluating: {rule.text}")
        return DataError(diagnostic, self.sources)

    def improving(self, number: int, plan: RelationPlan) -> DataError:
        """The error for a step that makes an aggregated value better, as a negative cost does."""
        rule = self.rule(number)
        kind = plan.aggregate[0] if plan.aggregate else "min"
        word = "smaller" if kind == "min" else "larger"
        message = f"a step of the recursion gives `{plan.name}` a {word} value than the one it uses"
        detail = "Around a cycle such a step never ends; nodes do not wait to see whether there is one."
        hint = "Make costs 0 or more." if kind == "min" else "Let no step add to the value."
        return DataError(Diagnostic("E530", message, rule.span, detail=detail, hint=hint), self.sources)


def _has_atoms(literal: object) -> bool:
    return isinstance(literal, Not | Fold) and any(True for _ in matches(literal.body))


def _value_kind(relation: Relation) -> str:
    return relation.kinds[relation.aggregate[1]].value if relation.aggregate else ""


def _least(ranked: list[Relation]) -> Any:
    """The potential of a proof without aggregated values: below all of them."""
    if not ranked:
        return 0
    return "" if _value_kind(ranked[0]) == Kind.SYMBOL.value else -math.inf
