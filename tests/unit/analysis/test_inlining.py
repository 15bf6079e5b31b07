"""Inlined relations: expanded where that is sound, ordinary relations elsewhere."""

from __future__ import annotations

import pytest

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse
from tests.unit.analysis.test_normal_form import show_rule

DECLS = """
.decl p(x: number)
.decl q(x: number, y: number)
.decl i(x: number, y: number) inline
"""


def checked(text: str) -> CheckedProgram:
    return check(parse(DECLS + text), {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i(a, b) :- a < b. p(x) :- q(x, y), i(x, y).", ["p(x) :- q(x, y) & x < y"]),
        ("i(a, b) :- q(b, a). p(x) :- i(x, _).", ["p(x) :- q(_#i1, x)"]),
        ("i(a, a) :- p(a). p(x) :- q(x, y), i(x, y).", ["p(x) :- q(x, y) & y = x & p(x)"]),
        ("i(a, a + 1) :- p(a). p(y) :- i(_, y).", ["p(y) :- y = +(_#i1, 1) & p(_#i1)"]),
        ("i(1, 2). i(x, y) :- q(x, y). p(x) :- i(x, 3).", ["p(x) :- x = 1 & 3 = 2", "p(x) :- q(x, 3)"]),
        ("i(a, b) :- q(a, c), q(c, b). p(x) :- p(x), !i(x, 1).",
         ["p(x) :- p(x) & not['x'](q(x, c#i1#1) & q(c#i1#1, 1))"]),
        ("i(a, b) :- a < b. i(a, b) :- q(a, b). p(x) :- p(x), !i(x, 1).",
         ["p(x) :- p(x) & x >= 1 & not['x'](q(x, 1))"]),
        ("i(a, b) :- q(a, b). p(x) :- p(y), i(y + 1, x).", ["p(x) :- p(y) & _#i1 = +(y, 1) & q(_#i1, x)"]),
        ("p(x) :- i(x, _).", []),
        ("p(x) :- p(x), !i(x, _).", ["p(x) :- p(x)"]),
    ],
)  # fmt: skip
def test_expansion(text: str, expected: list[str]) -> None:
    assert [show_rule(rule) for rule in checked(text).rules] == expected


def test_inlined_relations_are_gone() -> None:
    program = checked("i(a, b) :- q(a, b). p(x) :- i(x, _).")
    assert "i" not in program.relations
    assert all("i" not in stratum.relations for stratum in program.strata)


@pytest.mark.parametrize(
    "text",
    [
        "p(n) :- n = count : { i(_, _) }.",
        ".output i",
        ".printsize i",
    ],
)
def test_relations_that_must_exist_stay(text: str) -> None:
    program = checked("i(a, b) :- q(a, c), q(c, b)." + text)
    assert "i" in program.relations


def test_inlined_rules_are_expanded_in_each_other() -> None:
    text = ".decl j(x: number) inline\nj(x) :- i(x, y), p(y). i(a, b) :- q(a, b). p(x) :- j(x)."
    assert [show_rule(rule) for rule in checked(text).rules] == ["p(x) :- q(x, y#i1) & p(y#i1)"]


def test_unbound_after_expansion_is_an_error() -> None:
    with pytest.raises(ProgramError) as caught:
        checked("i(a, b) :- a < b. p(x) :- i(x, 3).")
    assert [found.code for found in caught.value.diagnostics] == ["E201"]
