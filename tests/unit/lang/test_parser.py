"""The grammar, construct by construct, and recovery from errors."""

from __future__ import annotations

import math

import pytest

from sempre.diagnostics import DataError, ProgramError
from sempre.lang.parser import parse, parse_atom, parse_changes
from sempre.lang.syntax import (
    Aggregate,
    AlgebraicType,
    Apply,
    Atom,
    Attribute,
    Branch,
    Comparison,
    Component,
    Conjunction,
    Directive,
    Disjunction,
    Float,
    Head,
    HeadAggregate,
    Item,
    Negation,
    Nil,
    Number,
    Pragma,
    Record,
    RecordType,
    RelationDecl,
    Rule,
    String,
    Subsumption,
    Subtype,
    Term,
    Truth,
    TypeDecl,
    Union,
    UserCall,
    Variable,
    Wildcard,
)

X, Y, Z = Variable("x"), Variable("y"), Variable("z")


def item(text: str) -> Item:
    (only,) = parse(text).items
    return only


def body(text: str) -> object:
    rule = item(f"h() :- {text}.")
    assert isinstance(rule, Rule)
    return rule.body


def term(text: str) -> Term:
    comparison = body(f"x = {text}")
    assert isinstance(comparison, Comparison)
    return comparison.right


def op(name: str, *args: Term) -> Apply:
    return Apply(name, args)


# ----------------------------------------------------------------------------------------------- declarations


def test_one_declaration_for_each_name() -> None:
    attributes = (Attribute("x", "number"),)
    assert parse(".decl a, b(x: number) btree").items == (
        RelationDecl("a", attributes, ("btree",)),
        RelationDecl("b", attributes, ("btree",)),
    )


def test_qualifiers_choice_and_locations() -> None:
    decl = item(".decl r(@s: symbol, d: symbol) input eqrel choice-domain s, (s, d)")
    attributes = (Attribute("s", "symbol", True), Attribute("d", "symbol"))
    assert decl == RelationDecl("r", attributes, ("input", "eqrel"), (("s",), ("s", "d")))


@pytest.mark.parametrize(
    ("text", "definition"),
    [
        (".type T <: number", Subtype("number")),
        (".type T", Subtype("symbol")),
        (".number_type T", Subtype("number")),
        (".symbol_type T", Subtype("symbol")),
        (".type T = A", Union(("A",))),
        (".type T = A | B", Union(("A", "B"))),
        (".type T = [x: A]", RecordType((Attribute("x", "A"),))),
        (".type T = []", RecordType(())),
        (".type T = A {} | B {x: T}", AlgebraicType((("A", ()), ("B", (Attribute("x", "T"),))))),
    ],
)
def test_types(text: str, definition: Subtype | Union | RecordType | AlgebraicType) -> None:
    assert item(text) == TypeDecl("T", definition)


def test_directives_with_options() -> None:
    found = parse('.input a, b(IO=file, filename="x.csv", n=3), c(n=-1)\n.output d()').items
    assert found == (
        Directive("input", ("a", "b"), (("IO", "file"), ("filename", "x.csv"), ("n", "3"))),
        Directive("input", ("c",), (("n", "-1"),)),
        Directive("output", ("d",)),
    )


def test_pragma_takes_one_or_two_strings() -> None:
    assert parse('.pragma "legacy"\n.pragma "k" "v"').items == (Pragma("legacy"), Pragma("k", "v"))


def test_component_with_everything_in_it() -> None:
    component = item(".comp C<T> : D<T>, E { .decl r(x: T) r(x) :- s(x). .override s .comp F {} .init f = F }")
    assert isinstance(component, Component)
    assert component.overrides == ("s",)
    assert [type(part).__name__ for part in component.items] == ["RelationDecl", "Rule", "Component", "Instantiation"]


# ------------------------------------------------------------------------------------------------------ rules


def test_facts_on_one_line() -> None:
    found = parse("e(1,2).e(2,3). n().").items
    assert all(isinstance(fact, Rule) and fact.is_fact for fact in found)
    assert len(found) == 3


def test_several_heads_deletion_and_plan() -> None:
    rule = item("a(x), -b(x) :- c(x).\n.plan 0:(1,2), 1:(2,1)")
    heads = (Head(Atom("a", (X,))), Head(Atom("b", (X,)), True))
    assert rule == Rule(heads, Atom("c", (X,)), ((0, (1, 2)), (1, (2, 1))))


def test_bodies_nest() -> None:
    a, b, c, d = (Atom(name, ()) for name in "abcd")
    assert body("a(), (b() ; c(), d()), !(a(), b())") == Conjunction(
        (a, Disjunction((b, Conjunction((c, d)))), Negation(Conjunction((a, b))))
    )
    assert body("(a(), b()), c()") == Conjunction((a, b, c))
    assert body("true, !false") == Conjunction((Truth(True), Negation(Truth(False))))


def test_parentheses_are_a_term_where_an_operator_follows() -> None:
    assert body("(x + 1) * 2 < y") == Comparison("<", op("*", op("+", X, Number(1)), Number(2)), Y)
    assert body("((x)) = y") == Comparison("=", X, Y)


def test_a_name_with_arguments_is_an_atom_unless_an_operator_follows() -> None:
    assert body("strlen(x) > 3") == Comparison(">", op("strlen", X), Number(3))
    assert body("max(x)") == Atom("max", (X,))
    assert body("match(x, y), contains(x, y)") == Conjunction((Comparison("match", X, Y), Comparison("contains", X, Y)))


def test_locations_and_user_functors_share_a_sign() -> None:
    assert body("link(@x, @f(y))") == Atom("link", (X, UserCall("f", (Y,))), 0)


def test_qualified_names() -> None:
    assert body("g.h.edge(x), x = y") == Conjunction((Atom("g.h.edge", (X,)), Comparison("=", X, Y)))
    assert len(parse("a(x) :- x = y.b(y).").items) == 2


def test_subsumption() -> None:
    assert item("a(x) <= a(y) :- x < y.") == Subsumption(Atom("a", (X,)), Atom("a", (Y,)), Comparison("<", X, Y))


# ------------------------------------------------------------------------------------------------------ terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y * z", op("+", X, op("*", Y, Z))),
        ("x - y - z", op("-", op("-", X, Y), Z)),
        ("x ^ y ** z", op("^", X, op("^", Y, Z))),
        ("-x ^ y", op("neg", op("^", X, Y))),
        ("-5", Number(-5)),
        ("-5 ^ 2", op("neg", op("^", Number(5), Number(2)))),
        ("x - -5", op("-", X, Number(-5))),
        ("-(5)", op("neg", Number(5))),
        ("-1.5", Float(-1.5)),
        ("x band y bor z", op("bor", op("band", X, Y), Z)),
        ("x << y + z", op("bshl", X, op("+", Y, Z))),
        ("x && y || z", op("lor", op("land", X, Y), Z)),
        ("~x band lnot y", op("band", op("bnot", X), op("lnot", Y))),
        ("[x, [y, nil]]", Record((X, Record((Y, Nil()))))),
        ("max(x, y) + 1", op("+", op("max", X, Y), Number(1))),
        ('cat("a", _)', op("cat", String("a"), Wildcard())),
    ],
)
def test_operators(text: str, expected: Term) -> None:
    assert term(text) == expected


def test_aggregates() -> None:
    p = Atom("p", (X,))
    assert term("count : p(x)") == Aggregate("count", None, p)
    assert term("sum x : { p(x) }") == Aggregate("sum", X, p)
    assert term("max (x + 1) * 2 : { p(x) }") == Aggregate("max", op("*", op("+", X, Number(1)), Number(2)), p)
    assert term("max(x, y)") == op("max", X, Y)
    assert body("count : { p(x) } < 3") == Comparison("<", Aggregate("count", None, p), Number(3))
    assert term("1 + count : { p(x) }") == op("+", Number(1), Aggregate("count", None, p))


def test_aggregates_in_heads() -> None:
    rule = item("d(x, min(y + 1)), e(count<x>), f(max(x, y)), g(min x : { p(x) }) :- p(x), p(y).")
    assert isinstance(rule, Rule)
    args = [head.atom.args[-1] for head in rule.heads]
    assert args == [
        HeadAggregate("min", op("+", Y, Number(1))),
        HeadAggregate("count", X),
        op("max", X, Y),
        Aggregate("min", X, Atom("p", (X,))),
    ]


def test_keywords_are_names_where_nothing_else_can_be_meant() -> None:
    parse(".decl count(min: number, input: number)\ncount(min, max) :- count(max, min), sum = min.")


# ----------------------------------------------------------------------------------------------------- places


def test_nodes_know_their_place() -> None:
    rule = item("p(x) :-\n  q(x), x < 10 + y.")
    assert isinstance(rule, Rule)
    assert isinstance(rule.body, Conjunction)
    span = rule.body.parts[1].span
    assert (span.file, span.line, span.column, span.end_column) == ("<text>", 2, 9, 19)


# ----------------------------------------------------------------------------------------------------- errors


def codes(text: str) -> list[tuple[str, int]]:
    with pytest.raises(ProgramError) as caught:
        parse(text, "t.dl")
    return [(found.code, found.span.line) for found in caught.value.diagnostics]


def test_every_syntax_error_is_reported() -> None:
    text = "a(1).\nb(.\nc(2).\nd(3) :- e(.\n.decl f(x number)\ng(4) :- , .\n.typ T\n"
    assert codes(text) == [("E101", 2), ("E101", 4), ("E101", 5), ("E101", 6), ("E107", 7)]


def test_an_error_at_the_end_is_shown_behind_the_last_token() -> None:
    with pytest.raises(ProgramError) as caught:
        parse("p(x) :- q(x)\n\n\n", "t.dl")
    span = caught.value.diagnostics[0].span
    assert (span.line, span.column) == (1, 13)


@pytest.mark.parametrize("text", ["(" * 5000, "p(" + "[" * 5000, "p(" + "-" * 5000 + "x).", "p() :- " + "!" * 5000])
def test_depth_is_an_error_not_a_crash(text: str) -> None:
    assert codes(text)


def test_long_chains_of_operators_are_too_deep() -> None:
    assert codes("p(" + "+".join("1" * 5000) + ").") == [("E109", 1)]


# ------------------------------------------------------------------------------------------ scripts and queries


def test_change_script() -> None:
    epochs = parse_changes('+e("a", -1). -e("b", [1, nil]).\ncommit.\ncommit. +f().commit.')
    assert [[(change.insert, change.fact) for change in epoch] for epoch in epochs] == [
        [
            (True, Atom("e", (String("a"), Number(-1)))),
            (False, Atom("e", (String("b"), Record((Number(1), Nil()))))),
        ],
        [],
        [(True, Atom("f", ()))],
    ]


def test_floats_that_are_no_numbers_in_facts() -> None:
    [[change]] = parse_changes("+e(inf, -inf, [nan, inf], $B(-inf)). commit.")
    *plain, record, branch = change.fact.args
    assert plain == [Float(math.inf), Float(-math.inf)]
    assert isinstance(record, Record)
    assert isinstance(branch, Branch)
    assert [repr(arg.value) for arg in (*record.args, *branch.args) if isinstance(arg, Float)] == ["nan", "inf", "-inf"]


def test_empty_change_script() -> None:
    assert parse_changes("// nothing\n") == []


@pytest.mark.parametrize("text", ["+e(1).", "+e(1). commit. -e(1).", "+e(x). commit.", "e(1). commit.", "commit"])
def test_bad_change_scripts(text: str) -> None:
    with pytest.raises(DataError):
        parse_changes(text)


def test_query() -> None:
    assert parse_atom('reach("a", X)') == Atom("reach", (String("a"), Variable("X")))
    assert parse_atom("reach(_, 3).") == Atom("reach", (Wildcard(), Number(3)))
    with pytest.raises(ProgramError):
        parse_atom("reach(1), p(2)")
