"""The normal form: what each construct becomes. Rules are compared in a short notation, see `show`."""

from __future__ import annotations

import pytest

from sempre.analysis.check import check
from sempre.analysis.model import (
    Call,
    CheckedProgram,
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
from sempre.lang.parser import parse

DECLS = """
.decl p(x: number)
.decl q(x: number, y: number)
.decl s(x: symbol)
.decl u(x: unsigned)
.decl f(x: float)
.type Pair = [a: number, b: Pair]
.decl r(x: Pair)
.decl n()
"""


def checked(text: str) -> CheckedProgram:
    return check(parse(DECLS + text), {})


def show_expr(expr: Expr) -> str:
    match expr:
        case Var(name):
            return name
        case Const(value, _):
            return "nil" if value is None else repr(value)
        case Call(op, args):
            return f"{op}({', '.join(map(show_expr, args))})"


def show(literal: Literal) -> str:
    match literal:
        case Match(relation, args):
            return f"{relation}({', '.join(map(show_expr, args))})"
        case Compare(op, left, right):
            return f"{show_expr(left)} {op} {show_expr(right)}"
        case Unpack(record, fields):
            return f"{record.name} -> [{', '.join(map(show_expr, fields))}]"
        case Not(body, shared):
            return f"not{[var.name for var in shared]}({' & '.join(map(show, body))})"
        case Fold(result, kind, expr, body, shared):
            target = "" if expr is None else " " + show_expr(expr)
            inner = " & ".join(map(show, body))
            return f"{result.name} := {kind}{target}{[var.name for var in shared]}({inner})"


def show_rule(rule: NormalRule) -> str:
    args = ", ".join(map(show_expr, rule.args))
    return f"{rule.relation}({args}) :- {' & '.join(map(show, rule.body))}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p(x) :- q(x, _), q(_, x).", ["p(x) :- q(x, _#1) & q(_#2, x)"]),
        ("p(x + 1) :- p(x), x < 3.", ["p(+(x, 1)) :- p(x) & x < 3"]),
        ("p(x) :- q(x, x + 1).", ["p(x) :- q(x, #1) & #1 = +(x, 1)"]),
        ("p(x), q(x, 1) :- p(x).", ["p(x) :- p(x)", "q(x, 1) :- p(x)"]),
        ("p(x) :- p(x), (x = 1 ; x = 2).", ["p(x) :- p(x) & x = 1", "p(x) :- p(x) & x = 2"]),
        ("p(x) :- p(x), true, (false ; x > 1).", ["p(x) :- p(x) & x > 1"]),
        ("p(x) :- p(x), false.", []),
        ("p(x) :- p(x), !false.", ["p(x) :- p(x)"]),
        ("p(x) :- x = 1.", ["p(x) :- x = 1"]),
        ("p(x) :- 1 = x, n().", ["p(x) :- 1 = x & n()"]),
        ("p(y) :- y = x + 1, p(x).", ["p(y) :- y = +(x, 1) & p(x)"]),
    ],
)
def test_rules(text: str, expected: list[str]) -> None:
    assert [show_rule(rule) for rule in checked(text).rules] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("!q(x, _)", "not['x'](q(x, _#1))"),
        ("!(q(x, y), y > 3)", "not['x'](q(x, y#1) & y#1 > 3)"),
        ("!(q(x, 1) ; q(x, 2))", "not['x'](q(x, 1)) & not['x'](q(x, 2))"),
        ("!(q(x, y) ; q(y, x))", "not['x'](q(x, y#1)) & not['x'](q(y#1#1, x))"),
        ("!(!q(x, y))", "not['x'](not['x'](q(x, y#1)))"),
        ("!(q(x, y), !q(y, x))", "not['x'](q(x, y#1) & not['x', 'y#1'](q(y#1, x)))"),
        ("!(x = 1)", "x != 1"),
        ("!(x < 1)", "x >= 1"),
        ("!(x < 1, x > 3)", "not['x'](x < 1 & x > 3)"),
        ("!(x = 1 ; x > 3)", "x != 1 & x <= 3"),
        ('!match("a", to_string(x))', "'a' not_match to_string(x)"),
        ("!(x = min y : { p(y) })", "not['x'](x := min y#1[](p(y#1)))"),
    ],
)
def test_negation(text: str, expected: str) -> None:
    (rule,) = checked(f"p(x) :- p(x), {text}.".replace("p(x) :- p", "n() :- p")).rules
    assert show_rule(rule) == f"n() :- p(x) & {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p(n) :- n = count : { s(_) }.", "p(n) :- n := count[](s(_#1))"),
        ("p(n) :- count : { s(_) } = n.", "p(n) :- n := count[](s(_#1))"),
        (
            "n() :- p(x), x > sum y : { q(x, y) } + 1.",
            "n() :- p(x) & #1 := sum y#1['x'](q(x, y#1)) & x > +(#1, 1)",
        ),
        (
            "n() :- p(x), x = min y : { q(x, y) }, x = max y : { q(y, x) }.",
            "n() :- p(x) & x := min y#1['x'](q(x, y#1)) & x := max y#2['x'](q(y#2, x))",
        ),
        ("p(count : { s(_) }) :- n().", "p(#1) :- n() & #1 := count[](s(_#1))"),
        ("p(count : { s(_) }).", "p(#1) :- #1 := count[](s(_#1))"),
        (
            "p(a) :- a = sum (x + b) : { q(x, y), b = count : { q(y, z) } }.",
            "p(a) :- a := sum +(x#2, b#1)[](q(x#2, y#3) & b#1 := count['y#3'](q(y#3, z#4)))",
        ),
        ("p(x) :- x = count : { false }.", "p(x) :- x := count[](0 != 0)"),
    ],
)
def test_aggregates(text: str, expected: str) -> None:
    (rule,) = checked(text).rules
    assert show_rule(rule) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p(a) :- r([a, _]).", "p(a) :- r(#1) & #1 -> [a, _#1]"),
        ("p(a) :- r([1, [a, nil]]).", "p(a) :- r(#1) & #1 -> [1, #2] & #2 -> [a, nil]"),
        ("p(a) :- r(x), x = [a, _].", "p(a) :- r(x) & x -> [a, _#1]"),
        ("p(a) :- r(x), [a, b] = x, r(b).", "p(a) :- r(x) & x -> [a, b] & r(b)"),
        ("r(x) :- r(b), x = [1, b].", "r(x) :- r(b) & x = record(1, b)"),
        ("r([a, b]) :- r(b), p(a).", "r(record(a, b)) :- r(b) & p(a)"),
        ("n() :- r(x), !(x = [1, _]).", "n() :- r(x) & not['x'](x -> [1, _#1])"),
        ("n() :- !r([1, _]).", "n() :- not[](r(#1) & #1 -> [1, _#1])"),
        ("n() :- r(x), x != nil.", "n() :- r(x) & x != nil"),
        ("p(a) :- r(b), as([a, c], Pair) = [1, b], r(c).", "p(a) :- r(b) & #1 = record(1, b) & #1 -> [a, c] & r(c)"),
    ],
)
def test_records(text: str, expected: str) -> None:
    (rule,) = checked(text).rules
    assert show_rule(rule) == expected


def test_facts_are_apart_from_rules() -> None:
    program = checked('p(1). p(1 + 2) :- true. r([1, nil]). s("a"). n().')
    assert not program.rules
    assert [(fact.relation, [show_expr(arg) for arg in fact.args]) for fact in program.facts] == [
        ("p", ["1"]),
        ("p", ["+(1, 2)"]),
        ("r", ["record(1, nil)"]),
        ("s", ["'a'"]),
        ("n", []),
    ]


def test_duplicate_rules_are_kept_and_numbered() -> None:
    rules = checked("p(x) :- q(x, _). p(x) :- q(x, _).").rules
    assert [rule.number for rule in rules] == [0, 1]
    assert rules[0].body == rules[1].body


def test_kinds_of_variables_and_literals() -> None:
    (rule,) = checked("p(x) :- u(y), y > 1, f(z), z < 1.5, x = utoi(y) + ftoi(z), s(t), x = strlen(t).").rules
    assert rule.kinds == {
        "x": Kind.NUMBER,
        "y": Kind.UNSIGNED,
        "z": Kind.FLOAT,
        "t": Kind.SYMBOL,
    }
    compare = rule.body[1]
    assert isinstance(compare, Compare)
    assert compare.kind is Kind.UNSIGNED
    assert compare.right == Const(1, Kind.UNSIGNED)


def test_calls_know_their_kinds() -> None:
    (rule,) = checked("s(to_string(x)) :- f(x).").rules
    assert rule.args == (Call("to_string", (Var("x"),), Kind.SYMBOL, Kind.FLOAT),)


def test_every_variable_has_a_kind() -> None:
    text = "n() :- q(x, y + 1), p(y), !(q(x, z), z < 3), x = sum w : { q(w, _), !p(w) }, r([_, _])."
    (rule,) = checked(text).rules
    names = {"x", "y", "z#1", "w#2", "_#3", "_#4", "_#5", "#1", "#2"}
    assert set(rule.kinds) == names


def test_rules_carry_their_text() -> None:
    (rule,) = checked("p(x) :- (q(x,1)).\n.plan 0:(1)").rules
    assert rule.text == "p(x) :- q(x, 1)."


def test_deleting_heads_under_active_semantics() -> None:
    program = checked('.pragma "semantics" "active"\n-p(x) :- q(x, _), !p(x). -p(3). p(4).')
    assert [(rule.relation, rule.deletes) for rule in program.rules] == [("p", True), ("p", True)]
    assert len(program.facts) == 1
