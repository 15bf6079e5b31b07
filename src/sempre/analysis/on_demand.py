"""`demand` at a declaration: which relations can be derived as far as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator

from sempre.analysis.draft import Draft
from sempre.analysis.model import Relation
from sempre.diagnostics import Diagnostic


def check_demand(draft: Draft) -> Draft:
    """Pass: no relation is on demand that somebody has in full anyway, or that nobody derives."""
    declared = [relation for relation in draft.relations.values() if "demand" in relation.qualifiers]
    if not declared:
        return draft
    derived = {head.atom.relation for rule in draft.open_rules() if not rule.is_fact for head in rule.heads}
    return draft.report(problem for relation in declared for problem in _problems(draft, relation, derived))


def _problems(draft: Draft, relation: Relation, derived: set[str]) -> Iterator[Diagnostic]:
    name = relation.name
    for reason, hint in _reasons(draft, relation, derived):
        yield Diagnostic("E214", f"`{name}` cannot be derived on demand: {reason}", relation.span, hint=hint)


def _reasons(draft: Draft, relation: Relation, derived: set[str]) -> Iterator[tuple[str, str]]:
    """Why a relation cannot be on demand, and what to do about it."""
    remove = "Remove `demand`."
    if draft.semantics == "active":
        yield "active rules derive what they derive in cycles", remove
    if relation.outputs or relation.printsize:
        yield "all of it is written out", "Remove `demand`, or the output."
    if relation.is_equivalence:
        yield "an equivalence is closed as a whole", remove
    if relation.aggregate is not None:
        yield "its rules aggregate in their heads", "Remove `demand`, or put it at a relation that reads this one."
    if "inline" in relation.qualifiers:
        yield "it is inlined", "Remove `demand` or `inline`."
    if relation.name not in derived:
        yield "it has no rules", remove
