"""What says which of the derived rows a relation keeps: `choice-domain`, subsumption and `.limitsize`.

A subsumption `a(x) <= a(y) :- body` is checked as a rule that derives pairs, `a#under(x, y) :- a(x), a(y), body`; it
leaves the rules again once it is in normal form.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sempre.analysis.draft import Draft
from sempre.analysis.model import Guard, NormalRule, Relation
from sempre.analysis.naming import counted, nearest
from sempre.analysis.strata import component_of
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import (
    Aggregate,
    Atom,
    Comparison,
    Counter,
    Directive,
    Formula,
    Head,
    Negation,
    RelationDecl,
    Rule,
    Subsumption,
    Term,
    Variable,
    Wildcard,
    conjunction,
)
from sempre.lang.walk import descend

UNDER = "#under"


def declare_guards(draft: Draft) -> Draft:
    """Pass: the guards of relations; subsumptions become rules that derive pairs."""
    guards: dict[str, Guard] = {}
    problems: list[Diagnostic] = []
    for item in draft.program.items:
        match item:
            case RelationDecl() if item.choice and item.name in draft.relations:
                keys, wrong = _keys(item)
                problems += wrong
                guards[item.name] = replace(guards.get(item.name, Guard()), keys=keys)
            case Directive(kind="limitsize"):
                limit, wrong = _limit(item)
                problems += wrong
                for name in item.relations:
                    guards[name] = replace(guards.get(name, Guard()), limit=limit)
            case _:
                pass
    relations, rules = dict(draft.relations), list(draft.open)
    for item in draft.program.items:
        if isinstance(item, Subsumption):
            wrong = list(_subsumption_problems(item, draft))
            problems += wrong
            if wrong:
                continue
            name = item.lesser.relation
            relations[name + UNDER] = _pairs(relations[name])
            rules.append((sum(1 for _ in draft.program.rules()) + len(rules), _as_rule(item)))
    problems += _misplaced_counters(draft)
    return replace(draft, guards=guards, relations=relations, open=tuple(rules)).report(problems)


def _keys(decl: RelationDecl) -> tuple[tuple[tuple[int, ...], ...], list[Diagnostic]]:
    names = [attribute.name for attribute in decl.attributes]
    unknown = dict.fromkeys(name for key in decl.choice for name in key if name not in names)
    problems = [
        Diagnostic(
            "E164",
            f"`choice-domain` of `{decl.name}` names `{name}`, which is no column",
            decl.span,
            hint=nearest(name, names) or f"Its columns are {', '.join(names) or 'none'}.",
        )
        for name in unknown
    ]
    keys = tuple(tuple(sorted({names.index(name) for name in key if name in names})) for key in decl.choice)
    return keys, problems


def _limit(directive: Directive) -> tuple[int, list[Diagnostic]]:
    text = directive.option("n")
    if text.isdecimal() and len(directive.options) == 1:
        return int(text), []
    hint = f"Write `.limitsize {', '.join(directive.relations)}(n=100)`."
    return 0, [Diagnostic("E131", "`.limitsize` takes one option, `n`, a number of facts", directive.span, hint=hint)]


def _subsumption_problems(item: Subsumption, draft: Draft) -> Iterator[Diagnostic]:
    lesser, greater = item.lesser, item.greater
    if lesser.relation != greater.relation:
        message = f"a fact of `{greater.relation}` cannot stand for one of `{lesser.relation}`"
        yield Diagnostic("E124", message, item.span, hint="Both sides of `<=` are of one relation.")
        return
    relation = draft.relations.get(lesser.relation)
    if relation is None:
        hint = nearest(lesser.relation, draft.relations) or f"Declare it with `.decl {lesser.relation}(...)`."
        yield Diagnostic("E202", f"unknown relation `{lesser.relation}`", lesser.span, hint=hint)
        return
    for atom in (lesser, greater):
        if len(atom.args) != relation.arity:
            message = f"`{relation.name}` has {counted(relation.arity, 'column')}, not {len(atom.args)}"
            hint = f"It is declared as `{relation.name}({', '.join(relation.columns)})`."
            yield Diagnostic("E203", message, atom.span, hint=hint)
    for node in descend(item.body):
        if isinstance(node, Atom | Aggregate):
            hint = "Compare the columns of the two facts; what else matters can be a column of them."
            yield Diagnostic("E163", "the body of a subsumption may only compare", node.span, hint=hint)
            return


def _pairs(relation: Relation) -> Relation:
    return Relation(relation.name + UNDER, (*relation.columns, *relation.columns), (*relation.types, *relation.types))


def _as_rule(item: Subsumption) -> Rule:
    """The pairs of a fact and one that stands for it."""
    columns: list[Term] = []
    equations: list[Formula] = []
    atoms: list[Formula] = []
    for side, atom in enumerate((item.lesser, item.greater)):
        own: list[Variable] = []
        for at, term in enumerate(atom.args):
            if isinstance(term, Variable):
                own.append(term)
                continue
            own.append(Variable(f"${side}_{at}", atom.span))
            if not isinstance(term, Wildcard):
                equations.append(Comparison("=", own[-1], term, atom.span))
        columns += own
        atoms.append(Atom(atom.relation, tuple(own), None, atom.span))
    head = Head(Atom(item.lesser.relation + UNDER, tuple(columns), None, item.span), False, item.span)
    return Rule((head,), conjunction([*atoms, *equations, item.body], item.span), (), item.span)


def _misplaced_counters(draft: Draft) -> Iterator[Diagnostic]:
    """Counters where rows have no numbers: in recursion, in negations and in aggregates."""
    home: dict[str, int] | None = None
    for rule in draft.open_rules():
        counters = [node for node in descend(rule) if isinstance(node, Counter)]
        if not counters:
            continue
        nested = [
            inner
            for node in descend(rule.body)
            if isinstance(node, Negation | Aggregate)
            for inner in descend(node)
            if isinstance(inner, Counter)
        ]
        if nested:
            hint = "Number the facts of a relation by a rule, and read that relation."
            yield Diagnostic("E126", "the counter is in a negation or an aggregate", nested[0].span, hint=hint)
            continue
        home = home or component_of(draft)
        heads = {home.get(head.atom.relation, -1) for head in rule.heads}
        if any(isinstance(node, Atom) and home.get(node.relation) in heads for node in descend(rule.body)):
            hint = "Number the facts once they are complete, by a rule that nothing recurs through."
            yield Diagnostic("E126", "the counter is in a recursive rule", counters[0].span, hint=hint)


def take_guards(draft: Draft) -> Draft:
    """Pass: the normal rules without those of subsumptions, which become guards."""
    problems: list[Diagnostic] = []
    guards = dict(draft.guards)
    for number, rule in enumerate(rule for rule in draft.rules if rule.relation.endswith(UNDER)):
        name = rule.relation.removesuffix(UNDER)
        guard = guards.get(name, Guard())
        # Numbers below zero are of no rule of the program.
        guards[name] = replace(guard, dominance=(*guard.dominance, replace(rule, number=-1 - number)))
    for name, guard in guards.items():
        if name in draft.relations:
            problems += _clashes(draft.relations[name], guard)
    relations = {name: relation for name, relation in draft.relations.items() if not name.endswith(UNDER)}
    rules: tuple[NormalRule, ...] = tuple(rule for rule in draft.rules if not rule.relation.endswith(UNDER))
    opened = tuple(each for each in draft.open if not each[1].heads[0].atom.relation.endswith(UNDER))
    return replace(draft, guards=guards, relations=relations, rules=rules, open=opened).report(problems)


def _clashes(relation: Relation, guard: Guard) -> Iterator[Diagnostic]:
    """What a relation with a guard cannot be as well."""
    wanted = [what for what, given in (("`choice-domain`", guard.keys), ("subsumption", guard.dominance)) if given]
    if guard.limit is not None:
        wanted.append("`.limitsize`")
    others = [f"`{word}`" for word in ("inline", "eqrel", "demand") if word in relation.qualifiers]
    others += ["an aggregate in its heads"] if relation.aggregate is not None else []
    others += wanted[1:]
    if others:
        message = f"`{relation.name}` cannot have {wanted[0]} and {others[0]}"
        hint = "Derive one from the other: give each a relation of its own."
        yield Diagnostic("E165", message, relation.span, hint=hint)


def check_guards_in_cycles(draft: Draft) -> Draft:
    """Pass: active rules keep all that is derived."""
    if draft.semantics != "active":
        return draft
    named = ((name, draft.relations[name]) for name in draft.guards if name in draft.relations)
    hint = "Leave out `choice-domain`, `.limitsize` and subsumption, or the active semantics."
    found = [
        Diagnostic("E161", f"active rules keep all rows of `{name}`", each.span, hint=hint) for name, each in named
    ]
    counters = (node for rule in draft.open_rules() for node in descend(rule) if isinstance(node, Counter))
    found += [Diagnostic("E161", "active rules have no counter", node.span, hint="Use a column.") for node in counters]
    return draft.report(found)
