"""A second reading of the rules, by trying every assignment: checks the oracle on small rules.

It follows the syntax tree as it stands: no reordering, no inlining, no kinds. So it knows atoms, negations, comparisons
of variables and literals, disjunctions; `readable` says whether a rule stays within that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sempre.lang import syntax as s
from tests.oracle.clauses import formula_names, rebuild
from tests.oracle.naive import Facts
from tests.oracle.values import Row, Value, compare

Env = dict[str, Value]
PLAIN = (
    s.Rule, s.Head, s.Atom, s.Comparison, s.Negation, s.Conjunction, s.Disjunction, s.Truth, s.Variable, s.Wildcard,
    s.Number, s.Unsigned, s.Float, s.String,
)  # fmt: skip


def readable(rule: s.Rule, most: int = 3) -> bool:
    """Whether the rule has only plain nodes, one head and few variables."""
    plain = True

    def visit(node: Any) -> Any:
        nonlocal plain
        plain = plain and isinstance(node, PLAIN)
        return node

    rebuild(rule, visit)
    return plain and len(rule.heads) == 1 and len(direct_names(rule.body)) <= most


def heads(rule: s.Rule, facts: Facts) -> set[Row]:
    """The heads of the rule that are true in `facts`, by trial of every assignment."""
    domain = sorted({value for rows in facts.values() for row in rows for value in row}, key=repr)
    names = sorted(direct_names(rule.body) | formula_names(rule.heads[0]))
    args = rule.heads[0].atom.args
    return {
        tuple(term(arg, env) for arg in args)
        for env in assignments(names, domain, {})
        if holds(rule.body, env, facts, domain)
    }


def assignments(names: list[str], domain: list[Value], env: Env) -> Iterator[Env]:
    if not names:
        yield env
        return
    for value in domain:
        yield from assignments(names[1:], domain, {**env, names[0]: value})


def direct_names(body: s.Formula) -> set[str]:
    """The variables of a body outside of its negations."""
    if isinstance(body, s.Negation):
        return set()
    if isinstance(body, s.Conjunction | s.Disjunction):
        return set().union(*map(direct_names, body.parts))
    return formula_names(body)


def term(node: s.Term, env: Env) -> Value:
    if isinstance(node, s.Variable):
        return env[node.name]
    assert isinstance(node, s.Number | s.Unsigned | s.Float | s.String)
    return node.value


def holds(body: s.Formula, env: Env, facts: Facts, domain: list[Value]) -> bool:
    """Whether `body` is true under `env`."""
    match body:
        case s.Truth(value):
            return value
        case s.Conjunction(parts):
            return all(holds(part, env, facts, domain) for part in parts)
        case s.Disjunction(parts):
            return any(holds(part, env, facts, domain) for part in parts)
        case s.Comparison(op, left, right):
            sides = term(left, env), term(right, env)
            return isinstance(sides[0], str) == isinstance(sides[1], str) and compare(op, *sides)
        case s.Atom(relation, args):
            pattern = [None if isinstance(arg, s.Wildcard) else (term(arg, env),) for arg in args]
            return any(
                all(p is None or p == (v,) for p, v in zip(pattern, row, strict=True)) for row in facts[relation]
            )
        case s.Negation(inner):
            own = sorted(direct_names(inner) - set(env))
            return not any(holds(inner, each, facts, domain) for each in assignments(own, domain, env))
