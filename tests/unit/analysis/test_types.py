"""Types: kinds, literals, subtypes, unions, records, and what declarations become."""

from __future__ import annotations

import pytest

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram, Kind, Type
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse

DECLS = """
.type City <: symbol
.type Village <: symbol
.type Place = City | Village
.type Town = City
.type Pair = [a: number, b: symbol]
.type Other = [a: number, b: symbol]
.decl city(x: City)
.decl village(x: Village)
.decl place(x: Place)
.decl town(x: Town)
.decl text(x: symbol)
.decl n(x: number)
.decl u(x: unsigned)
.decl f(x: float)
.decl pair(x: Pair)
.decl other(x: Other)
.decl ok()
"""


def checked(text: str) -> CheckedProgram:
    return check(parse(DECLS + text), {})


@pytest.mark.parametrize(
    "rule",
    [
        "place(x) :- city(x).",
        "city(x) :- town(x).",
        "town(x) :- city(x).",
        "text(x) :- place(x).",
        "city(x) :- place(x), city(x).",
        "city(x) :- text(x), town(x).",
        'city("a").',
        "city(as(x, City)) :- text(x).",
        "city(cat(x, y)) :- city(x), city(y).",
        "ok() :- text(x), !city(x).",
        "u(1). u(x + 1) :- u(x). u(0xff).",
        "f(1.0). f(x * 2.5) :- f(x).",
        "f(itof(x) / 2.0) :- n(x).",
        "n(x band 3 bshl 2) :- n(x).",
        "u(bnot x) :- u(x).",
        "ok() :- text(x), x < \"b\", text(y), max(x, y) = x.",
        "ok() :- pair(nil).",
        "ok() :- pair(x), x != nil, x = [1, _].",
        "pair([1, \"a\"]).",
        "f(m) :- m = mean x : { n(x) }.",
        "ok() :- \"a\" = min x : { text(x) }.",
        "text(to_string(x)), n(to_number(y)) :- n(x), text(y).",
        "ok() :- n(x), 18446744073709551615u = itou(x).",
        "n(-9223372036854775808). n(9223372036854775807).",
    ],
)  # fmt: skip
def test_well_typed(rule: str) -> None:
    checked(rule)


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("n(x) :- text(x).", "E301"),
        ("f(\"1\").", "E301"),
        ("n(1u).", "E301"),
        ("n(1.0).", "E301"),
        ("ok() :- n(x), u(x).", "E301"),
        ("ok() :- n(x), u(y), x < y.", "E301"),
        ("n(x + y) :- n(x), f(y).", "E301"),
        ("f(x % 2.0) :- f(x).", "E301"),
        ("u(-x) :- u(x).", "E301"),
        ("n(strlen(x)) :- n(x).", "E301"),
        ("ok() :- pair(x), x < x.", "E301"),
        ("ok() :- pair(x), other(x).", "E301"),
        ("ok() :- n(nil).", "E301"),
        ("n(m) :- m = mean x : { f(x) }.", "E301"),
        ("n(m) :- m = sum x : { text(x) }.", "E301"),
        ("ok() :- n(x), match(\"a\", x).", "E301"),
        ("ok() :- n(x), x = to_string(x).", "E301"),
        ("ok() :- city(x), village(x).", "E302"),
        ("city(x) :- text(x).", "E303"),
        ("city(x) :- place(x).", "E303"),
        ("pair([1]).", "E305"),
        ("pair([\"a\", \"a\"]).", "E301"),
        ("n(9223372036854775808).", "E306"),
        ("u(-1).", "E306"),
        ("f(1e999).", "E306"),
    ],
)  # fmt: skip
def test_badly_typed(rule: str, code: str) -> None:
    with pytest.raises(ProgramError) as caught:
        checked(rule)
    assert {found.code for found in caught.value.diagnostics} == {code}


def test_types_are_resolved() -> None:
    types = checked("").types
    assert types["Place"] == Type("Place", Kind.SYMBOL)
    assert types["Pair"] == Type("Pair", Kind.RECORD, (("a", "number"), ("b", "symbol")))
    assert types["float"] == Type("float", Kind.FLOAT)


def test_relations_carry_their_declarations_and_directives() -> None:
    program = check(
        parse(
            ".decl link(@s: symbol, d: symbol) btree input\n"
            '.input link(IO="file", filename="x.csv")\n'
            ".output link\n.printsize link\n"
            '.pragma "k" "v"\n'
        ),
        {},
    )
    link = program.relations["link"]
    assert link.columns == ("s", "d")
    assert link.location == 0
    assert [directive.option("filename") for directive in link.inputs] == ["", "x.csv"]
    assert len(link.outputs) == 1
    assert link.printsize
    assert link.qualifiers == {"btree", "input"}
    assert program.pragmas == {"k": "v"}


def test_locations_may_come_from_atoms() -> None:
    program = check(parse(".decl l(s: symbol, d: symbol) .decl m(x: symbol) m(@x) :- l(y, @x), l(y, x)."), {})
    assert program.relations["l"].location == 1
    assert program.relations["m"].location == 0


def test_equivalence_relations() -> None:
    program = check(parse(".decl same(x: number, y: number) eqrel\nsame(1, 2)."), {})
    assert program.relations["same"].is_equivalence
    assert not program.rules


def test_warnings_do_not_stop() -> None:
    program = check(parse(".decl p(x: number) .decl q(x: number, y: number) p(x) :- q(x, y)."), {})
    assert [found.code for found in program.warnings] == ["W202"]
