"""Groundedness: what binds a variable, what does not, and the scopes of negations and aggregates."""

from __future__ import annotations

import pytest

from sempre.analysis.check import check
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse

DECLS = """
.type Pair = [a: number, b: Pair]
.decl p(x: number)
.decl q(x: number, y: number)
.decl r(x: Pair)
.decl h(x: number)
"""


@pytest.mark.parametrize(
    "rule",
    [
        "h(y) :- p(x), y = x + 1.",
        "h(y) :- x + 1 = y, p(x).",
        "h(z) :- z = y, y = x, p(x).",
        "h(a) :- r([a, [_, _]]).",
        "h(a) :- r(x), x = [_, [a, _]].",
        "h(n) :- n = count : { p(_) }.",
        "h(n) :- p(x), n = sum y : { q(x, y) }.",
        "h(n) :- n = sum y : { q(z, y), z > m }, m = min y : { p(y) }.",
        "h(x) :- p(x), !(q(x, y), z = y + 1, z > x).",
        "h(x) :- p(x), !q(x, y).",
        "h(x) :- p(x), !(q(x, y), !(q(y, z), z > x)).",
        "h(x) :- x = 1.",
        "h(x) :- p(x), (q(x, y), y > 1 ; x = 2).",
        "h(as(x, number)) :- p(x).",
        "h(x) :- as(x, number) = 3.",
        "h(x) :- p(x), x = count : { q(y, _) }, x = count : { q(_, y) }.",
    ],
)
def test_bound(rule: str) -> None:
    check(parse(DECLS + rule), {})


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("h(x) :- p(y), x < y.", {("E201", "x")}),
        ("h(x) :- p(x + 1).", {("E201", "x")}),
        ("h(x) :- x + 1 = 3.", {("E201", "x")}),
        ("h(x) :- x = y, y = x.", {("E201", "x")}),
        ("h(x) :- !p(x).", {("E201", "x")}),
        ("h(x) :- p(x) ; p(y).", {("E201", "x")}),
        ("h(x) :- p(x), !(y < x).", {("E201", "y")}),
        ("h(x) :- p(x), !(q(x, y), z < y).", {("E201", "z")}),
        ("h(x) :- p(x), x = sum z : { q(x, y) }.", {("E201", "z")}),
        ("h(x) :- p(x), x = count : { q(x, y), z < y }.", {("E201", "z")}),
        ("h(y) :- p(x), x = min y : { q(x, y) }.", {("E205", "y")}),
        ("h(x) :- p(x), y > 1, x = min y : { q(x, y) }.", {("E205", "y")}),
        ("h(x) :- p(x), !q(x, y), !q(y, x).", {("E213", "y")}),
        ("h(x) :- p(x), !q(x, y), x = count : { p(y) }.", {("E213", "y")}),
        ("h(_).", {("E212", "_")}),
        ("h(x).", {("E201", "x")}),
        ("h(x) :- p(x), x = _ + 1.", {("E212", "_")}),
        ("h(x) :- r(y), r([x, y]), z = [x, _], r(z).", set()),
        ("r(z) :- p(x), z = [x, _].", {("E212", "_")}),
        ("h(a) :- q(a, b), c = d + b.", {("E201", "d")}),
    ],
)
def test_unbound(rule: str, expected: set[tuple[str, str]]) -> None:
    text = DECLS + rule
    lines = text.split("\n")
    found = set()
    try:
        check(parse(text), {})
    except ProgramError as error:
        for diagnostic in error.diagnostics:
            span = diagnostic.span
            found.add((diagnostic.code, lines[span.line - 1][span.column - 1 : span.end_column - 1]))
    assert found == expected


def test_all_errors_of_a_program_are_reported_at_once() -> None:
    text = DECLS + 'h(x) :- p(y).\nh(x) :- pp(x).\nh("a").\nh(x) :- p(x), !h(x).\nh(x, y) :- q(x, y).\n.decl p(x: T)'
    with pytest.raises(ProgramError) as caught:
        check(parse(text), {})
    codes = [(found.code, found.span.line - 6) for found in caught.value.diagnostics]
    assert codes == [("E201", 1), ("E202", 2), ("E301", 3), ("E401", 4), ("E203", 5), ("E204", 6), ("E310", 6)]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (".functor f(x: nowhere): number\n.decl p(x: number) p(@f(1)).", ["E310"]),
        (".functor f(x: number): B .type B <: nowhere\n.decl p(x: number) p(@f(1)).", ["E310"]),
        (
            ".decl e(x: number) .input e .decl d(x: number) d(min(x)) :- d(x). d(1, min(x)) :- e(x). d(x) :- e(x).",
            ["E203", "E410"],
        ),
        (
            ".type P = [v: nowhere, rest: P]\n.decl p(x: P) .input p .decl n(n: number) n(1) :- p(x), 1 = f_first(x).",
            ["E310"],
        ),
        (".decl d(x: number) d(1, min(2)).\n.decl p(x: number) p(x) :- d(x).", ["E203"]),
        (
            ".aggregate f(x: nowhere): number\n.decl p(x: number) p(1). .decl q(n: number) q(@f x : { p(x) }).",
            ["E310"],
        ),
    ],
)
def test_a_wrong_declaration_leaves_out_the_rules_that_need_it(text: str, codes: list[str]) -> None:
    with pytest.raises(ProgramError) as caught:
        check(parse(text), {})
    assert [found.code for found in caught.value.diagnostics] == codes
