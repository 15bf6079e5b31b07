"""Types: the kind of every term of a clause, and whether declared types fit together.

Kinds (number, unsigned, float, symbol, record) are inferred by merging the terms that must agree. Declared subtypes
are checked afterwards: the types that a variable's positive atoms give it must have a common subtype, and a head takes
only what is a subtype of its column, as in Soufflé. Results of functors, and literals, fit every subtype of their kind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sempre.analysis.algebraic import no_record, unknown_branch, wrong_fields
from sempre.analysis.alternatives import literals_of
from sempre.analysis.draft import Clause, Draft
from sempre.analysis.functor_signatures import AGGREGABLE, AGGREGATE_RESULT, COMPARABLE, FUNCTORS, LIST_ELEMENT
from sempre.analysis.kinds import Classes, Key, Sort
from sempre.analysis.model import Kind, Relation, Type
from sempre.analysis.naming import counted, shown
from sempre.analysis.type_table import TypeTable
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.printer import to_text
from sempre.lang.syntax import (
    Aggregate,
    Apply,
    Atom,
    Branch,
    Cast,
    Comparison,
    Counter,
    Float,
    Formula,
    HeadAggregate,
    Negation,
    Nil,
    Number,
    Pragma,
    Record,
    String,
    Term,
    Truth,
    Unsigned,
    UserCall,
    Variable,
)

LEAST_NUMBER, MOST_NUMBER, MOST_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1
MOST_FLOAT = sys.float_info.max


def key_of(term: Term) -> Key:
    """What identifies a term while its clause is alive: its name for a variable, else the node itself."""
    return term.name if isinstance(term, Variable) else id(term)


@dataclass(frozen=True, slots=True)
class Typing:
    """The kinds of a clause's terms, and what is wrong with them."""

    classes: Classes
    diagnostics: tuple[Diagnostic, ...]

    def kind(self, term: Term) -> Kind:
        return self.classes.sort(key_of(term)).kind

    def record(self, term: Term) -> str | None:
        return self.classes.sort(key_of(term)).record


def check_types(draft: Draft) -> Draft:
    """Pass: report clashes of types, in the rules as they were written; the kinds are kept for those that stay.

    Under the pragma `legacy`, subtypes of one type flow into each other.
    """
    legacy = any(isinstance(item, Pragma) and item.key == "legacy" for item in draft.program.items)
    typings = {id(clause): infer(clause, draft.relations, draft.types, legacy) for clause in draft.written}
    checked = draft.report_clauses((clause, typings[id(clause)].diagnostics) for clause in draft.written)
    return replace(checked, typings=typings)


def infer(clause: Clause, relations: Mapping[str, Relation], types: TypeTable, legacy: bool = False) -> Typing:
    """The kinds of all terms of a clause."""
    inference = _Inference(relations, types)
    inference.body(clause.body)
    inference.atom(clause.head.atom, sink=True)
    inference.records()
    inference.literals()
    diagnostics = [*inference.diagnostics]
    if not diagnostics and not legacy:
        diagnostics += inference.subtypes()
    return Typing(inference.classes, tuple(diagnostics))


class _Inference:
    """Reads a clause once, merging classes; then settles records, literals and subtypes."""

    def __init__(self, relations: Mapping[str, Relation], types: TypeTable) -> None:
        self.relations = relations
        self.types = types
        self.classes = Classes()
        self.diagnostics: list[Diagnostic] = []
        self.record_terms: list[Record | Apply] = []
        self.nil_terms: list[Nil] = []
        self.number_terms: list[Number | Unsigned | Float] = []
        self.sources: dict[str, list[tuple[str, Span]]] = {}
        self.sinks: list[tuple[Variable, str, str]] = []

    # ---------------------------------------------------------------------------------------------- reading

    def body(self, body: Iterable[Formula], positive: bool = True) -> None:
        for literal in body:
            match literal:
                case Atom():
                    self.atom(literal, source=positive)
                case Comparison():
                    self.comparison(literal)
                case Negation(inner):
                    self.body(literals_of(inner), positive=False)
                case Truth() | _:
                    pass

    def atom(self, atom: Atom, source: bool = False, sink: bool = False) -> None:
        relation = self.relations[atom.relation]
        for index, argument in enumerate(atom.args):
            type_ = relation.types[index]
            column = f"column `{relation.columns[index]}` of `{relation.name}`"
            term = self.head_aggregate(argument, type_, column) if isinstance(argument, HeadAggregate) else argument
            if term is None:
                continue
            self.term(term)
            if type_.name not in self.types.types:
                continue
            self.require_type(term, type_.name, column)
            if isinstance(term, Variable) and source:
                self.sources.setdefault(term.name, []).append((type_.name, term.span))
            elif isinstance(term, Variable) and sink:
                self.sinks.append((term, type_.name, column))

    def head_aggregate(self, aggregate: HeadAggregate, type_: Type, column: str) -> Term | None:
        """Check the aggregate in a head; the term to hold against the column, if that is the term under it."""
        self.term(aggregate.term)
        self.require(aggregate.term, Sort(AGGREGABLE[aggregate.kind]), f"`{aggregate.kind}`")
        if aggregate.kind != "count":
            return aggregate.term
        if type_.name in self.types.types and type_.kind is not Kind.NUMBER:
            message = f"`count` gives a number, but {column} is {Sort(frozenset({type_.kind})).text}"
            self.diagnostics.append(Diagnostic("E301", message, aggregate.span))
        return None

    def comparison(self, literal: Comparison) -> None:
        self.term(literal.left)
        self.term(literal.right)
        allowed = Sort(COMPARABLE[literal.op])
        left_fits = self.require(literal.left, allowed, f"`{literal.op}`")
        if self.require(literal.right, allowed, f"`{literal.op}`") and left_fits:
            self.same(literal.left, literal.right, f"`{literal.op}` compares values of one kind")

    def term(self, term: Term) -> None:
        """Read a term: everything that it says by itself about itself and its parts."""
        match term:
            case Number():
                self.number_terms.append(term)
                self.says(term, Kind.NUMBER, Kind.UNSIGNED, Kind.FLOAT)
            case Unsigned():
                self.number_terms.append(term)
                self.says(term, Kind.UNSIGNED)
            case Float():
                self.number_terms.append(term)
                self.says(term, Kind.FLOAT)
            case String():
                self.says(term, Kind.SYMBOL)
            case Nil():
                self.says(term, Kind.RECORD)
                self.nil_terms.append(term)
            case Counter():
                self.says(term, Kind.NUMBER)
            case Record(args):
                self.says(term, Kind.RECORD)
                self.record_terms.append(term)
                for arg in args:
                    self.term(arg)
            case Branch():
                self.branch(term)
            case UserCall():
                self.user_call(term)
            case Apply():
                self.call(term)
            case Cast(inner, type_name):
                self.cast(term, inner, type_name)
            case Aggregate():
                self.aggregate(term)
            case _:
                pass

    def branch(self, branch: Branch) -> None:
        """Read `$name(args)`: the name says which type it is of, and which types its arguments have."""
        self.says(branch, Kind.RECORD)
        for arg in branch.args:
            self.term(arg)
        if branch.name not in self.types.branches:
            self.diagnostics.append(unknown_branch(branch, self.types.branches))
            return
        type_name, number = self.types.branches[branch.name]
        self.require(branch, Sort(frozenset({Kind.RECORD}), type_name), f"branch `${branch.name}`")
        fields = self.types.types[self.types.types[type_name].branches[number][1]].fields
        if len(fields) != len(branch.args):
            self.diagnostics.append(wrong_fields(branch, type_name, fields))
            return
        for arg, (field, inner) in zip(branch.args, fields, strict=True):
            self.require_type(arg, inner, f"field `{field}` of `${branch.name}`")

    def user_call(self, call: UserCall) -> None:
        """Read `@name(args)`, whose types are declared."""
        declared = self.types.functors[call.name]
        for arg, parameter in zip(call.args, declared.parameters, strict=True):
            self.term(arg)
            self.require_type(arg, parameter.type_name, f"`@{call.name}`")
        if declared.result in self.types.types:
            self.says(call, self.types.types[declared.result].kind)

    def call(self, call: Apply) -> None:
        functor = FUNCTORS[call.functor]
        for index, arg in enumerate(call.args):
            self.term(arg)
            allowed = functor.same or functor.parameter(index)
            fits = self.require(arg, Sort(allowed), f"`{call.functor}`")
            if fits and functor.same:
                self.same(call, arg, f"the operands of `{call.functor}` are of one kind")
        if functor.result is not None:
            self.says(call, functor.result)
        if call.functor in LIST_ELEMENT and len(call.args) >= functor.least:
            self.record_terms.append(call)

    def cast(self, cast: Cast, inner: Term, type_name: str) -> None:
        self.term(inner)
        self.require_type(cast, type_name, f"`as(..., {type_name})`")
        hint = "`as` does not convert; use `itou`, `itof`, `to_string` and the like."
        self.same(cast, inner, "`as` keeps the kind of its value", hint)

    def aggregate(self, aggregate: Aggregate) -> None:
        self.body(literals_of(aggregate.body))
        if aggregate.kind.startswith("@"):
            self.user_aggregate(aggregate)
            return
        if aggregate.term is not None:
            self.term(aggregate.term)
            self.require(aggregate.term, Sort(AGGREGABLE[aggregate.kind]), f"`{aggregate.kind}`")
        if aggregate.kind in AGGREGATE_RESULT:
            self.says(aggregate, AGGREGATE_RESULT[aggregate.kind])
        elif aggregate.term is not None:
            self.same(aggregate, aggregate.term, f"`{aggregate.kind}` gives what it is taken of")

    def user_aggregate(self, aggregate: Aggregate) -> None:
        """Read `@name term : { ... }`, whose types are declared."""
        declared = self.types.functors[aggregate.kind[1:]]
        assert aggregate.term is not None
        self.term(aggregate.term)
        for parameter in declared.parameters:
            self.require_type(aggregate.term, parameter.type_name, f"`{aggregate.kind}`")
        if declared.result in self.types.types:
            self.says(aggregate, self.types.types[declared.result].kind)

    # ------------------------------------------------------------------------------------------ constraints

    def says(self, term: Term, *kinds: Kind) -> None:
        """Note the kinds a term has by itself; nothing can clash yet."""
        self.classes.narrow(key_of(term), Sort(frozenset(kinds), None, term.span, ""))

    def require_type(self, term: Term, type_name: str, what: str) -> None:
        type_ = self.types.types.get(type_name)
        if type_ is None:  # which has been reported
            return
        self.require(term, Sort(frozenset({type_.kind}), self.types.record_root(type_name)), what)

    def require(self, term: Term, sort: Sort, what: str) -> bool:
        """`what` needs `term` to be of `sort`; whether it may be."""
        known = self.classes.narrow(key_of(term), Sort(sort.kinds, sort.record, term.span, what))
        if known is None:
            return True
        needs = "is" if what.startswith("column") else "needs"
        message = f"{_name(term)} is {known.text}, but {what} {needs} {sort.text}"
        self.clash(message, term, known, _literal_hint(term, sort))
        return False

    def same(self, one: Term, other: Term, why: str, hint: str = "") -> None:
        clash = self.classes.merge(key_of(one), key_of(other))
        if clash is None:
            return
        message = f"{_name(one)} is {clash[0].text}, but {_name(other)} is {clash[1].text}"
        hint = hint or _literal_hint(one, clash[1]) or _literal_hint(other, clash[0])
        notes = tuple(
            (sort.place, f"{_name(term)} is {sort.text} because of {sort.reason}")
            for term, sort in ((one, clash[0]), (other, clash[1]))
            if sort.reason
        )
        detail = f"{why[0].upper()}{why[1:]}."
        self.diagnostics.append(Diagnostic("E301", message, other.span, detail=detail, hint=hint, notes=notes))

    def clash(self, message: str, term: Term, known: Sort, hint: str) -> None:
        notes = ((known.place, f"it is {known.text} because of {known.reason}"),) if known.reason else ()
        self.diagnostics.append(Diagnostic("E301", message, term.span, hint=hint, notes=notes))

    # --------------------------------------------------------------------------------------------- settling

    def records(self) -> None:
        """Give the fields of records the types their record type says, as record types become known."""
        waiting = self.record_terms
        while waiting:
            known = [term for term in waiting if self.record_of(term) is not None]
            waiting = [term for term in waiting if self.record_of(term) is None]
            if not known:
                break
            for term in known:
                if isinstance(term, Apply):
                    self.list_element(term)
                else:
                    self.record_fields(term)
        self.diagnostics += [
            no_record(nil, name)
            for nil in self.nil_terms
            if (name := self.classes.sort(id(nil)).record) and self.types.types[name].branches
        ]
        for term in waiting:
            if isinstance(term, Apply) and self.diagnostics:
                continue
            hint = "Give it a type with `as([...], T)`, or use it where a column has a record type."
            self.diagnostics.append(Diagnostic("E304", "the type of this record is not known", term.span, hint=hint))

    def record_of(self, term: Record | Apply) -> str | None:
        """The record type of a record, or of the list that a functor is given."""
        return self.classes.sort(key_of(term.args[0] if isinstance(term, Apply) else term)).record

    def list_element(self, call: Apply) -> None:
        """Give the element that a list functor takes or gives the type that the list says."""
        name = self.record_of(call)
        assert name is not None
        type_ = self.types.types[name]
        fields = type_.fields
        if type_.branches or len(fields) != 2 or self.types.record_root(fields[1][1]) != name:
            message = f"`{call.functor}` needs a list, and `{name}` is none"
            hint = f"A list is a record of an element and the rest: `.type {name} = [item: symbol, rest: {name}]`."
            self.diagnostics.append(Diagnostic("E307", message, call.args[0].span, hint=hint))
            return
        at = LIST_ELEMENT[call.functor]
        if at is not None:
            element = call if at < 0 else call.args[at]
            self.require_type(element, fields[0][1], f"field `{fields[0][0]}` of `{name}`")

    def record_fields(self, term: Record) -> None:
        name = self.classes.sort(id(term)).record
        assert name is not None
        if self.types.types[name].branches:
            self.diagnostics.append(no_record(term, name))
            return
        fields = self.types.types[name].fields
        if len(fields) != len(term.args):
            message = f"record `{name}` has {counted(len(fields), 'field')}, not {len(term.args)}"
            hint = f"Its fields are {', '.join(field for field, _ in fields) or 'none'}."
            self.diagnostics.append(Diagnostic("E305", message, term.span, hint=hint))
            return
        for arg, (field, type_name) in zip(term.args, fields, strict=True):
            self.require_type(arg, type_name, f"field `{field}` of `{name}`")

    def literals(self) -> None:
        """Report numbers that do not fit their kind."""
        for term in self.number_terms:
            kind = self.classes.sort(id(term)).kind
            if kind is Kind.FLOAT:
                fits = abs(term.value) <= MOST_FLOAT
            elif kind is Kind.UNSIGNED:
                fits = 0 <= term.value <= MOST_UNSIGNED
            else:
                fits = LEAST_NUMBER <= term.value <= MOST_NUMBER
            if not fits:
                self.diagnostics.append(_overflow(term, kind))

    def subtypes(self) -> Iterator[Diagnostic]:
        """Report variables whose declared types have nothing in common, or do not fit a head."""
        given: dict[str, frozenset[str]] = {}
        for name, sources in self.sources.items():
            types = frozenset({sources[0][0]})
            for type_name, span in sources[1:]:
                common = frozenset().union(*(self.types.meet(known, type_name) for known in types))
                if not common:
                    yield self.no_common(name, sources[0], (type_name, span))
                    break
                types = common
            else:
                given[name] = types
        for variable, type_name, column in self.sinks:
            for found in sorted(given.get(variable.name, ())):
                if not self.types.is_subtype(found, type_name):
                    message = f"{_name(variable)} is of type `{found}`, but {column} takes `{type_name}`"
                    cast = f"`as({shown(variable.name)}, {type_name})`"
                    hint = f"Write {cast} if that is meant; `--legacy` takes all as they are."
                    yield Diagnostic("E303", message, variable.span, hint=hint)
                    break

    def no_common(self, name: str, first: tuple[str, Span], second: tuple[str, Span]) -> Diagnostic:
        message = f"`{shown(name)}` is of type `{second[0]}` here and of type `{first[0]}` elsewhere"
        hint = "No value is of both types: use two variables, or declare the columns with one type."
        return Diagnostic("E302", message, second[1], hint=hint, notes=((first[1], f"of type `{first[0]}` here"),))


def _name(term: Term) -> str:
    if isinstance(term, Variable):
        return f"`{shown(term.name)}`"
    text = to_text(term)
    return f"`{text}`" if len(text) <= 40 and "#" not in text else "this term"


def _literal_hint(term: Term, wanted: Sort) -> str:
    """How to write a number literal as the kind that is wanted."""
    if isinstance(term, Number) and wanted.kinds == {Kind.SYMBOL}:
        return f'Write `"{term.value}"`.'
    return ""


def _overflow(term: Number | Unsigned | Float, kind: Kind) -> Diagnostic:
    ranges = {
        Kind.NUMBER: f"{LEAST_NUMBER} to {MOST_NUMBER}",
        Kind.UNSIGNED: f"0 to {MOST_UNSIGNED}",
    }
    text = to_text(term)
    text = text if len(text) <= 40 else text[:37] + "..."
    hint = f"A{'n' if kind is Kind.UNSIGNED else ''} {kind.value} goes from {ranges[kind]}." if kind in ranges else ""
    return Diagnostic("E306", f"`{text}` does not fit 64 bits", term.span, hint=hint)
