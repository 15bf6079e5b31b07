"""Checked programs as text: what a rewrite made of one, in the language.

Names with `#` are of what no program declares. A variable that the user did not write begins with `_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Expr,
    Fact,
    Fold,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Unpack,
    Var,
)
from sempre.analysis.naming import shown
from sempre.lang import syntax
from sempre.lang.printer import item_text
from sempre.python_functions import name_of

Relations = Mapping[str, Relation]


def program_text(program: CheckedProgram) -> str:
    """The declarations, facts and rules of a program; each relation after those that it is made of."""
    lines = []
    for stratum in program.strata:
        lines += [declaration_text(program.relations[name]) for name in stratum.relations]
        lines += [fact_text(fact, program.relations) for fact in program.facts if fact.relation in stratum.relations]
        rules = sorted((*stratum.nonrecursive, *stratum.recursive), key=lambda rule: rule.number)
        lines += [rule_text(rule, program.relations) for rule in rules]
    lines += [f"// when asked for: {rule_text(rule, program.relations)}" for rule in program.deferred.values()]
    return "".join(f"{line}\n" for line in lines)


def declaration_text(relation: Relation) -> str:
    """The declaration of a relation, and what is read from files and written to them."""
    columns = tuple(
        syntax.Attribute(name, type_.name, index == relation.location)
        for index, (name, type_) in enumerate(zip(relation.columns, relation.types, strict=True))
    )
    items: list[syntax.Item] = [syntax.RelationDecl(relation.name, columns, tuple(sorted(relation.qualifiers)))]
    kinds = (("input", relation.inputs), ("output", relation.outputs), ("printsize", relation.printsize))
    items += [syntax.Directive(kind, (relation.name,)) for kind, said in kinds if said]
    return "\n".join(map(item_text, items))


def fact_text(fact: Fact, relations: Relations) -> str:
    """A fact of the program."""
    return item_text(syntax.Rule((syntax.Head(_head(relations[fact.relation], fact.args)),)))


def rule_text(rule: NormalRule, relations: Relations) -> str:
    """A rule, with every head, atom and test in its normal form."""
    head = syntax.Head(_head(relations[rule.relation], rule.args), rule.deletes)
    return item_text(syntax.Rule((head,), _conjunction(rule.body, relations)))


def _head(relation: Relation, args: Iterable[Expr]) -> syntax.Atom:
    terms = [_term(arg) for arg in args]
    if relation.aggregate is not None:
        kind, column = relation.aggregate
        terms[column] = syntax.HeadAggregate(kind, terms[column])
    return syntax.Atom(relation.name, tuple(terms), relation.location)


def _conjunction(body: Iterable[Literal], relations: Relations) -> syntax.Formula:
    return syntax.conjunction([_formula(literal, relations) for literal in body])


def _formula(literal: Literal, relations: Relations) -> syntax.Formula:
    match literal:
        case Match(relation, args):
            return syntax.Atom(relation, tuple(map(_term, args)), relations[relation].location)
        case Compare(op, left, right):
            test = syntax.Comparison(op.removeprefix("not_"), _term(left), _term(right))
            return syntax.Negation(test) if op.startswith("not_") else test
        case Unpack(record, fields):
            return syntax.Comparison("=", _term(record), syntax.Record(tuple(map(_term, fields))))
        case Not(body):
            return syntax.Negation(_conjunction(body, relations))
        case Fold(result, kind, expr, body):
            target = None if expr is None else _term(expr)
            own = name_of(kind)
            aggregate = syntax.Aggregate(f"@{own}" if own else kind, target, _conjunction(body, relations))
            return syntax.Comparison("=", _term(result), aggregate)


def _term(expr: Expr) -> syntax.Term:
    match expr:
        case Var(name):
            return syntax.Variable(name if shown(name) == name else f"_{name.replace('#', '')}")
        case Const():
            return _constant(expr)
        case Call("record", args):
            return syntax.Record(tuple(map(_term, args)))
        case Call(op, args) if name := name_of(op):
            return syntax.UserCall(name, tuple(map(_term, args)))
        case Call(op, args):
            return syntax.Apply(op, tuple(map(_term, args)))


def _constant(const: Const) -> syntax.Term:
    value = const.value
    if isinstance(value, str):
        return syntax.String(value)
    if isinstance(value, float):
        return syntax.Float(value)
    if value is None:
        return syntax.Nil()
    return syntax.Unsigned(value) if const.kind is Kind.UNSIGNED else syntax.Number(value)
