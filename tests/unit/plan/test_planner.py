from __future__ import annotations

import pytest

import sempre
from sempre.analysis.model import Const, NormalRule
from sempre.limits import DEFAULTS
from sempre.plan.domains import domains
from sempre.plan.indexes import Orders
from sempre.plan.ops import (
    Absent,
    Assign,
    Either,
    Filter,
    Pivot,
    Plan,
    Probe,
    Read,
    Reduce,
    TakeApart,
    decided_plan,
    probes,
)
from sempre.plan.planner import plan_rule, stated_order

DECLARATIONS = """
.type Pair = [a: number, b: number]
.decl e(x: number, y: number)
.decl big(x: number, y: number)
.decl small(x: number, y: number)
.decl three(x: number, y: number, z: number)
.decl boxed(p: Pair)
.decl r(x: number, y: number)
"""


class Sizes:
    """What the planner is told of the data."""

    limits = DEFAULTS
    sizes = {"big": 1_000_000, "small": 10, "three": 5_000}  # noqa: RUF012
    crowds = {"hub": 1_000.0}  # noqa: RUF012

    def size(self, relation: str) -> int:
        return self.sizes.get(relation, 1_000)

    def distinct(self, relation: str, column: int) -> int:
        return max(1, self.size(relation) // 10)

    def crowd(self, relation: str, column: int) -> float:
        return self.crowds.get(relation, 0.0)

    def matching(self, relation: str, columns: tuple[int, ...]) -> None:
        return None


def rule_of(text: str) -> NormalRule:
    return sempre.Program(DECLARATIONS + text).checked.rules[0]


def plan(text: str, pivot: int | None = None) -> tuple[Plan, Orders]:
    orders = Orders()
    for name, relation in sempre.Program(DECLARATIONS + text).relations.items():
        orders.declare(name, relation.arity)
    rule, start = rule_of(text), None if pivot is None else Pivot(pivot)
    return plan_rule(rule, start, Sizes(), orders, stated=stated_order(rule, start, frozenset())), orders


def read_order(made: Plan) -> list[str]:
    return [step.relation for step in made.steps if isinstance(step, Probe)]


def test_the_smaller_relation_comes_first() -> None:
    made, _ = plan("r(x, z) :- big(x, y), small(y, z).")
    assert read_order(made) == ["small", "big"]


def test_the_pivot_comes_first_and_is_the_only_one_to_read_the_change() -> None:
    made, _ = plan("r(x, z) :- small(x, y), big(y, w), e(w, z).", pivot=1)
    steps = {step.relation: step for step in probes(made.steps)}
    assert read_order(made)[0] == "big"
    assert {name: step.read for name, step in steps.items()} == {
        "small": Read.BOTH, "big": Read.ONLY, "e": Read.HERE,
    }  # fmt: skip


def test_an_atom_whose_columns_are_all_bound_filters_early() -> None:
    made, _ = plan("r(x, z) :- small(x, y), big(y, z), e(x, y).", pivot=0)
    assert read_order(made) == ["small", "e", "big"]


def test_cross_products_come_last() -> None:
    made, _ = plan("r(x, z) :- small(x, _), e(z, w), big(w, x).", pivot=1)
    assert read_order(made) == ["e", "big", "small"]


def test_constants_are_looked_up() -> None:
    made, orders = plan("r(x, x) :- three(5, x, 7).")
    (step,) = probes(made.steps)
    assert frozenset(step.prefix) == {0, 2}
    assert step.order in orders.all("three")
    constants = [arg.value for arg in step.lookup if isinstance(arg, Const)]
    assert dict(zip(step.prefix, constants, strict=True)) == {0: 5, 2: 7}


def test_a_variable_that_occurs_twice_is_checked_in_place() -> None:
    made, _ = plan("r(x, y) :- three(x, y, x).")
    (step,) = probes(made.steps)
    assert step.same == ((0, 2),)


def test_variables_that_nobody_reads_again_are_dropped() -> None:
    made, _ = plan("r(x, z) :- small(x, y), big(y, z).", pivot=0)
    first, second = made.steps
    assert {"x", "y"} <= first.live
    assert second.live == {"x", "z"}
    assert isinstance(second, Probe)
    assert [var.name for _, var in second.binds] == ["z"]


def test_filters_come_as_soon_as_they_can() -> None:
    made, _ = plan("r(x, z) :- small(x, y), big(y, z), x < y.", pivot=0)
    assert [type(step) for step in made.steps] == [Probe, Filter, Probe]


def test_what_can_fail_waits() -> None:
    made, _ = plan("r(x, v) :- small(x, y), e(x, z), v = z / y.", pivot=0)
    assert [type(step) for step in made.steps] == [Probe, Probe, Assign]


def test_a_computed_value_is_looked_up_rather_than_crossed() -> None:
    made, _ = plan("r(x, z) :- small(x, y), w = x + y, big(w, z).", pivot=0)
    assert [type(step) for step in made.steps] == [Probe, Assign, Probe]
    last = made.steps[-1]
    assert isinstance(last, Probe)
    assert last.prefix == (0,)


def test_nested_bodies_have_plans_of_their_own() -> None:
    made, _ = plan("r(x, n) :- small(x, _), !e(x, x), n = count : { big(x, y), small(y, _) }.")
    kinds = [type(step) for step in made.steps]
    assert sorted(kind.__name__ for kind in kinds) == ["Absent", "Probe", "Reduce"]
    nested = next(step for step in made.steps if isinstance(step, Reduce))
    assert {step.relation for step in probes(nested.steps)} == {"big", "small"}
    absent = next(step for step in made.steps if isinstance(step, Absent))
    assert [step.relation for step in probes(absent.steps)] == ["e"]


def test_records_are_taken_apart_once_bound() -> None:
    made, _ = plan("r(x, y) :- boxed(p), p = [x, y].")
    assert [type(step) for step in made.steps] == [Probe, TakeApart]


@pytest.mark.parametrize(
    ("wanted", "orders"),
    [
        ([{0}], 1),  # the relation's own order serves it
        ([{1}], 2),
        ([{1}, {1, 2}], 2),  # one order for sets that contain each other
        ([{1}, {2}], 3),
        ([{1}, {2}, {1, 2}, {0, 1}], 3),
    ],
)
def test_few_orders_serve_many_lookups(wanted: list[set[int]], orders: int) -> None:
    chosen = Orders()
    chosen.declare("p", 3)
    chosen.cover("p", map(frozenset, wanted))
    assert len(chosen.all("p")) == orders
    for columns in wanted:
        assert set(chosen.serving("p", frozenset(columns))[: len(columns)]) == columns
    assert len(chosen.all("p")) == orders


def test_an_order_is_added_when_a_lookup_needs_it() -> None:
    chosen = Orders()
    chosen.declare("p", 2)
    assert chosen.serving("p", frozenset((1,))) == (1, 0)
    assert chosen.all("p") == ((0, 1), (1, 0))


def test_columns_that_a_variable_connects_share_a_domain() -> None:
    found = domains(sempre.Program(DECLARATIONS + "r(x, z) :- e(x, y), big(y, z). r(x, x) :- small(x, _).").checked)
    assert found["r", 0] == found["e", 0] == found["small", 0]
    assert found["e", 1] == found["big", 0]
    assert found["three", 0] != found["three", 1]
    assert found["small", 1] != found["e", 0]


def test_equalities_and_nested_bodies_connect_columns_too() -> None:
    text = "r(x, y) :- e(x, _), y = x, !big(_, x), 1 = count : { three(x, _, _) }."
    found = domains(sempre.Program(DECLARATIONS + text).checked)
    assert len({found[place] for place in (("r", 0), ("r", 1), ("e", 0), ("big", 1), ("three", 0))}) == 1


def test_atoms_that_bind_the_same_are_looked_up_where_least_is_found() -> None:
    made, _ = plan(".decl hub(x: number, y: number)\nr(x, y) :- hub(x, y), hub(y, z), hub(z, x).")
    first, choice = made.steps
    assert isinstance(first, Probe)
    assert isinstance(choice, Either)
    assert [[len(step.lookup) for step in option if isinstance(step, Probe)] for option in choice.options] == [
        [1, 2],
        [1, 2],
    ]
    assert [type(step) for step in decided_plan(made).steps] == [Probe, Probe, Probe]


def test_nobody_asks_where_little_is_found() -> None:
    made, _ = plan("r(x, y) :- e(x, y), e(y, z), e(z, x).")
    assert [type(step) for step in made.steps] == [Probe, Probe, Probe]


def test_a_stated_order_is_the_order() -> None:
    text = "r(x, z) :- big(x, y), small(y, z).\n"
    assert read_order(plan(text)[0]) == ["small", "big"]
    assert read_order(plan(text + ".plan 0:(1, 2)")[0]) == ["big", "small"]


def test_a_stated_order_is_that_of_one_version() -> None:
    text = "r(x, w) :- r(x, y), big(y, z), small(x, w), r(z, w).\n.plan 0:(4, 2, 3, 1), 1:(3, 4, 2, 1)"
    rule, orders = rule_of(text), Orders()
    for name, relation in sempre.Program(DECLARATIONS + text).relations.items():
        orders.declare(name, relation.arity)

    def order(pivot: Pivot) -> list[str]:
        own = frozenset(("r",))
        return read_order(plan_rule(rule, pivot, Sizes(), orders, own, stated=stated_order(rule, pivot, own)))

    assert order(Pivot(0)) == ["r", "r", "big", "small"]  # new facts are read first, whatever is stated
    assert order(Pivot(3)) == ["r", "small", "big", "r"]
    assert order(Pivot(2))[0] == "small"  # no version of the rule: as sizes say
    assert stated_order(rule, Pivot(2), frozenset(("r",))) == ()
    assert stated_order(rule, Pivot(0, ranked=True), frozenset(("r",))) == ()
