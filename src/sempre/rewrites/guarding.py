"""What guards need beside their relations: the numbers that counters give, and a place for pairs of a subsumption.

A rule with a counter is split. Its instances become rows of a relation, which get their numbers there:

    autoinc#1(x, y, 0) :- body.          the last column is set by the guard
    h(x, n)            :- autoinc#1(x, y, n).

An instance keeps its number as long as it holds. Where a program has k counters, their numbers are k apart.
"""

from __future__ import annotations

from dataclasses import replace

from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Expr,
    Fold,
    Guard,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Stratum,
    Type,
    Unpack,
    Var,
)
from sempre.analysis.strata import arranged

AUTOINC = "autoinc"
UNDER = "#under"


def with_guards(program: CheckedProgram) -> CheckedProgram:
    """The program with relations for its counters, and for the pairs of its subsumptions."""
    return _with_pairs(_with_counters(program))


def _with_pairs(program: CheckedProgram) -> CheckedProgram:
    added = {
        name + UNDER: Relation(name + UNDER, relation.columns * 2, relation.types * 2)
        for name, relation in program.relations.items()
        if name in program.guards and program.guards[name].dominance
    }
    if not added:
        return program
    first = len(program.strata)
    strata = tuple(Stratum(first + at, (name,), (), ()) for at, name in enumerate(added))
    return replace(program, relations={**program.relations, **added}, strata=(*program.strata, *strata))


def _with_counters(program: CheckedProgram) -> CheckedProgram:
    counted = [rule for rule in program.rules if _counters(rule)]
    if not counted:
        return program
    apart = sum(len(_counters(rule)) for rule in counted)
    relations, guards = dict(program.relations), dict(program.guards)
    rules: list[NormalRule] = []
    more: list[NormalRule] = []
    made = 0
    for rule in program.rules:
        found = _counters(rule)
        if not found:
            rules.append(rule)
            continue
        own, later = _split(rule, found)
        names = sorted({name for literal in own for name in _bound(literal)})
        for var in found:
            name = f"{AUTOINC}#{made + 1}"
            relations[name] = _numbered(program, name, rule, names)
            guards[name] = Guard(numbered=(apart, made))
            made += 1
            columns = tuple(Var(each) for each in names)
            head: tuple[Expr, ...] = (*columns, Const(0, Kind.NUMBER))
            number = len(program.rules) + len(more)
            more.append(replace(rule, number=number, relation=name, args=head, body=tuple(own)))
            later.insert(0, Match(name, (*columns, Var(var)), rule.span))
        rules.append(replace(rule, body=tuple(later)))
    rules += more
    return replace(program, rules=tuple(rules), relations=relations, guards=guards, strata=arranged(relations, rules))


def _counters(rule: NormalRule) -> list[str]:
    """The variables that get the value of a counter."""
    return [
        literal.left.name
        for literal in rule.body
        if isinstance(literal, Compare)
        and isinstance(literal.left, Var)
        and isinstance(literal.right, Call)
        and literal.right.op == AUTOINC
    ]


def _split(rule: NormalRule, counters: list[str]) -> tuple[list[Literal], list[Literal]]:
    """The literals that have nothing to do with a counter, and those that need one."""
    tainted = set(counters)
    while True:
        needing = [literal for literal in rule.body if _mentioned(literal) & tainted]
        # What an equation binds from a counter is not there before either.
        grown = tainted | {
            name
            for literal in needing
            for name in _bound(literal)
            if not any(name in _bound(other) for other in rule.body if other not in needing)
        }
        if grown == tainted:
            break
        tainted = grown
    own = [literal for literal in rule.body if literal not in needing]
    later = [literal for literal in needing if not _is_counter(literal)]
    zero = Const(0, Kind.NUMBER)
    return own or [Compare("=", zero, zero, Kind.NUMBER, rule.span)], later


def _is_counter(literal: Literal) -> bool:
    return isinstance(literal, Compare) and isinstance(literal.right, Call) and literal.right.op == AUTOINC


def _names(expr: Expr) -> set[str]:
    if isinstance(expr, Var):
        return {expr.name}
    return {name for arg in expr.args for name in _names(arg)} if isinstance(expr, Call) else set()


def _mentioned(literal: Literal) -> set[str]:
    match literal:
        case Match(_, args):
            return {name for arg in args for name in _names(arg)}
        case Unpack(record, fields):
            return {record.name, *(name for arg in fields for name in _names(arg))}
        case Compare(_, left, right):
            return _names(left) | _names(right)
        case Not():
            return {var.name for var in literal.shared}
        case Fold():
            return {literal.result.name, *(var.name for var in literal.shared)}


def _bound(literal: Literal) -> set[str]:
    """The variables that a literal may bind."""
    if isinstance(literal, Fold):
        return {literal.result.name}
    return set() if isinstance(literal, Not) else _mentioned(literal)


def _numbered(program: CheckedProgram, name: str, rule: NormalRule, names: list[str]) -> Relation:
    types = []
    for each in names:
        kind = rule.kinds[each]
        record = rule.records.get(each, "")
        types.append(program.types.get(record) or Type(record or kind.value, kind))
    columns = (*(f"c{at}" for at in range(len(names))), "number")
    return Relation(name, columns, (*types, program.types[Kind.NUMBER.value]))
