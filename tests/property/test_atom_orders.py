"""In which order a body has its atoms is of no importance: the same facts come out, for about the same work.

Work is counted, not timed: rows that plans start from, look up and find. `benchmarks/orders.py` has the programs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sempre.plan import conjuncts, planner

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import orders

MOST = 2.0
FEW, MANY = 3, 50


@pytest.mark.parametrize("name", orders.SUBJECTS)
def test_any_order_takes_about_the_same_work(name: str) -> None:
    least, *_, most = orders.spread(name, FEW)
    assert most <= MOST * least


@pytest.mark.slow
@pytest.mark.parametrize("name", orders.SUBJECTS)
def test_many_orders_take_about_the_same_work(name: str) -> None:
    least, *_, most = orders.spread(name, MANY)
    assert most <= MOST * least


# Few names, so that a name alone says little of what is called.
DISPATCH = """
.decl virtual(i: number, base: number, name: number)
.decl type(h: number, t: number)
.decl lookup(name: number, t: number, m: number)
.decl this(m: number, v: number)
.decl points(h: number, v: number)
.decl calls(i: number, m: number)
calls(i, m) :- virtual(i, base, name), points(h, base), type(h, t), lookup(name, t, m).
points(m, v) :- calls(_, m), this(m, v).
"""


def _dispatch() -> orders.Facts:
    calls = range(400)
    return {
        "virtual": [(i, i % 300, i % 3) for i in calls],
        "type": [(h, h % 100) for h in range(200)],
        "lookup": [(name, t, 3 * t + name) for name in range(3) for t in range(100)],
        "this": [(m, (m * 7) % 300) for m in range(300)],
        "points": [(v % 200, v) for v in range(300)],
    }


def test_names_that_say_little_are_not_looked_up_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(orders.SUBJECTS, "dispatch", (lambda: DISPATCH, _dispatch))
    least, *_, most = orders.spread("dispatch", 10)
    assert most <= MOST * least

    # A planted defect: of the atoms that can be looked up, the first in the text is next, and rows have no choice.
    def in_order(body: Any, atoms: list[int], known: frozenset[str], statistics: Any) -> int | None:
        served = (index for index in atoms if conjuncts.can_be_looked_up(body[index], known))
        return next(served, min(atoms, default=None))

    monkeypatch.setattr(planner, "preferred", in_order)
    monkeypatch.setattr(planner, "_rival", lambda *_: None)
    assert orders.spread("dispatch", 10)[-1] > MOST * least
