"""Clauses to the normal form of `model`: atoms of variables and constants, calls that know their kinds.

Nothing is reordered, merged or dropped: an instance of the clause is an instance of the rule. Fresh variables are
determined by others, so they do not change how many instances there are.
"""

from __future__ import annotations

from dataclasses import field, replace

from sempre.analysis.alternatives import literals_of
from sempre.analysis.binding import bind, strip_casts
from sempre.analysis.draft import Clause, Draft
from sempre.analysis.functor_signatures import AGGREGATE_RESULT
from sempre.analysis.model import (
    Call,
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
    Unpack,
    Var,
)
from sempre.analysis.scopes import Names, clause_scope, deep_names, direct_names
from sempre.analysis.type_inference import Typing, infer
from sempre.analysis.type_table import TypeTable
from sempre.data import dataclass
from sempre.diagnostics import Span
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
    Record,
    String,
    Term,
    Unsigned,
    UserCall,
    Variable,
)
from sempre.python_functions import spelled

# What a branch without fields holds.
_NIL = Const(None, Kind.RECORD)


def normalize(draft: Draft) -> Draft:
    """Pass: the facts and rules in normal form, of every clause without a fault."""
    facts = list(draft.plain)
    rules: list[NormalRule] = []
    for clause in draft.clauses:
        if clause.rule in draft.faulty:
            continue
        typing = draft.typings.get(id(clause)) or infer(clause, draft.relations, draft.types)
        result = _Normalizer(typing, draft.types).clause(clause, len(rules))
        if isinstance(result, Fact):
            facts.append((clause.rule, result))
        else:
            rules.append(result)
    facts.sort(key=lambda numbered: numbered[0])
    return replace(draft, facts=tuple(fact for _, fact in facts), rules=tuple(rules))


@dataclass(slots=True)
class _Scope:
    """A body being written: its literals so far, its variables, their names, and the records it takes apart."""

    names: Names
    patterns: frozenset[int]
    renamed: dict[str, str] = field(default_factory=dict)
    literals: list[Literal] = field(default_factory=list)


class _Normalizer:
    """Writes one clause; hands out fresh variables and remembers the kind of each."""

    def __init__(self, typing: Typing, types: TypeTable) -> None:
        self.typing = typing
        self.types = types
        self.kinds: dict[str, Kind] = {}
        self.records: dict[str, str] = {}
        self.taken: set[str] = set()
        self.counter = 0

    def clause(self, clause: Clause, number: int) -> Fact | NormalRule:
        head = clause.head.atom
        names = clause_scope((head, clause.body))
        scope = _Scope(names, bind(clause.body, frozenset(), names).patterns)
        self.taken |= names
        self.body(clause.body, scope)
        terms = (term.term if isinstance(term, HeadAggregate) else term for term in head.args)
        args = tuple(self.expr(term, scope) for term in terms)
        text = to_text(replace(clause.source, plan=()))
        if not scope.literals and not clause.head.deletes:
            return Fact(head.relation, args, text, clause.source.span)
        return NormalRule(
            number, head.relation, args, tuple(scope.literals), self.kinds, clause.head.deletes, text,
            clause.source.span, self.records, clause.source.plan,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------------ names

    def fresh(self, kind: Kind) -> Var:
        self.counter += 1
        return self.named(f"#{self.counter}", kind)

    def fresh_for(self, term: Term) -> Var:
        """A variable for the value of a term."""
        self.counter += 1
        return self.named(f"#{self.counter}", self.typing.kind(term), self.typing.record(term))

    def named(self, name: str, kind: Kind, record: str | None = None) -> Var:
        self.kinds[name] = kind
        if kind is Kind.RECORD:
            self.records[name] = record or ""
        return Var(name)

    def variable(self, variable: Variable, scope: _Scope) -> Var:
        name = scope.renamed.get(variable.name, variable.name)
        return self.named(name, self.typing.kind(variable), self.typing.record(variable))

    def enter(self, body: tuple[Formula, ...], terms: tuple[Term, ...], outer: _Scope) -> _Scope:
        """A scope inside `outer`; a variable that an earlier scope has too gets another name."""
        own = direct_names((terms, body)) - outer.names
        renamed = dict(outer.renamed)
        for name in sorted(own):
            if name in self.taken:
                self.counter += 1
                renamed[name] = f"{name}#{self.counter}"
        self.taken |= own
        names = outer.names | own
        return _Scope(names, bind(body, outer.names, names).patterns, renamed)

    def shared(self, inner: object, outer: _Scope) -> tuple[Var, ...]:
        """The variables of a nested scope that belong to an outer one."""
        names = sorted(deep_names(inner) & outer.names)
        return tuple(Var(outer.renamed.get(name, name)) for name in names)

    # --------------------------------------------------------------------------------------------- literals

    def body(self, body: tuple[Formula, ...], scope: _Scope) -> None:
        for literal in body:
            match literal:
                case Atom():
                    self.atom(literal, scope)
                case Comparison():
                    self.comparison(literal, scope)
                case Negation():
                    self.negation(literal, scope)
                case _:
                    # Only `false` is left, as the body of an aggregate over nothing.
                    scope.literals.append(self.constantly("!=", literal))

    def constantly(self, op: str, formula: Formula) -> Compare:
        """A test with the same answer for every row, in place of `true` or `false`."""
        zero = Const(0, Kind.NUMBER)
        return Compare(op, zero, zero, Kind.NUMBER, formula.span)

    def atom(self, atom: Atom, scope: _Scope) -> None:
        later: list[tuple[Var, Term]] = []
        args = tuple(self.argument(term, scope, later) for term in atom.args)
        scope.literals.append(Match(atom.relation, args, atom.span))
        self.equate(later, scope)

    def argument(self, term: Term, scope: _Scope, later: list[tuple[Var, Term]]) -> Var | Const:
        """A variable or a constant for `term`; what else it says is left in `later`."""
        inner = strip_casts(term)
        if isinstance(inner, Variable):
            return self.variable(inner, scope)
        constant = self.constant(inner)
        if constant is not None:
            return constant
        variable = self.fresh_for(term)
        later.append((variable, inner))
        return variable

    def equate(self, pairs: list[tuple[Var, Term]], scope: _Scope) -> None:
        """Each variable, bound by now, equals its term; a record is taken apart."""
        for variable, term in pairs:
            if isinstance(term, Record | Branch):
                self.unpack(variable, term, scope)
            elif isinstance(term, Aggregate):
                self.fold(variable, term, scope)
            else:
                kind = self.typing.kind(term)
                scope.literals.append(Compare("=", variable, self.expr(term, scope), kind, term.span))

    def unpack(self, variable: Var, record: Record | Branch, scope: _Scope) -> None:
        later: list[tuple[Var, Term]] = []
        if isinstance(record, Branch):
            variable = self.branch(variable, record, scope)
            if not record.args:
                return
        fields = tuple(self.argument(term, scope, later) for term in record.args)
        scope.literals.append(Unpack(variable, fields, record.span))
        self.equate(later, scope)

    def branch(self, variable: Var, branch: Branch, scope: _Scope) -> Var:
        """`variable` is of the branch; a variable for the record that it holds, which is nil without fields."""
        type_name, number = self.types.branches[branch.name]
        tag = Const(number, Kind.NUMBER)
        if not branch.args:
            scope.literals.append(Unpack(variable, (tag, _NIL), branch.span))
            return variable
        self.counter += 1
        held = self.named(f"#{self.counter}", Kind.RECORD, self.types.types[type_name].branches[number][1])
        scope.literals.append(Unpack(variable, (tag, held), branch.span))
        return held

    def comparison(self, literal: Comparison, scope: _Scope) -> None:
        left, right = strip_casts(literal.left), strip_casts(literal.right)
        if literal.op == "=":
            for pattern, value in ((left, right), (right, left)):
                if isinstance(pattern, Record | Branch) and id(pattern) in scope.patterns:
                    self.unpack(self.as_variable(value, scope), pattern, scope)
                    return
                if isinstance(pattern, Variable) and isinstance(value, Aggregate):
                    self.fold(self.variable(pattern, scope), value, scope)
                    return
        kind = self.typing.kind(left)
        one, other = self.expr(left, scope), self.expr(right, scope)
        scope.literals.append(Compare(literal.op, one, other, kind, literal.span))

    def as_variable(self, term: Term, scope: _Scope) -> Var:
        """A variable with the value of `term`."""
        if isinstance(term, Variable):
            return self.variable(term, scope)
        variable = self.fresh_for(term)
        expr = self.expr(term, scope)
        scope.literals.append(Compare("=", variable, expr, self.typing.kind(term), term.span))
        return variable

    def negation(self, negation: Negation, scope: _Scope) -> None:
        body = literals_of(negation.body)
        inner = self.enter(body, (), scope)
        self.body(body, inner)
        scope.literals.append(Not(tuple(inner.literals), self.shared(body, scope), negation.span))

    def fold(self, result: Var, aggregate: Aggregate, scope: _Scope) -> None:
        body = literals_of(aggregate.body)
        targets = () if aggregate.term is None else (aggregate.term,)
        inner = self.enter(body, targets, scope)
        self.body(body, inner)
        if not inner.literals:  # `true`: plans have a step at least
            inner.literals.append(self.constantly("=", aggregate.body))
        expr = None if aggregate.term is None else self.expr(aggregate.term, inner)
        operand = Kind.NUMBER if aggregate.term is None else self.typing.kind(aggregate.term)
        shared = self.shared((targets, body), scope)
        kind = aggregate.kind
        if kind.startswith("@"):
            kind = spelled(kind[1:], (operand.value,), self.typing.kind(aggregate).value)
        scope.literals.append(Fold(result, kind, expr, tuple(inner.literals), shared, operand, aggregate.span))

    # ------------------------------------------------------------------------------------------ expressions

    def constant(self, term: Term) -> Const | None:
        match term:
            case Number(value) | Unsigned(value):
                kind = self.typing.kind(term)
                return Const(float(value) if kind is Kind.FLOAT else value, kind)
            case Float(value):
                return Const(value, Kind.FLOAT)
            case String(value):
                return Const(value, Kind.SYMBOL)
            case Nil():
                return Const(None, Kind.RECORD)
            case _:
                return None

    def expr(self, term: Term, scope: _Scope) -> Expr:
        """A term as an expression; aggregates in it become literals of `scope` with a fresh result."""
        constant = self.constant(term)
        if constant is not None:
            return constant
        match term:
            case Variable():
                return self.variable(term, scope)
            case Cast(inner, _):
                return self.expr(inner, scope)
            case Record(args):
                return Call("record", tuple(self.expr(arg, scope) for arg in args), Kind.RECORD, Kind.RECORD, term.span)
            case Branch(name, args):
                fields = tuple(self.expr(arg, scope) for arg in args)
                held = Call("record", fields, Kind.RECORD, Kind.RECORD, term.span) if fields else _NIL
                tag = Const(self.types.branches[name][1], Kind.NUMBER)
                return Call("record", (tag, held), Kind.RECORD, Kind.RECORD, term.span)
            case Counter():
                return Call("autoinc", (), Kind.NUMBER, Kind.NUMBER, term.span)
            case UserCall(name, args):
                declared = self.types.functors[name]
                kinds = [self.types.types[parameter.type_name].kind.value for parameter in declared.parameters]
                result = self.types.types[declared.result].kind
                parts = tuple(self.expr(arg, scope) for arg in args)
                return Call(spelled(name, kinds, result.value), parts, result, Kind.NUMBER, term.span)
            case Apply():
                return self.call(term, scope)
            case Aggregate():
                return self.lift(term, scope, term.span)
            case _:
                raise AssertionError(f"{type(term).__name__} should have been refused")

    def call(self, term: Apply, scope: _Scope) -> Call:
        args = tuple(self.expr(arg, scope) for arg in term.args)
        kind = self.typing.kind(term)
        functor = "cat" if term.functor == "+" and kind is Kind.SYMBOL else term.functor
        return Call(functor, args, kind, self.typing.kind(term.args[0]), term.span)

    def lift(self, term: Aggregate, scope: _Scope, span: Span) -> Var:
        kind = AGGREGATE_RESULT.get(term.kind) or self.typing.kind(term)
        result = self.fresh(kind)
        self.fold(result, term, scope)
        return result
