"""Printing: what is printed parses to the same tree, and reads well."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from sempre.lang.parser import parse, parse_changes
from sempre.lang.printer import to_text
from sempre.lang.syntax import ParsedProgram
from tests.unit.lang.random_programs import programs


@settings(max_examples=120, deadline=None)
@given(programs)
def test_printed_programs_parse_to_the_same_tree(program: ParsedProgram) -> None:
    text = to_text(program)
    again = parse(text)
    assert again == program
    assert to_text(again) == text


@pytest.mark.parametrize(
    "text",
    [
        ".decl edge(x: number, y: number) brie",
        '.input edge(IO="file", filename="a\\tb")',
        "path(x, z) :- path(x, y), edge(y, z).",
        "p(x) :- q(x), (x < 3 ; x = 4, !r(x)), !(s(x), t(x)).",
        "d(y, min(d + w)) :- d(x, d), edge(x, y, w).",
        "p(x) :- x = (1 + 2) * 3 - -4 ^ 2, n = count : { q(x) }.",
        "p(x - (y - z), (x ^ y) ^ z, -(5), (-5) ^ 2) :- q(x, y, z).",
        "-h(@x) :- link(@x, y), n = 1 + (sum z : { q(z) }).",
        ".type List = [head: number, tail: List]",
    ],
)
def test_source_in_the_usual_form_prints_as_it_is(text: str) -> None:
    assert to_text(parse(text)) == text + "\n"


def test_long_bodies_get_a_line_for_each_part() -> None:
    parts = [f"relation_{number}(x, y, z)" for number in range(8)]
    text = to_text(parse(f"p(x) :- {', '.join(parts)}."))
    assert text == "p(x) :-\n    " + ",\n    ".join(parts) + ".\n"


def test_changes_print_as_they_are_written() -> None:
    ((change,),) = parse_changes('-edge("a", 1).commit.')
    assert to_text(change) == '-edge("a", 1).'
