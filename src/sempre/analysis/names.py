"""Names: every relation, functor and type that a rule mentions exists and is used with its arity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sempre.analysis.draft import Draft
from sempre.analysis.functor_signatures import FUNCTORS
from sempre.analysis.model import Relation
from sempre.analysis.naming import counted, nearest
from sempre.analysis.type_table import unknown_type
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.operators import AGGREGATES
from sempre.lang.syntax import Apply, Atom, Cast, Directive
from sempre.lang.walk import descend


def check_names(draft: Draft) -> Draft:
    """Pass: report unknown names and wrong arities; rules that have them are faulty."""
    diagnostics = list(_directive_problems(draft))
    faulty = set(draft.faulty)
    for number, rule in draft.open:
        nodes = list(descend(rule))
        found = list(_rule_problems(nodes, draft))
        diagnostics += found
        if found or any(isinstance(node, Atom) and node.relation not in draft.relations for node in nodes):
            faulty.add(number)
    return replace(draft, faulty=frozenset(faulty)).report(diagnostics)


def resolve_locations(draft: Draft) -> Draft:
    """Pass: a relation's location, from its declaration or else from the atoms; they must agree."""
    relations = dict(draft.relations)
    diagnostics: list[Diagnostic] = []
    for rule in draft.open_rules():
        for atom in (node for node in descend(rule) if isinstance(node, Atom)):
            relation = relations.get(atom.relation)
            if relation is None or atom.location is None or atom.location >= relation.arity:
                continue
            if relation.location is None:
                relations[relation.name] = replace(relation, location=atom.location)
            elif relation.location != atom.location:
                diagnostics.append(_misplaced(atom, relation))
    return replace(draft, relations=relations).report(diagnostics)


def _misplaced(atom: Atom, relation: Relation) -> Diagnostic:
    assert relation.location is not None
    column = relation.columns[relation.location]
    message = f"the location of `{relation.name}` is its column `{column}`"
    hint = f"Write `@` before argument {relation.location + 1}."
    return Diagnostic("E208", message, atom.span, hint=hint, notes=((relation.span, "declared here"),))


def _directive_problems(draft: Draft) -> Iterator[Diagnostic]:
    for item in draft.program.items:
        if isinstance(item, Directive):
            for name in item.relations:
                if name not in draft.relations:
                    yield _unknown(name, item.span, draft)


def _unknown(name: str, span: Span, draft: Draft) -> Diagnostic:
    # In a component, names are written without that of the instance.
    known = {each.rpartition(".")[2] for each in draft.relations} if span.within else draft.relations
    hint = nearest(name, known) or f"Declare it with `.decl {name}(...)`."
    return Diagnostic("E202", f"unknown relation `{name}`", span, hint=hint)


def _rule_problems(nodes: Iterable[object], draft: Draft) -> Iterator[Diagnostic]:
    for node in nodes:
        match node:
            case Atom():
                yield from _atom_problems(node, draft)
            case Apply():
                yield from _call_problems(node, draft)
            case Cast() if node.type_name not in draft.types.types and node.type_name not in draft.types.broken:
                yield unknown_type(node.type_name, node.span, draft.types.types)
            case _:
                pass


def _atom_problems(atom: Atom, draft: Draft) -> Iterator[Diagnostic]:
    relation = draft.relations.get(atom.relation)
    if relation is None:
        if atom.relation in FUNCTORS:
            hint = f"`{atom.relation}` is a functor: compare its result, as in `x = {atom.relation}(...)`."
            yield Diagnostic("E202", f"unknown relation `{atom.relation}`", atom.span, hint=hint)
        else:
            yield _unknown(atom.relation, atom.span, draft)
    elif len(atom.args) != relation.arity:
        message = f"`{atom.relation}` has {counted(relation.arity, 'column')}, not {len(atom.args)}"
        columns = ", ".join(relation.columns)
        hint = f"It is declared as `{relation.name}({columns})`."
        yield Diagnostic("E203", message, atom.span, hint=hint, notes=((relation.span, "declared here"),))


def _call_problems(call: Apply, draft: Draft) -> Iterator[Diagnostic]:
    functor = FUNCTORS.get(call.functor)
    if functor is not None:
        if functor.least <= len(call.args) <= functor.most:
            return
        message = f"`{call.functor}` takes {functor.takes()}, not {len(call.args)}"
        hint = _aggregate_hint(call) if call.functor in AGGREGATES else ""
        yield Diagnostic("E211", message, call.span, hint=hint)
    elif call.functor in draft.relations:
        hint = f"Write `{call.functor}(...)` as a literal of its own and join by a variable."
        yield Diagnostic("E210", f"`{call.functor}` is a relation, not a functor", call.span, hint=hint)
    else:
        hint = _aggregate_hint(call) if call.functor in AGGREGATES else nearest(call.functor, FUNCTORS)
        yield Diagnostic("E210", f"unknown functor `{call.functor}`", call.span, hint=hint)


def _aggregate_hint(call: Apply) -> str:
    name = call.functor
    term = "" if name == "count" else " x"
    whole = f"; as a whole argument of a head, `{name}(x)` aggregates" if name != "mean" else ""
    return f"To aggregate, write `{name}{term} : {{ ... }}`{whole}."
