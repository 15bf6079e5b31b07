"""What a semantics does not have: refused by name, never silently different."""

from __future__ import annotations

from sempre.analysis.draft import Draft
from sempre.analysis.lifting import RANGE
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import (
    Apply,
    Pragma,
)
from sempre.lang.walk import descend

SEMANTICS = ("stratified", "active")


def check_semantics(draft: Draft) -> Draft:
    """Pass: the semantics that a pragma asks for exists."""
    return draft.report(
        Diagnostic("E130", f"unknown semantics `{item.value}`", item.span, hint="Use `stratified` or `active`.")
        for item in draft.program.items
        if isinstance(item, Pragma) and item.key == "semantics" and item.value not in SEMANTICS
    )


def check_cycles(draft: Draft) -> Draft:
    """Pass: active rules run in cycles, where what is evaluated by rules of its own has no place."""
    if draft.semantics != "active":
        return draft
    return draft.report(
        Diagnostic("E161", "active rules have no `range`", node.span, hint="Make a relation of the numbers.")
        for rule in draft.open_rules()
        for node in descend(rule)
        if isinstance(node, Apply) and node.functor == RANGE
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
