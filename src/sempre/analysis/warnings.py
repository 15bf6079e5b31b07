"""What is probably a mistake but changes nothing: it never stops a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sempre.analysis.draft import Draft
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import Atom, Rule, Variable
from sempre.lang.walk import descend, variables


def warn(draft: Draft) -> Draft:
    """Pass: relations that nothing uses, and variables that occur once."""
    return draft.report([*_unused_relations(draft), *_single_variables(draft)])


def _unused_relations(draft: Draft) -> Iterator[Diagnostic]:
    """Relations that are neither read nor written out; a program that writes nothing out is asked for everything."""
    read, derived = _mentioned(draft)
    writes = any(relation.outputs or relation.printsize for relation in draft.relations.values())
    for name, relation in draft.relations.items():
        wanted = relation.outputs or relation.printsize if writes else name in derived or relation.inputs
        if name not in read and not wanted:
            message = f"relation `{name}` is never used"
            hint = f"Write it out with `.output {name}`, or remove it."
            yield Diagnostic("W201", message, relation.span, hint=hint, severity="warning")


def _mentioned(draft: Draft) -> tuple[set[str], set[str]]:
    """The relations that rules read, and those that rules or facts derive."""
    read: set[str] = set()
    derived = {fact.relation for _, fact in draft.plain}
    for rule in draft.open_rules():
        derived |= {head.atom.relation for head in rule.heads}
        terms = tuple(arg for head in rule.heads for arg in head.atom.args)
        read |= {node.relation for node in descend((terms, rule.body)) if isinstance(node, Atom)}
    return read, derived


def _single_variables(draft: Draft) -> Iterator[Diagnostic]:
    for rule in draft.open_rules():
        if rule.is_fact:
            continue
        for variable in _singles(rule):
            message = f"variable `{variable.name}` occurs only once"
            hint = f"Write `_` or `_{variable.name}` if that is meant."
            yield Diagnostic("W202", message, variable.span, hint=hint, severity="warning")


def _singles(rule: Rule) -> list[Variable]:
    found = variables(rule)
    counts = Counter(variable.name for variable in found)
    return [variable for variable in found if counts[variable.name] == 1 and not variable.name.startswith("_")]
