"""Localization: what comes out, and what is refused."""

from __future__ import annotations

import pytest

from sempre.analysis.check import check
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse
from sempre.network.assembly import make_network
from sempre.network.localize import LocalProgram, localize
from sempre.network.program_text import local_text

DECLARATIONS = """
.decl link(@s: symbol, d: symbol)
.decl cost(@s: symbol, d: symbol, c: number)
.decl tag(@s: symbol)
.decl reach(@s: symbol, d: symbol)
.decl best(@s: symbol, d: symbol, c: number)
"""


def localized(rules: str) -> LocalProgram:
    text = DECLARATIONS + rules
    return localize(check(parse(text), {"<text>": text}))


def rules_of(rules: str) -> list[str]:
    return [line for line in local_text(localized(rules)).split("\n") if not line.startswith(".decl")]


def test_a_local_rule_stays_as_it_is() -> None:
    assert rules_of("reach(@s, d) :- link(@s, d), tag(@s).") == ["reach(@s, d) :- link(@s, d), tag(@s)."]


def test_the_head_may_live_elsewhere() -> None:
    assert rules_of("reach(@d, s) :- link(@s, d).") == ["reach(@d, s) :- link(@s, d)."]


def test_links_travel_and_the_recursion_stays() -> None:
    assert rules_of("reach(@s, d) :- link(@s, d). reach(@s, d) :- link(@s, z), reach(@z, d).") == [
        "reach(@s, d) :- link(@s, d).",
        "link_1(@z, s) :- link(@s, z).",
        "reach(@s, d) :- link_1(@z, s), reach(@z, d).",
    ]


def test_a_chain_of_three_places() -> None:
    assert rules_of("reach(@a, d) :- link(@a, b), link(@b, c), link(@c, d).") == [
        "link_1(@b, a) :- link(@a, b).",
        "link_2(@c, a) :- link_1(@b, a), link(@b, c).",
        "reach(@a, d) :- link_2(@c, a), link(@c, d).",
    ]


def test_equal_stages_are_sent_once() -> None:
    found = rules_of("reach(@s, d) :- link(@s, z), reach(@z, d). best(@s, d, 1) :- link(@s, y), link(@y, d).")
    assert sum(rule.startswith("link_") for rule in found) == 1


def test_a_test_is_made_where_its_values_are() -> None:
    assert rules_of("reach(@s, d) :- link(@s, z), s != z, reach(@z, d).") == [
        "link_1(@z, s) :- link(@s, z), s != z.",
        "reach(@s, d) :- link_1(@z, s), reach(@z, d).",
    ]


def test_a_negation_may_need_a_second_visit() -> None:
    assert rules_of("reach(@s, d) :- link(@s, z), link(@z, d), !cost(@s, d, 1).") == [
        "link_1(@z, s) :- link(@s, z).",
        "link_2(@s, d) :- link_1(@z, s), link(@z, d).",
        "reach(@s, d) :- link_2(@s, d), !cost(@s, d, 1).",
    ]


def test_an_aggregated_value_that_must_travel_stays_aggregated() -> None:
    found = localized(
        "best(@s, d, min(c)) :- cost(@s, d, c). best(@s, d, min(c)) :- best(@z, d, c), link(@z, s), tag(@s)."
    )
    (made,) = found.made
    aggregate = found.relations[made].aggregate
    assert aggregate is not None
    assert aggregate[0] == "min"


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("reach(@s, d) :- tag(@s), link(@d, _).", "E421"),
        ("reach(@s, d) :- link(@s, d), !tag(@_).", "E422"),
        ("reach(@s, d) :- link(@s, d), !(link(@d, z), link(@z, s)).", "E422"),
        (".decl free(x: symbol) reach(@s, d) :- link(@s, d), free(d).", "E420"),
        ("best(@z, d, min(a + b)) :- best(@s, d, a), best(@s, z, b), link(@s, z), tag(@z).", "E423"),
    ],
)
def test_what_has_no_local_form_is_refused(rules: str, code: str) -> None:
    with pytest.raises(ProgramError, match=code):
        localized(rules)


@pytest.mark.parametrize(
    ("rules", "algorithm", "code"),
    [
        ("reach(@s, d) :- link(@s, d), !tag(@s).", "sets", "E425"),
        ("best(@s, d, min(c)) :- cost(@s, d, c).", "psn", "E425"),
        ('reach(@"a", "b") :- 1 < 2.', "proofs", "E424"),
        (".decl same(@x: symbol, y: symbol) eqrel same(@x, y) :- link(@x, y).", "proofs", "E424"),
    ],
)
def test_what_an_algorithm_cannot_do_is_refused(rules: str, algorithm: str, code: str) -> None:
    text = DECLARATIONS + rules
    with pytest.raises(ProgramError, match=code):
        make_network(check(parse(text), {"<text>": text}), algorithm)
