"""Tokens: kinds, values, places, and what cannot be read."""

from __future__ import annotations

import pytest

from sempre.lang.lexer import tokenize


def kinds(text: str) -> list[str]:
    return [token.kind for token in tokenize(text, "t.dl")[0]][:-1]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("42", "number", 42),
        ("0x2A", "number", 42),
        ("0b101", "number", 5),
        ("42u", "unsigned", 42),
        ("0xffu", "unsigned", 255),
        ("1.5", "float", 1.5),
        ("1e3", "float", 1000.0),
        ("1.5e-3", "float", 0.0015),
        ('"a\\tb\\"c"', "string", 'a\tb"c'),
        ("?x_1", "word", "?x_1"),
        (".decl", "directive", "decl"),
    ],
)
def test_values(text: str, kind: str, value: object) -> None:
    token = tokenize(text, "t.dl")[0][0]
    assert (token.kind, token.value) == (kind, value)


def test_a_period_after_a_number_ends_the_rule() -> None:
    assert kinds("x = 1.") == ["word", "=", "number", "."]


def test_a_directive_needs_its_whole_name() -> None:
    assert kinds(".declare") == [".", "word"]
    assert kinds("a(x).b(x).") == ["word", "(", "word", ")", ".", "word", "(", "word", ")", "."]


def test_comments_of_both_kinds_are_skipped() -> None:
    assert kinds("a // b\n/* c\n d */ e") == ["word", "word"]


def test_places_count_from_one_and_survive_line_breaks() -> None:
    tokens, _ = tokenize("a\n  /* x\n y */ bc", "t.dl")
    span = tokens[1].span
    assert (span.line, span.column, span.end_line, span.end_column) == (3, 7, 3, 9)


def test_every_unreadable_character_is_reported() -> None:
    _, diagnostics = tokenize("a § b\n€", "t.dl")
    assert [(found.code, found.span.line, found.span.column) for found in diagnostics] == [
        ("E102", 1, 3),
        ("E102", 2, 1),
    ]


def test_very_long_numbers_are_read() -> None:
    tokens, diagnostics = tokenize("9" * 10_000 + " 0x" + "f" * 10_000, "t.dl")
    assert not diagnostics
    assert all(int(token.value) > 2**64 for token in tokens[:2])
