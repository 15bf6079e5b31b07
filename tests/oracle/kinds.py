"""Declared types, and the kinds of terms: which arithmetic a functor means.

A small inference by repetition, over one clause: a column gives its kind to what stands in it, both sides of a
comparison have one kind, so have the operands and the result of `+ - * ...`, `min` and `max`; other functors have fixed
signatures. A literal without a suffix takes the kind of its surroundings, and is a `number` where nothing decides.
The kind of a record is the name of its type; of an alias or subtype, that of its base.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sempre.lang import syntax as s
from tests.oracle.values import POLYMORPHIC, SIGNATURES, OracleError

PRIMITIVES = ("number", "unsigned", "float", "symbol")


@dataclass(frozen=True)
class Schema:
    """Kinds of the columns of each relation and of the fields of each record; and what relations are."""

    columns: dict[str, tuple[str, ...]]
    fields: dict[str, tuple[str, ...]]
    types: dict[str, s.TypeDecl]
    inline: frozenset[str]
    equivalences: frozenset[str]
    branches: dict[str, tuple[str, tuple[str, ...]]]  # of algebraic types: the type, and the kinds of the fields
    aggregates: dict[str, tuple[str, str]]  # of the user's own: the kinds of what they take and give

    def resolve(self, name: str) -> str:
        return _resolve(self.types, name)


def schema_of(program: s.ParsedProgram) -> Schema:
    types = {item.name: item for item in program.items if isinstance(item, s.TypeDecl)}
    relations = [item for item in program.items if isinstance(item, s.RelationDecl)]
    fields = {
        name: tuple(_resolve(types, field.type_name) for field in item.definition.fields)
        for name, item in types.items()
        if isinstance(item.definition, s.RecordType)
    }
    columns = {r.name: tuple(_resolve(types, a.type_name) for a in r.attributes) for r in relations}
    inline = frozenset(r.name for r in relations if "inline" in r.qualifiers)
    equivalences = frozenset(r.name for r in relations if "eqrel" in r.qualifiers)
    branches = {
        branch: (name, tuple(_resolve(types, part.type_name) for part in parts))
        for name, item in types.items()
        if isinstance(item.definition, s.AlgebraicType)
        for branch, parts in item.definition.branches
    }
    aggregates = {
        f"@{item.name}": (_resolve(types, item.parameters[0].type_name), _resolve(types, item.result))
        for item in program.items
        if isinstance(item, s.FunctorDecl) and item.aggregates
    }
    return Schema(columns, fields, types, inline, equivalences, branches, aggregates)


def _resolve(types: dict[str, s.TypeDecl], name: str) -> str:
    if name in PRIMITIVES:
        return name
    definition = types[name].definition
    match definition:
        case s.Subtype(base):
            return _resolve(types, base)
        case s.Union(members):
            return _resolve(types, members[0])
        case s.RecordType() | s.AlgebraicType():
            return name
    raise OracleError(f"type {name} is not evaluated here")


class Kinds:
    """The kinds of the variables of one clause."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.variables: dict[str, str] = {}

    def of(self, term: s.Term | None) -> str | None:
        """The kind of `term`, if something in it decides that."""
        match term:
            case s.Variable(name):
                return self.variables.get(name)
            case s.Branch(name, _):
                return self.schema.branches[name][0]
            case s.Unsigned():
                return "unsigned"
            case s.Float():
                return "float"
            case s.String():
                return "symbol"
            case s.Cast(_, type_name):
                return self.schema.resolve(type_name)
            case s.Aggregate(kind, _, _) if kind in self.schema.aggregates:
                return self.schema.aggregates[kind][1]
            case s.Aggregate(kind, inner, _):
                return {"count": "number", "mean": "float"}.get(kind) or self.of(inner)
            case s.Apply(("f_first" | "f_last"), (items,)):
                return self.schema.fields[held][0] if (held := self.of(items)) else None
            case s.Apply(functor, args):
                return SIGNATURES[functor][1] if functor in SIGNATURES else self.first(args)
        return None

    def first(self, terms: Iterable[s.Term]) -> str | None:
        return next(filter(None, map(self.of, terms)), None)

    def operands(self, term: s.Apply, kind: str | None) -> list[str]:
        """The kinds of the arguments of `term`, of which `kind` is expected."""
        if term.functor in POLYMORPHIC:
            return [self.first(term.args) or kind or "number"] * len(term.args)
        if term.functor not in SIGNATURES:
            raise OracleError(f"unknown functor {term.functor}")
        fixed = list(SIGNATURES[term.functor][0])
        fixed += fixed[-1:] * (len(term.args) - len(fixed))
        return [want or self.of(arg) or "number" for want, arg in zip(fixed, term.args, strict=False)]

    def expect(self, term: s.Term | None, kind: str | None) -> None:
        """Learns that `term` is of `kind`."""
        if kind is None:
            return
        match term:
            case s.Variable(name):
                self.variables.setdefault(name, kind)
            case s.Record(args) if kind in self.schema.fields:
                for arg, field in zip(args, self.schema.fields[kind], strict=True):
                    self.expect(arg, field)
            case s.Branch(name, args):
                for arg, field in zip(args, self.schema.branches[name][1], strict=True):
                    self.expect(arg, field)
            case s.Apply(functor, args) if functor in POLYMORPHIC:
                for arg in args:
                    self.expect(arg, kind)
            case s.Aggregate(("min" | "max" | "sum"), inner, _):
                self.expect(inner, kind)

    def learn(self, part: s.Formula) -> None:
        match part:
            case s.Atom(relation, args):
                for arg, kind in zip(args, self.schema.columns[relation], strict=True):
                    self.expect(arg, kind)
                    self.learn_term(arg)
            case s.Comparison(_, left, right):
                common = self.of(left) or self.of(right)
                for side in (left, right):
                    self.expect(side, common)
                    self.learn_term(side)
            case s.Negation(body):
                self.learn(body)
            case s.Conjunction(parts) | s.Disjunction(parts):
                for inner in parts:
                    self.learn(inner)

    def learn_term(self, term: s.Term | None) -> None:
        match term:
            case s.Apply(functor, args):
                known = functor in SIGNATURES or self.first(args) is not None
                for arg, kind in zip(args, self.operands(term, None) if known else [], strict=False):
                    if functor in POLYMORPHIC or SIGNATURES[functor][0] != (None,):
                        self.expect(arg, kind)
                for arg in args:
                    self.learn_term(arg)
            case s.Record(args) | s.Branch(_, args):
                for arg in args:
                    self.learn_term(arg)
            case s.Cast(inner, _):
                self.learn_term(inner)
            case s.Aggregate(kind, inner, body):
                if kind in self.schema.aggregates:
                    self.expect(inner, self.schema.aggregates[kind][0])
                self.learn(body)
                self.learn_term(inner)


def infer(schema: Schema, head: s.Atom, body: list[s.Formula]) -> Kinds:
    """The kinds of all variables of a clause; kinds flow until nothing new is learned."""
    kinds = Kinds(schema)
    before = -1
    while before != len(kinds.variables):
        before = len(kinds.variables)
        for part in body:
            kinds.learn(part)
        kinds.learn(head)
    return kinds
