"""`modules=`: kinds, kinds for some rules, modules of the user's own, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.modules.find import modularize

PROGRAM = """
.decl e(x: number, y: number)
.decl r(x: number, y: number)
.decl s(x: number, y: number)
.decl n(x: number, y: number)
.decl next(x: number, y: number)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), r(y, z).
s(x, y) :- e(x, y).
s(x, z) :- s(x, y), e(y, z).
s(x, z) :- e(x, y), s(y, z).
n(x, y) :- e(x, y), !r(y, x).
next(x, y) :- e(x, _), e(y, _), x < y, !(e(z, _), x < z, z < y).
"""


def found(modules: Any) -> list[str]:
    parts = modularize(sempre.Program(PROGRAM).checked, modules)
    texts = {rule.number: rule.text for rule in parts.program.rules}
    return [
        f"{module} {len(module.rules)}" if module.order is None else "seq"
        for several in parts.modules.values()
        for module in several
        if all(number in texts for number in module.rules)
    ]


def refused(modules: Any, **options: Any) -> str:
    with pytest.raises(sempre.StateError) as error:
        sempre.Database(PROGRAM, modules=modules, **options)
    return str(error.value)


class Naive:
    """Closes `r` by following pairs; takes what it is told to take."""

    def __init__(self, *rules: str, name: str = "naive") -> None:
        self.name = name
        self.rules: Sequence[str] = rules

    def start(self) -> NaiveState:
        return NaiveState()


class NaiveState:
    """All pairs, from scratch each time."""

    head = "r"

    def __init__(self) -> None:
        self.given: dict[str, set[tuple[int, int]]] = {}

    def closed(self, given: dict[str, set[tuple[int, int]]]) -> set[tuple[int, int]]:
        pairs = set().union(*given.values())
        while True:
            more = {(x, z) for x, y in pairs for v, z in pairs if y == v} - pairs
            if not more:
                return pairs
            pairs |= more

    def add(self, facts: sempre.ModuleFacts) -> sempre.ModuleFacts:
        for name, columns in facts.items():
            self.given.setdefault(name, set()).update(pairs_of(columns))
        return {self.head: columns_of(self.closed(self.given))}

    def remove(
        self, facts: sempre.ModuleFacts, derived: sempre.ModuleFacts, trusted: sempre.Trusted | None
    ) -> sempre.ModuleFacts:
        before = self.closed(self.given)
        for name, columns in facts.items():
            self.given[name] -= pairs_of(columns)
        left = self.given
        if trusted is not None:
            left = {name: pairs_of(trusted(name, columns_of(rows))) for name, rows in left.items()}
        return {self.head: columns_of(before - self.closed(left))}

    def holds(self, head: str, facts: Any) -> Any:
        closed = self.closed(self.given)
        return np.array([pair in closed for pair in zip(*(c.tolist() for c in facts), strict=True)], np.bool_)


def pairs_of(columns: Any) -> set[tuple[int, int]]:
    return set(zip(*(column.tolist() for column in columns), strict=True))


def columns_of(pairs: set[tuple[int, int]]) -> Any:
    return tuple(np.array([*pairs], np.int64).reshape(-1, 2).T)


def test_kinds_for_some_relations_and_rules() -> None:
    assert found("auto") == ["seq", "tc(r) 1", "linear(s) 2"]
    assert found("tc:r") == ["tc(r) 1"]
    assert found("tc:r, linear:s") == ["tc(r) 1", "linear(s) 2"]
    assert found(["linear: s(x,z) :- s(x,y), e(y,z)"]) == ["linear(s) 1"]
    assert found("linear: s(x, z) :- s(x, y), e(y, z).") == ["linear(s) 1"]
    assert found(["seq:next", "tc"]) == ["seq", "tc(r) 1"]
    assert found(["tc:r", "tc"]) == ["tc(r) 1"]


def test_own_modules_beside_kinds() -> None:
    assert found(["auto", Naive("r")]) == ["seq", "naive(r) 2", "linear(s) 2"]
    assert found([Naive("r(x,z) :- r(x,y), r(y,z).")]) == ["naive(r) 1"]
    assert found(Naive("r")) == ["naive(r) 2"]


def test_a_rule_that_is_not_there() -> None:
    message = refused("tc:pth")
    assert "error[E615]: `modules` (tc) names rules of `pth`, and the program has none such" in message
    assert "The relations with rules are: n, next, r, s." in message
    message = refused([Naive("r(x, z) :- r(x, y), e(y, z).")])
    assert "error[E615]: module `naive` names the rule `r(x, z) :- r(x, y), e(y, z).`" in message
    assert "error[E615]: module `naive` names no rules" in refused(Naive())


def test_two_modules_for_one_rule() -> None:
    message = refused([Naive("r"), Naive("r", name="other")])
    assert "error[E616]: modules `naive` and `other` both take `r(x, y) :- e(x, y).`" in message
    rules = ("r(x, y) :- e(x, y).", "r(x, z) :- r(x, y), r(y, z).")
    message = refused([Naive(rules[0]), Naive(rules[1], name="other")])
    assert "error[E616]: modules `naive` and `other` both derive into `r`" in message


def test_rules_that_no_module_can_take() -> None:
    assert "error[E617]: module `naive` cannot take `n(x, y) :- e(x, y), !r(y, x).`, which has negation" in refused(
        Naive("n")
    )
    assert "error[E617]: module `naive` takes rules of several strata: r, s" in refused(Naive("r", "s"))
    assert "error[E617]: no module of kind `stc` takes `r`" in refused("stc:r")


def test_where_own_modules_cannot_work() -> None:
    assert "strategy `counting` has no modules, and module `naive` was given" in refused(
        Naive("r"), strategy="counting"
    )
    assert "a module of its own is named `tc`" in refused(Naive("r", name="tc"))
    assert "unknown kind of module `naive`" in refused(["naive"])


@pytest.mark.parametrize("rules", [("r",), ("r(x, z) :- r(x, y), r(y, z).",)])
def test_an_own_module_does_what_the_rules_do(rules: tuple[str, ...]) -> None:
    with sempre.Database(PROGRAM, modules=["auto", Naive(*rules)], strategy="dredc", check_modules=True) as db:
        db.apply(insert={"e": [(1, 2), (2, 3)], "r": [(3, 4)]})
        assert sorted(db["r"]) == [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]
        changes = db.apply(insert={"e": [(1, 3)]}, delete={"e": [(2, 3)]})
        assert sorted(db["r"]) == [(1, 2), (1, 3), (1, 4), (3, 4)]
        assert changes.removed["r"].num_rows == 2
        assert db.verify().ok


class Forgets(NaiveState):
    """Does not find what rests on what is gone."""

    def remove(self, facts: Any, derived: Any, trusted: Any) -> Any:
        for name, columns in facts.items():
            self.given[name] -= pairs_of(columns)
        return {}


class Invents(NaiveState):
    """Adds a fact that does not hold."""

    def add(self, facts: Any) -> Any:
        super().add(facts)
        return {"r": columns_of(self.closed(self.given) | {(7, 7)})}


class Lazy(NaiveState):
    """Adds nothing but what it is told."""

    def closed(self, given: Any) -> Any:
        return set().union(*given.values())


class Foreign(NaiveState):
    """Answers for a relation that is not its own."""

    head = "s"


class Lists(NaiveState):
    """Answers with one column of another type."""

    def add(self, facts: Any) -> Any:
        return {"r": [np.array([1.5])]}


class Short(NaiveState):
    """Answers for fewer facts than it is asked about."""

    def holds(self, head: str, facts: Any) -> Any:
        return np.ones(0, np.bool_)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (Forgets, "broke its bounds: 1 fact that `r(x, y) :- e(x, y).` derives: not overdeleted"),
        (Invents, "broke its bounds: 1 fact of `r`: added, and not true"),
        (Lazy, "broke its bounds: 1 fact that `r(x, z) :- r(x, y), r(y, z).` derives: not added"),
        (Foreign, "broke its contract: it answered with facts of `s`, which its rules do not derive"),
        (Lists, "broke its contract: for `r` it answered with columns float64(1,), not 2 of 64-bit integers"),
        (Short, "broke its contract: `holds` for 2 facts of `r` gave an array of bool(0,)"),
    ],
)
def test_a_module_that_breaks_its_bounds(state: type[NaiveState], message: str) -> None:
    module = Naive("r")
    module.start = state  # type: ignore[method-assign]
    with sempre.Database(PROGRAM, modules=module, strategy="dredc", check_modules=True) as db:

        def change() -> None:
            db.apply(insert={"e": [(1, 2), (2, 3)]})
            db.apply(delete={"e": [(2, 3)]})

        with pytest.raises(sempre.StateError) as error:
            change()
        assert "E618" in str(error.value)
        assert message in str(error.value)
