"""What `range` becomes, and where it cannot be."""

from __future__ import annotations

import pytest

import sempre
from sempre.network.assembly import make_network


def rows(text: str) -> list[tuple[object, ...]]:
    with sempre.Database(text) as db:
        db.apply()
        return sorted(db["p"])


@pytest.mark.parametrize(
    ("use", "numbers"),
    [
        ("range(1, 4)", [1, 2, 3]),
        ("range(4, 1)", [2, 3, 4]),
        ("range(3, 3)", []),
        ("range(0, 7, 3)", [0, 3, 6]),
        ("range(7, 0, -3)", [1, 4, 7]),
        ("range(0, 7, -1)", []),
        ("range(5, 6, 0)", [5]),
        ("range(5, 5, 0)", []),
        ("range(0, 2) * 10 + range(0, 2)", [0, 1, 10, 11]),
    ],
)
def test_numbers_of_a_range(use: str, numbers: list[int]) -> None:
    assert rows(f".decl p(x: number) p({use}).") == [(number,) for number in numbers]


def test_a_range_that_is_negated_is_a_test() -> None:
    text = ".decl e(x: number) e(1). e(5). .decl p(x: number) p(x) :- e(x), !(x = range(0, 3))."
    assert rows(text) == [(5,)]


def test_floats_are_added_up() -> None:
    text = ".decl p(x: float) p(range(0.0, 1.0, 0.3))."
    assert rows(text) == [(0.0,), (0.3,), (0.6,), (0.3 + 0.3 + 0.3,)]


def test_bounds_that_an_aggregate_has_of_its_own_recursion_are_refused() -> None:
    text = ".decl e(x: number) e(1). .decl p(x: number) p(x) :- e(x). p(n) :- p(x), n = count : { y = range(0, x) }."
    with pytest.raises(sempre.ProgramError, match="E160"):
        sempre.Database(text)


def test_nodes_of_a_network_have_no_range() -> None:
    program = sempre.Program(".decl p(@n: number, x: number) p(@n, x) :- p(@n, _), x = range(0, 3).")
    with pytest.raises(sempre.ProgramError, match="E161"):
        make_network(program.checked)
