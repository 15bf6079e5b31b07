"""What is probably a mistake but changes nothing: it never stops a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sempre.analysis.draft import Draft
from sempre.analysis.model import Kind
from sempre.analysis.naming import nearest
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import (
    Aggregate,
    Atom,
    Directive,
    Negation,
    Pragma,
    RelationDecl,
    Rule,
    Subtype,
    TypeDecl,
    Variable,
    Wildcard,
)
from sempre.lang.walk import descend, variables

PRAGMAS = ("semantics", "magic", "magic-transform", "legacy")


def warn(draft: Draft) -> Draft:
    """Pass: what has no effect, what nothing uses, what is empty, and what Soufflé would count otherwise."""
    read, derived = _mentioned(draft)
    return draft.report([
        *_unused_relations(draft, read, derived),
        *_single_variables(draft),
        *_unknown_pragmas(draft),
        *_empty_relations(draft, read, derived),
        *_counted_wildcards(draft),
        *_deprecated(draft),
        *_twice_directed(draft),
        *_record_subtypes(draft),
    ])  # fmt: skip


def _unused_relations(draft: Draft, read: set[str], derived: set[str]) -> Iterator[Diagnostic]:
    """Relations that are neither read nor written out; a program that writes nothing out is asked for everything."""
    writes = any(relation.outputs or relation.printsize for relation in draft.relations.values())
    for name, relation in draft.relations.items():
        wanted = relation.outputs or relation.printsize if writes else name in derived or relation.inputs
        if relation.span.within:
            continue  # a component is there for several uses, and none has to use all of it
        if name not in read and not wanted and "demand" not in relation.qualifiers:
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


def _unknown_pragmas(draft: Draft) -> Iterator[Diagnostic]:
    for item in draft.program.items:
        if isinstance(item, Pragma) and item.key not in PRAGMAS:
            hint = (
                nearest(item.key, PRAGMAS)
                or "Remove it; `semantics`, `magic` and `legacy` are those that have an effect."
            )
            message = f"the pragma `{item.key}` has no effect"
            yield Diagnostic("W204", message, item.span, hint=hint, severity="warning")


def _deprecated(draft: Draft) -> Iterator[Diagnostic]:
    """Words of early versions of Soufflé, which warns of them, too."""
    for item in draft.program.items:
        if isinstance(item, RelationDecl):
            for word in item.qualifiers:
                if word in ("input", "output", "printsize"):
                    message = f"the qualifier `{word}` is of an early version of Soufflé"
                    hint = f"Write `.{word} {item.name}`."
                    yield Diagnostic("W210", message, item.span, hint=hint, severity="warning")
        elif isinstance(item, TypeDecl) and item.old:
            message = f"this declaration of `{item.name}` is of an early version of Soufflé"
            base = item.definition.base if isinstance(item.definition, Subtype) else "symbol"
            hint = f"Write `.type {item.name} <: {base}`."
            yield Diagnostic("W210", message, item.span, hint=hint, severity="warning")


def _twice_directed(draft: Draft) -> Iterator[Diagnostic]:
    """The same `.input` or `.output` twice: the second adds nothing."""
    for relation in draft.relations.values():
        for word, directives in (("input", relation.inputs), ("output", relation.outputs)):
            seen: dict[frozenset[tuple[str, str]], Directive] = {}
            for directive in directives:
                key = frozenset(directive.options)
                if key in seen:
                    message = f"`.{word} {relation.name}` is written twice"
                    notes = ((seen[key].span, "the first is here"),)
                    hint = "Remove one, or give it another file."
                    yield Diagnostic("W211", message, directive.span, "", hint, "warning", notes)
                seen.setdefault(key, directive)


def _record_subtypes(draft: Draft) -> Iterator[Diagnostic]:
    """Subtypes of records, which Soufflé does not take."""
    for name, decl in draft.types.declared.items():
        if isinstance(decl.definition, Subtype) and draft.types.types[name].kind is Kind.RECORD:
            message = f"`{name}` is a subtype of a record, which Soufflé does not have"
            hint = f"Write `.type {name} = {decl.definition.base}`, which both take."
            yield Diagnostic("W212", message, decl.span, hint=hint, severity="warning")


def _empty_relations(draft: Draft, read: set[str], derived: set[str]) -> Iterator[Diagnostic]:
    """Relations that rules read and nothing fills; a program that states and reads no facts is given all of them."""
    if not draft.plain and not any(relation.inputs for relation in draft.relations.values()):
        return
    for name, relation in draft.relations.items():
        if name in read and name not in derived and not relation.inputs:
            message = f"relation `{name}` is read, and has no rule, no fact and no input"
            hint = f"Read it with `.input {name}`; without, only changes can give it facts."
            yield Diagnostic("W205", message, relation.span, hint=hint, severity="warning")


def _counted_wildcards(draft: Draft) -> Iterator[Diagnostic]:
    """`_` in the body of `count`, `sum` or `mean` where Soufflé first makes a relation without it."""
    for rule in draft.open_rules():
        for aggregate in (node for node in descend(rule) if isinstance(node, Aggregate)):
            if aggregate.kind in ("min", "max") or not _is_materialized(aggregate):
                continue
            for wildcard in _wildcards(aggregate):
                message = "each value of `_` counts here; Soufflé would count them as one"
                detail = "Soufflé leaves `_` out where the body of an aggregate is more than one plain atom."
                hint = "Write a name, such as `_x`: it counts in both. Or read a relation without that column."
                yield Diagnostic("W206", message, wildcard.span, detail, hint, "warning")


def _is_materialized(aggregate: Aggregate) -> bool:
    """Whether Soufflé makes a relation of the body: several atoms, an aggregate inside, or a variable twice."""
    atoms = list(_atoms(aggregate))
    inner = any(isinstance(node, Aggregate) for node in descend((aggregate.term, aggregate.body)))
    names = Counter(variable.name for atom in atoms for variable in variables(atom))
    return len(atoms) > 1 or inner or any(count > 1 for count in names.values())


def _atoms(aggregate: Aggregate) -> Iterator[Atom]:
    """The positive atoms of the body, not those of aggregates in it."""
    found = descend(aggregate.body, lambda node: not isinstance(node, Negation | Aggregate))
    return (node for node in found if isinstance(node, Atom))


def _wildcards(aggregate: Aggregate) -> Iterator[Wildcard]:
    for atom in _atoms(aggregate):
        found = descend(atom, lambda node: not isinstance(node, Aggregate))
        yield from (node for node in found if isinstance(node, Wildcard))
