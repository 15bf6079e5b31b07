"""Inlined relations: which are, whether they may be, and their rules put in the place of their atoms.

`inline` is a promise about speed, not about meaning, so a relation that must exist anyway stays an ordinary one: one
that is read, written or counted, an equivalence, one with an aggregate in its head, one that rules delete from, and
one that an aggregate reads (there, the inlined rule's own variables would be counted too).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from sempre.analysis.draft import Draft
from sempre.analysis.name_graphs import find_cycle
from sempre.analysis.scopes import target_names
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import (
    Aggregate,
    Atom,
    Branch,
    Comparison,
    Float,
    Formula,
    Head,
    HeadAggregate,
    Nil,
    Number,
    Record,
    Rule,
    String,
    Term,
    Unsigned,
    Variable,
    Wildcard,
    conjunction,
    disjunction,
)
from sempre.lang.walk import descend, map_children

_CONSTANTS = (Number, Unsigned, Float, String, Nil)

Definitions = Mapping[str, tuple[tuple[Head, Formula], ...]]


def choose_inlined(draft: Draft) -> Draft:
    """Pass: the relations to inline; recursion through them is an error."""
    wanted = {
        name
        for name, relation in draft.relations.items()
        if "inline" in relation.qualifiers
        and not relation.qualifiers & {"no_inline", "eqrel"}
        and not (relation.inputs or relation.outputs or relation.printsize)
    }
    wanted -= set(_pinned(draft))
    reads = {name: sorted(_reads(draft, name) & wanted) for name in sorted(wanted)}
    cycle = find_cycle(reads)
    if not cycle:
        return replace(draft, inlined=frozenset(wanted))
    text = " -> ".join((*cycle, cycle[0]))
    span = draft.relations[cycle[0]].span
    hint = "Remove `inline` from one of them."
    return draft.report([Diagnostic("E404", f"inlined relations cannot be recursive: {text}", span, hint=hint)])


def _pinned(draft: Draft) -> Iterator[str]:
    """Relations that must exist whatever their qualifiers say."""
    for rule in draft.open_rules():
        for head in rule.heads:
            if head.deletes or any(isinstance(argument, HeadAggregate) for argument in head.atom.args):
                yield head.atom.relation
        for aggregate in (node for node in descend(rule) if isinstance(node, Aggregate)):
            yield from (node.relation for node in descend(aggregate) if isinstance(node, Atom))


def _reads(draft: Draft, name: str) -> set[str]:
    return {
        node.relation
        for rule in draft.open_rules()
        if any(head.atom.relation == name for head in rule.heads)
        for node in descend(rule.body)
        if isinstance(node, Atom)
    }


def definitions(draft: Draft) -> Definitions:
    """The rules of the inlined relations, as (head, body)."""
    found: dict[str, list[tuple[Head, Formula]]] = {name: [] for name in draft.inlined}
    for _, rule in draft.sound_rules():
        for head in rule.heads:
            if head.atom.relation in found:
                found[head.atom.relation].append((head, rule.body))
    return {name: tuple(rules) for name, rules in found.items()}


def expand_rule(rule: Rule, inlined: Definitions) -> Rule:
    """`rule` with every atom of an inlined relation replaced by the bodies of its rules."""
    return replace(rule, body=_Inliner(inlined).formula(rule.body)) if inlined else rule


class _Inliner:
    """Expands atoms; every expansion gets variables of its own."""

    def __init__(self, inlined: Definitions) -> None:
        self.inlined = inlined
        self.numbers = count(1)

    def formula(self, formula: Formula) -> Formula:
        if isinstance(formula, Atom):
            rules = self.inlined.get(formula.relation)
            return formula if rules is None else self.expand(formula, rules)
        if isinstance(formula, Comparison):
            return formula
        return map_children(formula, self.formula)

    def expand(self, atom: Atom, rules: tuple[tuple[Head, Formula], ...]) -> Formula:
        # An argument that would be written several times gets a name first, outside the alternatives.
        named: list[Formula] = []
        args: list[Term] = []
        for arg in atom.args:
            if isinstance(arg, (Variable, *_CONSTANTS)):
                args.append(arg)
                continue
            variable = Variable(f"_#i{next(self.numbers)}", arg.span)
            if not isinstance(arg, Wildcard):
                named.append(Comparison("=", variable, arg, arg.span))
            args.append(variable)
        bodies = [self.instance(head, body, args) for head, body in rules]
        return conjunction([*named, disjunction(bodies, atom.span)], atom.span)

    def instance(self, head: Head, body: Formula, args: list[Term]) -> Formula:
        """The body of one rule for the arguments of one atom."""
        number = next(self.numbers)
        names: dict[str, Term] = {}
        tests: list[Comparison] = []
        for parameter, arg in zip(head.atom.args, args, strict=True):
            if isinstance(parameter, Variable) and parameter.name not in names:
                names[parameter.name] = arg
            elif not isinstance(parameter, Wildcard):
                tests.append(Comparison("=", arg, parameter, arg.span))

        def rename(node: Any, names: Mapping[str, Term]) -> Any:
            if isinstance(node, Variable):
                return names.get(node.name) or Variable(f"{node.name}#i{number}", node.span)
            if isinstance(node, Aggregate):  # what it ranges over is not the parameter of the same name
                own = target_names(node)
                names = {name: term for name, term in names.items() if name not in own}
            renamed = map_children(node, lambda part: rename(part, names))
            # What a record does, match or build, is found out for each place it stands at: no two share one.
            return replace(renamed) if isinstance(node, Record | Branch) else renamed

        # The tests mention the atom's own variables on their left, which must not be renamed.
        renamed = [replace(test, right=rename(test.right, names)) for test in tests]
        return conjunction([*renamed, self.formula(rename(body, names))])
