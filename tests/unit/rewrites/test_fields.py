"""Records with their fields beside them: where that would change what is seen, rules stay as they are."""

from __future__ import annotations

from typing import Literal

import pytest

import sempre

LENGTHS = """
.type List = [head: number, tail: List]
.decl list(x: List)
.decl length(x: List, n: number)
list([1, nil]). list([2, [1, nil]]). list([3, [2, [1, nil]]]).
length(nil, 0).
length(x, n + 1) :- list(x), x = [h, t], length(t, n).
"""


def test_active_rules_fire_in_the_cycle_after_what_they_read() -> None:
    with sempre.Database(LENGTHS, semantics="active") as db:
        db.materialise()
        found = [sorted(n for _, n in db.at_cycle(cycle)["length"]) for cycle in range(db.cycle + 1)]
        assert found == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]


@pytest.mark.parametrize("semantics", ["stratified", "active"])
def test_the_end_is_the_same(semantics: Literal["stratified", "active"]) -> None:
    with sempre.Database(LENGTHS, semantics=semantics) as db:
        db.materialise()
        assert sorted(n for _, n in db["length"]) == [0, 1, 2, 3]
