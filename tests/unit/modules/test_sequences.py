"""Which rules ask for neighbors, in which spelling, and what becomes of the program."""

from __future__ import annotations

import pytest

import sempre
from sempre.analysis.model import Kind
from sempre.explain import plan_text as explain
from sempre.modules.find import Modular, modularize
from sempre.plan.ops import Neighbors

DECLARED = """
.decl ev(t: number)
.decl at(k: symbol, t: number, v: float)
.decl word(t: symbol)
.decl next(x: number, y: number)
.decl between(x: number, y: number)
.decl pair(x: symbol, y: symbol)
"""


def parts(rules: str, modules: str = "auto") -> Modular:
    return modularize(sempre.Program(DECLARED + rules).checked, modules)


def orders(found: Modular) -> list[Neighbors]:
    return [m.order for modules in found.modules.values() for m in modules if m.order is not None]


@pytest.mark.parametrize(
    "rule",
    [
        "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), x < z, z < y).",
        "next(a, b) :- !(c < b, ev(c), c > a), b > a, ev(b), ev(a).",
        "next(x, x) :- ev(x), ev(y), x < y, !(ev(z), x < z, y > z), x != 7.",
        "next(x, y) :- ev(x), ev(y), ev(w), y < w, x < y, !(ev(z), x < z, z < y).",
        "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), ev(x), x < z, z < y).",
    ],
)
def test_spellings_of_a_successor(rule: str) -> None:
    found = parts(rule)
    assert orders(found) == [Neighbors("next#ev#0", "ev", (), 0, Kind.NUMBER)]
    (rewritten,) = (r for r in found.program.rules if r.relation == "next")
    original = sempre.Program(DECLARED + rule).checked.rules[0]
    assert len(rewritten.body) == len(original.body) - 1
    assert rewritten.text == original.text


@pytest.mark.parametrize(
    ("rule", "groups"),
    [
        ("next(x, y) :- at(k, x, _), at(k, y, _), x < y, !(at(k, z, _), x < z, z < y).", (0,)),
        ("next(x, y) :- at(k, x, u), at(k, y, v), x < y, !(at(_, z, _), x < z, z < y), u < v.", ()),
        ('next(x, y) :- at("a", x, _), at("a", y, _), x < y, !(at("a", z, _), x < z, z < y).', (0,)),
        ("next(x, y) :- at(k, x, v), at(k, y, v), x < y, !(at(k, z, v), x < z, z < y).", (0, 2)),
    ],
)
def test_groups_are_what_all_three_share(rule: str, groups: tuple[int, ...]) -> None:
    name = "next#at#" + ".".join(map(str, (*groups, 1)))
    assert orders(parts(rule)) == [Neighbors(name, "at", groups, 1, Kind.NUMBER)]


def test_neighbors_are_named_by_what_they_are_of() -> None:
    rules = [
        "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), x < z, z < y).\n",
        "next(x, y) :- at(k, x, _), at(k, y, _), x < y, !(at(k, z, _), x < z, z < y).\n",
        "next(x, y) :- at(_, x, _), at(_, y, _), x < y, !(at(_, z, _), x < z, z < y).\n",
    ]
    found = [{order.relation: order for order in orders(parts("".join(text)))} for text in (rules, rules[::-1])]
    assert found[0] == found[1]
    assert len(found[0]) == 3


@pytest.mark.parametrize(
    "rule",
    [
        "next(x, y) :- ev(x), ev(y), !(ev(z), x < z, z < y).",
        "next(x, y) :- ev(x), ev(y), x <= y, !(ev(z), x < z, z < y).",
        "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), x <= z, z < y).",
        "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), x < z).",
        "next(x, y) :- ev(x), ev(y), y < x, !(ev(z), x < z, z < y).",
        "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), x < z, z < y, z != 3).",
        "next(x, y) :- ev(x), ev(y), x < y, !(at(_, z, _), x < z, z < y).",
        "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), ev(w), x < z, z < y, w > z).",
        'next(x, y) :- at(_, x, _), at(_, y, _), x < y, !(at(k, z, _), x < z, z < y, k = "a").',
        "next(x, y) :- at(k, x, _), at(_, y, _), x < y, !(at(k, z, _), x < z, z < y).",
        "next(x, y) :- at(k, x, _), at(l, y, _), x < y, !(at(k, z, _), x < z, z < y), k = l.",
        "next(x, y) :- ev(x), at(_, y, _), x < y, !(ev(z), x < z, z < y).",
        "pair(x, y) :- word(x), word(y), x < y, !(word(z), x < z, z < y).",
        "next(x, 5) :- ev(x), ev(5), x < 5, !(ev(z), x < z, z < 5).",
    ],
)
def test_what_only_looks_like_a_successor(rule: str) -> None:
    found = parts(rule)
    assert orders(found) == []
    assert found.program.relations.keys() == sempre.Program(DECLARED).relations.keys()


BETWEEN = "between(x, y) :- ev(x), ev(z), ev(y), x < z, z < y.\n"
NEXT = "next(x, y) :- ev(x), ev(y), x < y, !between(x, y).\n"


def test_a_helper_that_nobody_else_reads_waits() -> None:
    found = parts(BETWEEN + NEXT)
    assert len(orders(found)) == 1
    assert [*found.deferred] == ["between"]
    assert {rule.relation for rule in found.program.rules} == {"next", "next#ev#0"}


@pytest.mark.parametrize(
    "extra",
    [
        ".output between",
        ".printsize between",
        ".input between",
        "between(1, 2).",
        "between(x, y) :- ev(x), ev(y), x > y.",
        ".decl other(x: number)\nother(x) :- between(x, _).",
        ".decl other(x: number)\nother(x) :- ev(x), !between(x, x).",
        ".decl other(x: number)\nother(count : { between(_, _) }) :- ev(_).",
    ],
)
def test_a_helper_that_somebody_sees_is_evaluated(extra: str) -> None:
    found = parts(BETWEEN + NEXT + extra)
    assert not found.deferred
    assert orders(found) == []


@pytest.mark.parametrize(
    "helper",
    [
        "between(x, y) :- ev(x), ev(z), ev(y), x < z, z < y, z > 3.",
        "between(x, y) :- at(_, x, _), ev(z), ev(y), x < z, z < y.",
        "between(y, x) :- ev(x), ev(z), ev(y), x < z, z < y.",
        "between(x, x) :- ev(x), ev(z), ev(y), x < z, z < y.",
    ],
)
def test_a_helper_that_says_something_else_is_evaluated(helper: str) -> None:
    assert not parts(helper + NEXT).deferred


def test_neighbors_of_one_kind_are_kept_once() -> None:
    rule = "next(x, y) :- ev(x), ev(y), x < y, !(ev(z), x < z, z < y), x {} 5.\n"
    found = parts(rule.format("<") + rule.format(">"))
    assert len(orders(found)) == 1
    assert orders(parts(rule.format("<"), "tc,stc")) == []


def test_neighbors_stay_inside() -> None:
    """No relation, change or report tells of relations that the program does not have."""
    program = sempre.Program(DECLARED + BETWEEN + NEXT)
    with sempre.Database(program) as db:
        changes = db.apply(insert={"ev": [(1,), (3,), (2,)]})
        assert [*db] == [*program.relations] == [*changes.added]
        assert {*changes.report.added} == {"ev", "next"}
        assert "#" not in str(changes.report)
        assert [(s["relations"], s["strategy"]) for s in changes.report.strata][1:2] == [(("ev",), "seq")]


def test_a_helper_is_there_when_it_is_read() -> None:
    with sempre.Database(DECLARED + BETWEEN + NEXT) as db:
        db.apply(insert={"ev": [(1,), (3,), (2,)]})
        assert sorted(db["next"]) == [(1, 2), (2, 3)]
        assert list(db["between"]) == [(1, 3)]
        assert len(db["between"]) == 1
        assert (1, 3) in db["between"]
        assert db.query("between(1, X)").to_pydict() == {"X": [3]}
        first = db.apply(insert={"ev": [(4,)]}, delete={"ev": [(2,)]})
        second = db.apply(insert={"between": [(3, 4)]})
        assert first.added["between"].to_pylist() == [{"x": 1, "y": 4}]
        assert first.removed["between"].to_pylist() == [{"x": 1, "y": 3}]
        assert second.added["between"].to_pylist() == [{"x": 3, "y": 4}]
        assert sorted(db["next"]) == [(1, 3)]
        assert sorted(db["between"]) == [(1, 4), (3, 4)]
        assert db.verify()


def test_the_report_of_a_check_names_rules_of_the_program_only() -> None:
    text = explain.modules(parts(BETWEEN + NEXT))
    assert text.splitlines() == [
        "module seq ev: neighbors in `t` of `ev`, kept sorted",
        "  next(x, y) :- ev(x), ev(y), x < y, !between(x, y).",
        "on demand: between(x, y) :- ev(x), ev(z), ev(y), x < z, z < y.",
        "every other rule: generic",
    ]
