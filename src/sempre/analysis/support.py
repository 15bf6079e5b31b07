"""What the language has and the engine does not: refused by name, never silently different."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sempre.analysis.draft import Draft
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import (
    AlgebraicType,
    Branch,
    Counter,
    Directive,
    FunctorDecl,
    Item,
    Pragma,
    RelationDecl,
    Rule,
    Subsumption,
    TypeDecl,
    UserCall,
)
from sempre.lang.walk import descend


def refuse_unsupported(draft: Draft) -> Draft:
    """Pass: report every construct that cannot be evaluated yet; rules that have one are faulty."""
    others = [item for item in draft.program.items if not isinstance(item, Rule)]
    found = [problem for item in others for problem in _item_problems(item)]
    faulty = set(draft.faulty)
    for number, rule in draft.open:
        mine = list(_rule_problems(rule))
        if mine:
            found += mine
            faulty.add(number)
    return replace(draft, faulty=frozenset(faulty)).report(found)


def _item_problems(item: Item) -> Iterator[Diagnostic]:
    match item:
        case TypeDecl(definition=AlgebraicType()):
            hint = "Use a record type with a column that tells the cases apart."
            yield Diagnostic("E121", f"algebraic data types are not supported: `{item.name}`", item.span, hint=hint)
        case RelationDecl() if item.choice:
            hint = "Choose with an aggregate, such as `min x : { ... }`."
            yield Diagnostic("E123", f"`choice-domain` is not supported: `{item.name}`", item.span, hint=hint)
        case Subsumption():
            hint = "Keep the best value with an aggregate in the head, such as `dist(y, min(d))`."
            message = f"subsumption is not supported: `{item.lesser.relation} <= {item.greater.relation}`"
            yield Diagnostic("E124", message, item.span, hint=hint)
        case FunctorDecl():
            hint = "Compute the value before it is loaded, or with the built-in functors."
            yield Diagnostic("E125", f"user-defined functors are not supported: `{item.name}`", item.span, hint=hint)
        case Directive(kind="limitsize"):
            hint = "Bound the rule itself, as in `p(x + 1) :- p(x), x < 10.`."
            message = f"`.limitsize` is not supported: `{', '.join(item.relations)}`"
            detail = "Which facts are left out would depend on the order of evaluation, and on the updates before."
            yield Diagnostic("E131", message, item.span, detail=detail, hint=hint)
        case _:
            pass


def _rule_problems(rule: Rule) -> Iterator[Diagnostic]:
    for node in descend(rule):
        match node:
            case Branch():
                hint = "Use a record type with a column that tells the cases apart."
                message = f"algebraic data types are not supported: `${node.name}`"
                yield Diagnostic("E121", message, node.span, hint=hint)
            case UserCall():
                message = f"user-defined functors are not supported: `@{node.name}`"
                yield Diagnostic("E125", message, node.span, hint="Use the built-in functors.")
            case Counter():
                hint = "Give the facts keys of their own: values of the counter depend on the order of evaluation."
                yield Diagnostic("E126", "the counter `$` (`autoinc()`) is not supported", node.span, hint=hint)
            case _:
                pass


SEMANTICS = ("stratified", "active")


def check_semantics(draft: Draft) -> Draft:
    """Pass: the semantics that a pragma asks for exists."""
    return draft.report(
        Diagnostic("E130", f"unknown semantics `{item.value}`", item.span, hint="Use `stratified` or `active`.")
        for item in draft.program.items
        if isinstance(item, Pragma) and item.key == "semantics" and item.value not in SEMANTICS
    )


def check_deletions(draft: Draft) -> Draft:
    """Pass: heads that delete need the semantics that has them."""
    if draft.semantics == "active":
        return draft
    hint = 'Add `.pragma "semantics" "active"`.'
    return draft.report(
        Diagnostic("E128", f"a head that deletes: `-{head.atom.relation}`", head.span, hint=hint)
        for rule in draft.open_rules()
        for head in rule.heads
        if head.deletes
    )
