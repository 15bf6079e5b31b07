"""Functors that give more than a value at a time: each gets an equation of its own before anything else looks.

`p(range(1, 5) * 2)` becomes `p(x * 2), x = range(1, 5)`, with the equation in the scope where the term stood. A fact
that has such a term becomes a rule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sempre.lang.syntax import (
    Aggregate,
    Apply,
    Atom,
    Comparison,
    Conjunction,
    Counter,
    Disjunction,
    Formula,
    Negation,
    Number,
    ParsedProgram,
    Rule,
    Term,
    Variable,
    conjunction,
)
from sempre.lang.walk import descend, map_children

RANGE = "range"
# No variable that a user writes begins so.
PREFIX = "$"


def lift_program(program: ParsedProgram) -> ParsedProgram:
    """The program with an equation for every `range` and every counter."""
    items = tuple(_lift_rule(item) if isinstance(item, Rule) and _has_any(item) else item for item in program.items)
    return (
        program
        if all(new is old for new, old in zip(items, program.items, strict=True))
        else replace(program, items=items)
    )


def _is_lifted(node: object) -> bool:
    return isinstance(node, Counter) or (isinstance(node, Apply) and node.functor == RANGE)


def _has_any(rule: Rule) -> bool:
    return any(map(_is_lifted, descend(rule)))


def _lift_rule(rule: Rule) -> Rule:
    lifter = _Lifter()
    heads = []
    for head in rule.heads:
        atom = lifter.atom_terms(head.atom)
        heads.append(replace(head, atom=atom))
    equations, lifter.equations = lifter.equations, []
    body = lifter.formula(rule.body)
    if equations:
        body = conjunction([body, *equations] if not rule.is_fact else equations, rule.span)
    elif rule.is_fact:
        zero = Number(0, rule.span)
        body = Comparison("=", zero, zero, rule.span)
    return replace(rule, heads=tuple(heads), body=body)


class _Lifter:
    """Takes terms out of one rule; `equations` has those of the literal at hand."""

    def __init__(self) -> None:
        self.counter = 0
        self.equations: list[Formula] = []

    def atom_terms(self, atom: Atom) -> Atom:
        return replace(atom, args=tuple(map(self.term, atom.args)))

    def term(self, term: Any) -> Any:
        """A term without what is lifted; aggregates are scopes of their own."""
        if isinstance(term, Aggregate):
            return self.aggregate(term)
        inner = map_children(term, self.term)
        if not _is_lifted(inner):
            return inner
        return self.named(inner)

    def named(self, term: Term) -> Variable:
        self.counter += 1
        variable = Variable(f"{PREFIX}{self.counter}", term.span)
        self.equations.append(Comparison("=", variable, term, term.span))
        return variable

    def aggregate(self, aggregate: Aggregate) -> Aggregate:
        outside, self.equations = self.equations, []
        target = None if aggregate.term is None else self.term(aggregate.term)
        own, self.equations = self.equations, []
        body = self.formula(aggregate.body)
        self.equations = outside
        return replace(aggregate, term=target, body=conjunction([body, *own], aggregate.body.span) if own else body)

    def formula(self, formula: Formula) -> Formula:
        match formula:
            case Conjunction(parts):
                return conjunction([self.formula(part) for part in parts], formula.span)
            case Disjunction() | Negation():
                return map_children(formula, self.formula)
            case Atom():
                return self.with_equations(self.atom_terms(formula))
            case Comparison("=", left, right) if _is_lifted(right) and isinstance(left, Variable):
                return self.with_equations(replace(formula, right=map_children(right, self.term)))
            case Comparison("=", left, right) if _is_lifted(left) and isinstance(right, Variable):
                return self.with_equations(replace(formula, left=map_children(left, self.term)))
            case Comparison():
                return self.with_equations(map_children(formula, self.term))
            case _:
                return formula

    def with_equations(self, literal: Formula) -> Formula:
        """A literal, with the equations of what was taken out of it."""
        equations, self.equations = self.equations, []
        return conjunction([literal, *equations], literal.span) if equations else literal
