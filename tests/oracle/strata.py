"""Stratification: which relations are computed together, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from tests.oracle.clauses import Absent, Clause, Clauses, Fold, Literal, Match
from tests.oracle.values import OracleError


@dataclass(frozen=True)
class Stratum:
    """Relations that depend on each other, and their rules. `recursive`: some rule reads a relation of the stratum."""

    relations: frozenset[str]
    rules: tuple[Clause, ...]
    recursive: bool


def stratify(clauses: Clauses) -> list[Stratum]:
    """The strata of all relations that are not inline, lower ones first."""
    relations = [name for name in clauses.schema.columns if name not in clauses.schema.inline]
    reads: dict[str, set[str]] = {name: set() for name in relations}
    strict: set[tuple[str, str]] = set()
    for rule in clauses.rules:
        positive, nested = atoms(rule.body)
        reads[rule.relation] |= positive | nested
        strict |= {(rule.relation, name) for name in nested}
    reach = {name: _reachable(name, reads) for name in relations}
    for head, name in strict:
        if head in reach[name] or head == name:
            raise OracleError(f"{head} depends on itself through a negation or aggregate of {name}")
    components = {frozenset({n} | {m for m in reach[n] if n in reach[m]}) for n in relations}
    # A relation reaches everything that the relations below it reach, and more.
    lower_first = sorted(components, key=lambda c: (len(set(c).union(*(reach[n] for n in c))), sorted(c)))
    return [_stratum(clauses, component) for component in lower_first]


def atoms(body: tuple[Literal, ...]) -> tuple[set[str], set[str]]:
    """The relations read positively by the rule itself, and those read inside of negations and aggregates."""
    positive = {literal.relation for literal in body if isinstance(literal, Match)}
    nested: set[str] = set()
    for literal in body:
        if isinstance(literal, Absent | Fold):
            nested = nested.union(*(set().union(*atoms(inner)) for inner in literal.bodies))
    return positive, nested


def is_recursive(rule: Clause, relations: frozenset[str]) -> bool:
    """Whether a positive atom of the rule's body is in the stratum of its head."""
    return not atoms(rule.body)[0].isdisjoint(relations)


def _stratum(clauses: Clauses, relations: frozenset[str]) -> Stratum:
    rules = tuple(rule for rule in clauses.rules if rule.relation in relations)
    return Stratum(relations, rules, any(is_recursive(rule, relations) for rule in rules))


def _reachable(start: str, reads: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        for name in reads[todo.pop()] - found:
            found.add(name)
            todo.append(name)
    return found
