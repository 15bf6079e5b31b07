"""Facts of literals, taken by a short way: a program may be mostly data.

A fact that fits its relation needs none of the other passes. Anything else, wrong facts included, is left to them: they
know how to say what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sempre.analysis.draft import Draft
from sempre.analysis.model import Const, Fact, Kind, Relation
from sempre.analysis.type_inference import LEAST_NUMBER, MOST_FLOAT, MOST_NUMBER, MOST_UNSIGNED
from sempre.lang.syntax import Atom, Float, Number, Rule, String, Term, Unsigned, is_plain_fact


def take_plain_facts(draft: Draft) -> Draft:
    """Pass: the facts that are right as they stand, apart from the rules that need checks."""
    plain: list[tuple[int, Fact]] = []
    open_: list[tuple[int, Rule]] = []
    fitting = {name: relation for name, relation in draft.relations.items() if _is_fitting(relation, draft)}
    for number, rule in enumerate(draft.program.rules()):
        fact = plain_fact(rule, fitting) if is_plain_fact(rule) else None
        if fact is None:
            open_.append((number, rule))
        else:
            plain.append((number, fact))
    return replace(draft, plain=tuple(plain), open=tuple(open_))


def _is_fitting(relation: Relation, draft: Draft) -> bool:
    """Whether facts of a relation can be taken as they are: it is not inlined, and its types are known."""
    return "inline" not in relation.qualifiers and all(type_.name in draft.types.types for type_ in relation.types)


def plain_fact(rule: Rule, relations: Mapping[str, Relation]) -> Fact | None:
    """The fact that a rule states, or None where it does not fit."""
    atom = rule.heads[0].atom
    relation = relations.get(atom.relation)
    if relation is None or len(atom.args) != relation.arity or not _location_fits(atom, relation):
        return None
    args = []
    for term, kind in zip(atom.args, relation.kinds, strict=True):
        constant = literal(term, kind)
        if constant is None:
            return None
        args.append(constant)
    return Fact(relation.name, tuple(args), "", rule.span)


def _location_fits(atom: Atom, relation: Relation) -> bool:
    return atom.location is None or atom.location == relation.location


def literal(term: Term, kind: Kind) -> Const | None:
    """A literal as a constant of `kind`, or None where it is none or does not fit."""
    match term:
        case Number(value) if kind is Kind.NUMBER and LEAST_NUMBER <= value <= MOST_NUMBER:
            return Const(value, kind)
        case Number(value) | Unsigned(value) if kind is Kind.UNSIGNED and 0 <= value <= MOST_UNSIGNED:
            return Const(value, kind)
        case String(value) if kind is Kind.SYMBOL:
            return Const(value, kind)
        case Number(value) | Float(value) if kind is Kind.FLOAT and abs(value) <= MOST_FLOAT:
            return Const(float(value), kind)
        case _:
            return None
