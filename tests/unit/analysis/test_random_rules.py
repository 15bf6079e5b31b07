"""Random rules: the analysis never crashes, and what it accepts can be evaluated as `model` promises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sempre.analysis.check import check
from sempre.analysis.model import (
    Call,
    Compare,
    Const,
    Expr,
    Fold,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Unpack,
    Var,
)
from sempre.diagnostics import ProgramError
from sempre.lang import syntax as s
from sempre.lang.parser import parse

DECLS = parse("""
.type Pair = [a: number, b: Pair]
.decl p(x: number)
.decl q(x: number, y: number)
.decl r(x: Pair)
.decl i(x: number, y: number) inline
i(x, y) :- q(y, x), !p(z), q(z, x).
i(x, x + 1) :- p(x).
.decl h(x: number, y: number)
.decl g(x: Pair)
""").items
KINDS = {"p": "n", "q": "nn", "r": "r", "i": "nn"}

# Numbers and records have variables of their own, so that most rules are well typed.
numbers = st.sampled_from("xyz").map(s.Variable)
records = st.sampled_from("cd").map(s.Variable)
wildcard = st.just(s.Wildcard())


@cache
def number_terms(depth: int) -> st.SearchStrategy[s.Term]:
    plain = st.one_of(numbers, numbers, st.integers(0, 3).map(s.Number))
    if depth == 0:
        return plain
    inner = number_terms(depth - 1)
    return st.one_of(
        plain,
        st.builds(s.Apply, st.sampled_from(["+", "max"]), st.tuples(inner, inner)),
        st.builds(s.Aggregate, st.sampled_from(["sum", "min"]), numbers, conjunctions(depth - 1)),
        st.builds(s.Aggregate, st.just("count"), st.none(), conjunctions(depth - 1)),
    )


@cache
def record_terms(depth: int) -> st.SearchStrategy[s.Term]:
    if depth == 0:
        return st.one_of(records, st.just(s.Nil()))
    fields = st.tuples(
        st.one_of(number_terms(depth - 1), wildcard), st.one_of(records, wildcard, record_terms(depth - 1))
    )
    return st.one_of(records, st.builds(s.Record, fields))


@cache
@st.composite
def atoms(draw: st.DrawFn, depth: int) -> s.Atom:
    name = draw(st.sampled_from(sorted(KINDS)))
    arguments = {"n": number_terms(min(depth, 1)), "r": record_terms(depth)}
    args = [draw(st.one_of(arguments[kind], arguments[kind], wildcard)) for kind in KINDS[name]]
    return s.Atom(name, tuple(args))


@cache
def comparisons(depth: int) -> st.SearchStrategy[s.Formula]:
    terms = number_terms(depth)
    return st.one_of(
        st.builds(s.Comparison, st.sampled_from(["=", "=", "!=", "<"]), terms, terms),
        st.builds(s.Comparison, st.sampled_from(["=", "!="]), records, record_terms(depth)),
    )


@cache
def conjunctions(depth: int) -> st.SearchStrategy[s.Formula]:
    """Some atoms, and perhaps another literal."""
    some = st.lists(atoms(depth), min_size=1, max_size=2)
    more = st.lists(literals(depth), max_size=1)
    return st.tuples(some, more).map(lambda parts: s.conjunction([*parts[0], *parts[1]]))


@cache
def literals(depth: int) -> st.SearchStrategy[s.Formula]:
    if depth == 0:
        return st.one_of(atoms(0), comparisons(0))
    pairs = st.lists(st.deferred(lambda: literals(depth - 1)), min_size=2, max_size=2)
    negated = st.one_of(conjunctions(depth - 1), pairs.map(s.disjunction))
    return st.one_of(atoms(depth), comparisons(depth), negated.map(s.Negation), pairs.map(s.disjunction))


heads = st.one_of(
    st.builds(lambda x, y: s.Atom("h", (x, y)), numbers, number_terms(1)),
    st.builds(lambda c: s.Atom("g", (c,)), record_terms(1)),
)


@st.composite
def rules(draw: st.DrawFn) -> s.Rule:
    ground = [
        s.Atom("q", (draw(numbers), draw(numbers))),
        s.Atom("q", (draw(numbers), draw(numbers))),
        s.Atom("r", (draw(records),)),
    ]
    body = [*ground, *draw(st.lists(literals(2), min_size=1, max_size=3))]
    return s.Rule((s.Head(draw(heads)),), s.conjunction(body))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rules())
def test_accepted_rules_can_be_evaluated(rule: s.Rule) -> None:
    try:
        program = check(s.ParsedProgram((*DECLS, rule)), {})
    except ProgramError:
        return
    for normal in program.rules:
        validate(normal)


# ------------------------------------------------------------------------------------------------ what must hold


def validate(rule: NormalRule) -> None:
    """Assert that literals can be put in an order that binds before use, and that scopes and kinds are right."""
    locals_: list[set[str]] = []
    bound = evaluate(rule.body, set(), rule, locals_)
    for expr in rule.args:
        assert names(expr) <= bound
    every = [name for scope in locals_ for name in scope]
    assert len(every) == len(set(every)), "a variable is in two scopes"
    assert set(every) == set(rule.kinds)


def evaluate(body: Iterable[Literal], given: set[str], rule: NormalRule, locals_: list[set[str]]) -> set[str]:
    """The variables bound after `body`; asserts that all of it can be evaluated."""
    bound = set(given)
    waiting = list(body)
    mentioned = {name for literal in waiting for name in outer_names(literal)}
    while waiting:
        ready = [literal for literal in waiting if is_ready(literal, bound)]
        assert ready, f"cannot evaluate {waiting} with {bound}"
        for literal in ready:
            bound |= outer_names(literal)
            check_kinds(literal, rule)
        waiting = [literal for literal in waiting if literal not in ready]
    locals_.append(mentioned - given)
    for literal in body:
        if isinstance(literal, Not | Fold):
            shared = {var.name for var in literal.shared}
            assert shared <= bound
            inner = evaluate(literal.body, shared, rule, locals_)
            if isinstance(literal, Fold):
                assert names(literal.expr) <= inner
    return bound


def outer_names(literal: Literal) -> set[str]:
    """The variables of a literal that belong to the scope it stands in."""
    match literal:
        case Match(args=args):
            return {arg.name for arg in args if isinstance(arg, Var)}
        case Compare(left=left, right=right):
            return names(left) | names(right)
        case Unpack(record=record, fields=fields):
            return {record.name} | {arg.name for arg in fields if isinstance(arg, Var)}
        case Not(shared=shared):
            return {var.name for var in shared}
        case Fold(result=result, shared=shared):
            return {result.name} | {var.name for var in shared}


def is_ready(literal: Literal, bound: set[str]) -> bool:
    match literal:
        case Match():
            return True
        case Unpack(record=record):
            return record.name in bound
        case Not(shared=shared) | Fold(shared=shared):
            return {var.name for var in shared} <= bound
        case Compare(op=op, left=left, right=right):
            missing = (names(left) | names(right)) - bound
            sides = ((left, right), (right, left))
            return not missing or (op == "=" and any(isinstance(a, Var) and names(b) <= bound for a, b in sides))


def names(expr: Expr | None) -> set[str]:
    return {found.name for found in descend(expr) if isinstance(found, Var)}


def descend(expr: Expr | None) -> Iterator[Expr]:
    if expr is not None:
        yield expr
        if isinstance(expr, Call):
            for arg in expr.args:
                yield from descend(arg)


def check_kinds(literal: Literal, rule: NormalRule) -> None:
    if isinstance(literal, Compare):
        assert kind(literal.left, rule) is literal.kind
        assert kind(literal.right, rule) is literal.kind
    elif isinstance(literal, Match):
        expected = Kind.RECORD if literal.relation == "r" else Kind.NUMBER
        assert all(kind(arg, rule) is expected for arg in literal.args)


def kind(expr: Expr, rule: NormalRule) -> Kind:
    return rule.kinds[expr.name] if isinstance(expr, Var) else expr.kind


def test_constants_know_their_kind() -> None:
    program = check(parse(".decl u(x: unsigned) .decl v(x: unsigned) v(1) :- u(2). v(3)."), {})
    assert program.rules[0].args == (Const(1, Kind.UNSIGNED),)
    assert program.facts[0].args == (Const(3, Kind.UNSIGNED),)
