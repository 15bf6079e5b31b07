"""From the syntax tree to clauses that can be solved from left to right.

    Clause  ─ relation, head arguments, body: tuple of Literal, in an order in which every literal is ready
    Literal ─ Match | Test | Absent | Fold
    Expr    ─ Var | Const | Call | Tuple

A rule becomes one clause per head and per alternative of its body, after inline relations are replaced by their rules.
Every `_` becomes a variable of its own. Aggregates are taken out of terms: a fresh variable stands in their place.

Scopes. The body of a negation or of an aggregate is a scope. A variable of a scope is *shared* when it also occurs
directly in the head or in a scope around it; otherwise it is local. Two scopes next to each other share nothing with
each other, so the same local name may be used in both (with one kind). A variable that both the target expression and
the body of an aggregate mention is the aggregate's own, as in Soufflé: it is renamed before anything else looks.

Inlining shows in counters, which count instances after it, and never in results: variables that an inlined rule brings
with it do not take part in the distinct assignments of an aggregate.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from sempre.lang import syntax as s
from tests.oracle.kinds import Kinds, Schema, infer, schema_of
from tests.oracle.values import OracleError, Value, coerce, function

Node = TypeVar("Node", bound=s.Formula)

INLINED = "inlined:"  # prefix of variables that come from inlined rules


@dataclass(frozen=True)
class Var:
    name: str


@dataclass(frozen=True)
class Const:
    value: Value


@dataclass(frozen=True)
class Call:
    run: Callable[..., Value]
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Tuple:
    """A record: evaluated when its variables are bound, else a pattern that takes a record apart.

    A value of an algebraic type is a tuple that begins with the name of its branch.
    """

    args: tuple[Expr, ...]


Expr: TypeAlias = Var | Const | Call | Tuple


@dataclass(frozen=True)
class Match:
    """A positive atom. `key`: columns that are known before; `rest`: the others, those that bind variables first."""

    relation: str
    args: tuple[Expr, ...]
    key: tuple[int, ...] = ()
    rest: tuple[int, ...] = ()


@dataclass(frozen=True)
class Test:
    """`left op right`; with `binds`, `left` is a pattern for the value of `right`."""

    op: str
    left: Expr
    right: Expr
    binds: bool = False


@dataclass(frozen=True)
class Absent:
    """No alternative of `bodies` has a solution."""

    bodies: tuple[tuple[Literal, ...], ...]
    shared: frozenset[str]


@dataclass(frozen=True)
class Fold:
    """`result` is the aggregate over the distinct assignments of `bodies` to the variables that are not shared."""

    result: str
    kind: str
    operand: str
    term: Expr | None
    bodies: tuple[tuple[Literal, ...], ...]
    shared: frozenset[str]


@dataclass(frozen=True)
class Spread:
    """`target` is each of the numbers that `range` gives for the bounds in `args`."""

    target: Expr
    args: tuple[Expr, ...]
    kind: str


Literal: TypeAlias = Match | Test | Absent | Fold | Spread


@dataclass(frozen=True)
class Clause:
    """One rule in solvable form. `aggregate` is (kind, column) of an aggregate in the head."""

    relation: str
    args: tuple[Expr, ...]
    body: tuple[Literal, ...]
    aggregate: tuple[str, int] | None = None


@dataclass(frozen=True)
class Clauses:
    """A program in solvable form. `facts` are the program's own facts, evaluated."""

    schema: Schema
    rules: tuple[Clause, ...]
    facts: dict[str, set[tuple[Value, ...]]]
    dominances: tuple[Clause, ...] = ()  # of pairs: a row, and one that stands for it
    limits: tuple[tuple[str, int], ...] = ()


@lru_cache(maxsize=256)
def clauses_of(program: s.ParsedProgram) -> Clauses:
    """The clauses of all relations that are not inline, and the program's facts."""
    schema = schema_of(program)
    rules: list[Clause] = []
    facts: dict[str, set[tuple[Value, ...]]] = {}
    for rule in program.rules():
        for head in rule.heads:
            if head.deletes:
                raise OracleError("heads that delete are not evaluated here")
            if head.atom.relation in schema.inline:
                continue
            if rule.is_fact and not _has_aggregate(head.atom):
                clause = _clause(schema, head.atom, [])
                facts.setdefault(clause.relation, set()).add(tuple(value(arg, {}) for arg in clause.args))
            else:
                rules += _expand(program, schema, head.atom, rule.body)
    limits = tuple(
        (name, int(item.option("n")))
        for item in program.items
        if isinstance(item, s.Directive) and item.kind == "limitsize"
        for name in item.relations
    )
    dominances = tuple(_dominance(schema, item) for item in program.items if isinstance(item, s.Subsumption))
    return Clauses(schema, tuple(rules), facts, dominances, limits)


def _dominance(schema: Schema, item: s.Subsumption) -> Clause:
    """The pairs of a subsumption; the two atoms of its heads hold."""
    wide = dataclasses.replace(schema, columns={**schema.columns, "<=": schema.columns[item.lesser.relation] * 2})
    fresh = itertools.count()
    lesser, greater = _name_wildcards(item.lesser, fresh), _name_wildcards(item.greater, fresh)
    (body,) = alternatives(item.body)
    clause = _clause(wide, s.Atom("<=", (*lesser.args, *greater.args)), [lesser, greater, *body])
    return dataclasses.replace(clause, relation=item.lesser.relation)


def _expand(program: s.ParsedProgram, schema: Schema, head: s.Atom, body: s.Formula) -> Iterator[Clause]:
    fresh = itertools.count()
    body = _own_targets(_name_wildcards(_inline(program, schema, body, fresh), fresh), fresh)
    head = _own_targets(_name_wildcards(_inline(program, schema, head, fresh), fresh), fresh)  # aggregates in the head
    for alternative in alternatives(body):
        yield _clause(schema, head, alternative)


# ------------------------------------------------------------------------------------------ syntax to syntax


def rebuild(node: Any, visit: Callable[[Any], Any]) -> Any:
    """`node` with `visit` applied to every node in it, innermost first."""
    if isinstance(node, tuple):
        return tuple(rebuild(part, visit) for part in node)
    if not dataclasses.is_dataclass(node) or isinstance(node, type) or not type(node).__module__.endswith("syntax"):
        return node
    changes = {field.name: rebuild(getattr(node, field.name), visit) for field in dataclasses.fields(node)}
    return visit(dataclasses.replace(node, **changes))


def _name_wildcards(body: Node, fresh: Iterator[int]) -> Node:
    def visit(node: Any) -> Any:
        return s.Variable(f"_:{next(fresh)}") if isinstance(node, s.Wildcard) else node

    renamed: Node = rebuild(body, visit)
    return renamed


def _has_aggregate(atom: s.Atom) -> bool:
    found: list[s.Aggregate] = []

    def visit(node: Any) -> Any:
        found.extend([node] if isinstance(node, s.Aggregate) else [])
        return node

    rebuild(atom, visit)
    return bool(found)


def _own_targets(body: Node, fresh: Iterator[int]) -> Node:
    """`body` with what each aggregate ranges over under a name that nothing else has; inner aggregates come first."""

    def visit(node: Any) -> Any:
        if not isinstance(node, s.Aggregate) or node.term is None:
            return node
        own = {name: f"{name}:own{next(fresh)}" for name in formula_names(node.term) & formula_names(node.body)}

        def rename(inner: Any) -> Any:
            return s.Variable(own.get(inner.name, inner.name)) if isinstance(inner, s.Variable) else inner

        return dataclasses.replace(node, term=rebuild(node.term, rename), body=rebuild(node.body, rename))

    renamed: Node = rebuild(body, visit)
    return renamed


def _inline(program: s.ParsedProgram, schema: Schema, body: Node, fresh: Iterator[int]) -> Node:
    """`body` with each atom of an inline relation replaced by the bodies of its rules."""

    def visit(node: Any) -> Any:
        if not isinstance(node, s.Atom) or node.relation not in schema.inline:
            return node
        return s.disjunction([paste(node, rule, head) for rule, head in _definition(program, node.relation)])

    def paste(atom: s.Atom, rule: s.Rule, head: s.Atom) -> s.Formula:
        prefix = f"{INLINED}{next(fresh)}:"

        def rename(node: Any) -> Any:
            return s.Variable(prefix + node.name) if isinstance(node, s.Variable) else node

        wild = iter(range(1_000_000))
        copy = rebuild(_name_wildcards(rule.body, wild), rename)
        columns = schema.columns[head.relation]
        equalities = [
            s.Comparison("=", given, s.Cast(rebuild(own, rename), kind))  # the cast says which kind both sides have
            for given, own, kind in zip(atom.args, head.args, columns, strict=True)
        ]
        return s.conjunction([*equalities, _inline(program, schema, copy, fresh)])

    replaced: Node = rebuild(body, visit)
    return replaced


def _definition(program: s.ParsedProgram, relation: str) -> list[tuple[s.Rule, s.Atom]]:
    return [(rule, head.atom) for rule in program.rules() for head in rule.heads if head.atom.relation == relation]


def alternatives(body: s.Formula) -> list[list[s.Formula]]:
    """The disjunctive normal form of `body`: lists of atoms, comparisons and negations."""
    if isinstance(body, s.Truth):
        return [[]] if body.value else []
    if isinstance(body, s.Disjunction):
        return [alternative for part in body.parts for alternative in alternatives(part)]
    if isinstance(body, s.Conjunction):
        choices = itertools.product(*map(alternatives, body.parts))
        return [list(itertools.chain.from_iterable(choice)) for choice in choices]
    return [[body]]


# ---------------------------------------------------------------------------------------- syntax to clauses


def _clause(schema: Schema, head: s.Atom, body: list[s.Formula]) -> Clause:
    args, aggregate = head.args, None
    for column, arg in enumerate(head.args):
        if isinstance(arg, s.HeadAggregate):
            aggregate = (arg.kind, column)
            args = (*head.args[:column], arg.term, *head.args[column + 1 :])
    kinds = infer(schema, s.Atom(head.relation, args), body)
    lowering = _Lowering(schema, kinds)
    head_args = tuple(lowering.term(arg, kind) for arg, kind in zip(args, schema.columns[head.relation], strict=True))
    outside = set().union(*map(variables, head_args))
    return Clause(head.relation, head_args, lowering.scope(body, outside, set()), aggregate)


class _Lowering:
    """Turns the formulas of one clause into literals, aggregates taken out of terms."""

    def __init__(self, schema: Schema, kinds: Kinds) -> None:
        self.schema = schema
        self.kinds = kinds
        self.folds: list[tuple[str, s.Aggregate]] = []
        self.fresh = itertools.count()

    def scope(self, body: list[s.Formula], outside: set[str], bound: set[str]) -> tuple[Literal, ...]:
        """The literals of one alternative, ordered. `outside`: variables of the head and of the scopes around."""
        flat: list[Literal] = []
        nested: list[s.Formula] = []
        for part in body:
            if isinstance(part, s.Negation):
                nested.append(part.body)
            else:
                flat += self.literals(part)
        folds, self.folds = self.folds, []
        lowered = []
        for name, aggregate in folds:
            operand = self.kinds.of(aggregate.term) if aggregate.term is not None else "number"
            if aggregate.kind in self.kinds.schema.aggregates:
                operand = self.kinds.schema.aggregates[aggregate.kind][0]
            operand = operand or "number"
            term = None if aggregate.term is None else self.term(aggregate.term, operand)
            inner, self.folds = self.folds, []  # aggregates inside of the aggregated term belong to its body
            lowered.append((name, aggregate, operand, term, inner))
        direct = outside | {name for literal in flat for name in variables(literal)} | {name for name, _ in folds}
        for name, aggregate, operand, term, inner in lowered:
            own = set() if term is None else variables(term)
            names = formula_names(aggregate.body) | formula_names(aggregate.term)
            bodies = self.bodies(aggregate.body, direct | own, names & direct, inner)
            flat.append(Fold(name, aggregate.kind, operand, term, bodies, frozenset(names & direct)))
        for formula in nested:
            shared = formula_names(formula) & direct
            flat.append(Absent(self.bodies(formula, direct, shared, []), frozenset(shared)))
        return ordered(flat, bound)

    def bodies(
        self, body: s.Formula, outside: set[str], shared: set[str], folds: list[tuple[str, s.Aggregate]]
    ) -> tuple[tuple[Literal, ...], ...]:
        """The alternatives of a nested scope; `folds` are aggregates that it begins with."""
        lowered = []
        for alternative in alternatives(body):
            self.folds = list(folds)
            lowered.append(self.scope(alternative, outside, shared))
        return tuple(lowered)

    def literals(self, part: s.Formula) -> list[Literal]:
        if isinstance(part, s.Atom):
            kinds = self.schema.columns[part.relation]
            return [Match(part.relation, tuple(map(self.term, part.args, kinds)))]
        if isinstance(part, s.Comparison) and part.op == "=":
            for target, call in ((part.left, part.right), (part.right, part.left)):
                if isinstance(call, s.Apply) and call.functor == "range":
                    kind = self.kinds.of(target) or self.kinds.of(call) or "number"
                    args = tuple(self.term(arg, kind) for arg in call.args)
                    return [Spread(self.term(target, kind), args, kind)]
        if isinstance(part, s.Comparison):
            kind = self.kinds.of(part.left) or self.kinds.of(part.right) or "number"
            return equations(Test(part.op, self.term(part.left, kind), self.term(part.right, kind)))
        raise OracleError(f"unexpected {type(part).__name__} in a body")

    def term(self, term: s.Term, kind: str) -> Expr:
        """`term` as an expression of `kind`; literals take the kind that is expected of them."""
        match term:
            case s.Variable(name):
                return Var(name)
            case s.Number(number) | s.Unsigned(number) | s.Float(number):
                return Const(coerce(number, kind))
            case s.String(text):
                return Const(text)
            case s.Nil():
                return Const(None)
            case s.Record(args):
                return Tuple(tuple(map(self.term, args, self.schema.fields[kind])))
            case s.Branch(name, args):
                return Tuple((Const(name), *map(self.term, args, self.schema.branches[name][1])))
            case s.Apply(functor, args):
                operands = self.kinds.operands(term, kind)
                run = function(functor, operands[0] if operands else kind)
                return Call(run, tuple(map(self.term, args, operands)))
            case s.Cast(inner, _):
                return self.term(inner, self.kinds.of(inner) or kind)
            case s.Aggregate():
                name = f"fold:{next(self.fresh)}"
                self.folds.append((name, term))
                return Var(name)
        raise OracleError(f"{type(term).__name__} is not evaluated here")


def equations(test: Test) -> list[Literal]:
    """`[a, b] = [c, d]` as `a = c` and `b = d`, so that either side may bind; other tests as they are."""
    if (
        test.op == "="
        and isinstance(test.left, Tuple)
        and isinstance(test.right, Tuple)
        and len(test.left.args) == len(test.right.args)
    ):
        pairs = zip(test.left.args, test.right.args, strict=True)
        return [part for left, right in pairs for part in equations(Test("=", left, right))]
    return [test]


def formula_names(node: Any) -> set[str]:
    """All variables that occur anywhere in a formula or term, nested scopes included."""
    names: set[str] = set()

    def visit(inner: Any) -> Any:
        if isinstance(inner, s.Variable):
            names.add(inner.name)
        return inner

    rebuild(node, visit)
    return names


def variables(node: Literal | Expr) -> set[str]:
    """The variables of an expression or literal; of a nested scope, only those that it needs."""
    match node:
        case Var(name):
            return {name}
        case Const():
            return set()
        case Absent():
            return set(node.shared)
        case Fold():
            return set(node.shared) | {node.result}
        case Test():
            return variables(node.left) | variables(node.right)
        case Spread():
            return variables(node.target).union(*map(variables, node.args))
        case Call() | Tuple() | Match():
            return set().union(*map(variables, node.args))


# ------------------------------------------------------------------------------------------------- ordering


def ordered(literals: list[Literal], bound: set[str]) -> tuple[Literal, ...]:
    """The literals in an order in which each is ready when its turn comes: tests first, then atoms."""
    left, known, result = list(literals), set(bound), []
    while left:
        chosen = next(filter(None, (_ready(literal, known) for literal in sorted(left, key=_rank(known)))), None)
        if chosen is None:
            raise OracleError(f"not grounded: {left}")
        original, literal = chosen
        left.remove(original)
        result.append(literal)
        known |= variables(literal)
    return tuple(result)


def _rank(known: set[str]) -> Callable[[Literal], tuple[bool, int]]:
    return lambda literal: (isinstance(literal, Match), len(variables(literal) - known))


def _ready(literal: Literal, known: set[str]) -> tuple[Literal, Literal] | None:
    match literal:
        case Absent():
            return (literal, literal) if literal.shared <= known else None
        case Fold():
            return (literal, literal) if literal.shared <= known else None
        case Match(relation, args):
            key = tuple(i for i, arg in enumerate(args) if variables(arg) <= known)
            first = tuple(i for i, arg in enumerate(args) if i not in key and is_pattern(arg, known))
            late = tuple(i for i in range(len(args)) if i not in key and i not in first)
            binds = known.union(*(variables(args[i]) for i in first))
            ready = all(variables(args[i]) <= binds for i in late)
            return (literal, Match(relation, args, key, first + late)) if ready else None
        case Spread(target, args, _):
            bounds = set().union(*map(variables, args))
            return (literal, literal) if bounds <= known and is_pattern(target, known) else None
        case Test(op, left, right):
            if variables(literal) <= known:
                return literal, literal
            for pattern, source in ((left, right), (right, left)):
                if op == "=" and variables(source) <= known and is_pattern(pattern, known):
                    return literal, Test(op, pattern, source, binds=True)
    return None


def is_pattern(expr: Expr, known: set[str]) -> bool:
    """Whether a value can be matched against `expr`, binding what is not known yet."""
    if isinstance(expr, Tuple):
        return all(is_pattern(arg, known) for arg in expr.args)
    return isinstance(expr, Var) or variables(expr) <= known


def value(expr: Expr, env: dict[str, Value]) -> Value:
    """The value of `expr`, whose variables are all bound in `env`."""
    match expr:
        case Var(name):
            return env[name]
        case Const(constant):
            return constant
        case Tuple(args):
            return tuple(value(arg, env) for arg in args)
        case Call(run, args):
            return run(*(value(arg, env) for arg in args))
