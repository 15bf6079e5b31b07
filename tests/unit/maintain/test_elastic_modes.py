"""The modes of `elastic`: its switch is a setting, Update alone and Bootstrap alone are modes, and facts are split."""

from __future__ import annotations

from typing import Any

import pytest

import sempre
from sempre.limits import DEFAULTS
from sempre.maintain.iterations import Levels
from sempre.plan.indexes import Orders
from sempre.plan.ops import SPLIT, Absent, Distinct, Probe, Read
from sempre.plan.planner import plan_rule
from tests.inside import engine_of

REACH = """
.decl e(x: number, y: number)
.decl r(x: number, y: number)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), e(y, z).
"""
EDGES = [(n, n + 1) for n in range(12)]


def why(switch: float | str | None) -> str:
    """What the report says of a deletion; the state must be right whatever was done."""
    with sempre.Database(REACH, strategy="elastic", switch=switch) as db:
        db.materialise({"e": EDGES})
        report = db.apply(delete={"e": [(5, 6)]}).report
        assert db.verify().ok
        assert isinstance(engine_of(db).snapshot.memories[1], Levels)
        (stratum,) = (stratum for stratum in report.strata if "r" in stratum["relations"])
        assert ("bootstrap" in report.why) == ("Bootstrap, since" in stratum["why"])
        return str(stratum["why"])


@pytest.mark.parametrize(
    ("switch", "says"),
    [
        (0, "Bootstrap, since the switch is at 0"),
        (1e-9, "more than 1e-09 of the last Bootstrap"),
        ("never", "the switch is at inf of the last Bootstrap"),
        (1e9, "Update took"),
    ],
)
def test_the_switch_decides_between_update_and_bootstrap(switch: float | str, says: str) -> None:
    assert says in why(switch)


@pytest.mark.parametrize("switch", [-0.1, "often", float("nan"), True, [1]])
def test_a_switch_that_means_nothing_is_refused(switch: Any) -> None:
    with pytest.raises(sempre.SempreError, match="`switch` is"):
        sempre.Database(REACH, strategy="elastic", switch=switch)


def test_a_switch_without_elastic_is_refused() -> None:
    with pytest.raises(sempre.SempreError, match="`switch` is for strategy `elastic`, and this is `auto`"):
        sempre.Database(REACH, switch=0.5)


class Large:
    """Every relation is large, and every value occurs ten times."""

    limits = DEFAULTS

    def size(self, relation: str) -> int:
        return 1_000

    def distinct(self, relation: str, column: int) -> int:
        return 100

    def crowd(self, relation: str, column: int) -> int:
        return 10

    def matching(self, relation: str, columns: tuple[int, ...]) -> None:
        return None


def test_facts_that_are_found_again_are_split_by_variable() -> None:
    """`h(x, y, z) :- a(x, w), b(y, w), c(z, w)`: begins with the values of one, and filters by the others."""
    text = """
    .decl a(x: number, w: number) .decl b(x: number, w: number) .decl c(x: number, w: number)
    .decl h(x: number, y: number, z: number)
    h(x, y, z) :- a(x, w), b(y, w), c(z, w).
    """
    checked = sempre.Program(text).checked
    orders = Orders()
    for name, relation in checked.relations.items():
        orders.declare(name, relation.arity)
    steps = plan_rule(checked.rules[0], SPLIT, Large(), orders).steps
    first = steps[0]
    assert isinstance(first, Probe)
    assert (first.relation, first.read, [var.name for _, var in first.binds]) == ("h", Read.ONLY, ["x"])
    assert isinstance(steps[1], Distinct)
    assert [type(step) for step in steps[2:]] == [Probe, Probe, Absent, Probe, Absent, Absent]
    assert [step.relation for step in steps[2:] if isinstance(step, Probe)] == ["a", "b", "c"]


def test_facts_with_one_value_in_common_look_it_up_once() -> None:
    """Many facts of one source are lost and found again by another path."""
    with sempre.Database(REACH, strategy="elastic", switch="never") as db:
        db.materialise({"e": [(0, 1), (0, 2), (2, 1), *((1, n) for n in range(10, 60))]})
        assert db.apply(delete={"e": [(0, 1)]}).report.removed == {"e": 1}
        assert db.verify().ok
