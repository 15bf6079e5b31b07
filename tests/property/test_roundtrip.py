"""What is printed parses to the same tree."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sempre.lang import syntax as s
from sempre.lang.parser import parse
from sempre.lang.printer import to_text
from tests.property.programs import Case, cases, random_case


@settings(max_examples=60)
@given(cases())
def test_programs_print_and_parse_to_themselves(case: Case) -> None:
    text = to_text(case.program)
    assert parse(text, "case.dl") == case.program
    assert to_text(parse(text, "case.dl")) == text


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_many_programs_print_and_parse_to_themselves(start: int) -> None:
    for seed in range(start, start + 100):
        program = random_case(random.Random(seed)).program
        assert parse(to_text(program), "case.dl") == program, seed


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_every_text_is_a_symbol(text: str) -> None:
    program = s.ParsedProgram((s.Rule((s.Head(s.Atom("p", (s.String(text),))),)),))
    assert parse(to_text(program), "text.dl") == program


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=0.0))
def test_every_float_prints_exactly(number: float) -> None:
    program = s.ParsedProgram((s.Rule((s.Head(s.Atom("p", (s.Float(number),))),)),))
    assert parse(to_text(program), "float.dl") == program
