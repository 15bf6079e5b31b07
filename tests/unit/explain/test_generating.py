"""The numbers of a `range` in a question."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.analysis.model import Kind
from sempre.diagnostics import DataError
from sempre.explain.generating import how_many, numbers, numbers_of_codes
from sempre.kernel.values import float_codes, floats_of

ENDS: dict[Kind, tuple[Any, ...]] = {
    Kind.NUMBER: (-(2**63), -(2**63) + 3, -3, -1, 0, 1, 4, 2**63 - 4, 2**63 - 1),
    Kind.UNSIGNED: (0, 1, 3, 7, 2**63, 2**63 + 2, 2**64 - 3, 2**64 - 1),
    Kind.FLOAT: (-math.inf, -1.0, 0.0, 0.5, 2.0, 1e17, 1e17 + 64, math.inf, math.nan),
}


@pytest.mark.parametrize("kind", ENDS)
def test_columns_have_what_is_counted_one_by_one(kind: Kind) -> None:
    rng = random.Random(1)
    for arity in (2, 3):
        rows = {tuple(rng.choice(ENDS[kind]) for _ in range(arity)) for _ in range(80)}
        rows = {row for row in rows if how_many(kind, *row) < 50}
        assert len(rows) > 9
        columns = [_codes(kind, [row[at] for row in rows]) for at in range(arity)]
        made = numbers_of_codes(kind, columns)
        found = list(zip(*(_values(kind, column) for column in made), strict=True))
        expected = [(*row, number) for row in rows for number in numbers(kind, *row)]
        assert list(map(repr, found)) == list(map(repr, expected))


def _codes(kind: Kind, values: list[Any]) -> Any:
    if kind is Kind.FLOAT:
        return float_codes(np.array(values, np.float64))
    return np.array(values, np.uint64 if kind is Kind.UNSIGNED else np.int64).view(np.int64)


def _values(kind: Kind, column: Any) -> list[Any]:
    held = floats_of(column) if kind is Kind.FLOAT else column.view(np.uint64) if kind is Kind.UNSIGNED else column
    return list(held.tolist())


def test_a_range_that_is_too_long_is_refused_before_it_is_made() -> None:
    with sempre.Database(".decl e(x: number)\ne(3).\n.decl f(x: float)\nf(1e17).") as db:
        questions = {"X = range(0, 9223372036854775807)": 2**63 - 1}
        questions["e(Y), X = range(Y - 1, 9223372036854775807, 1), X < 5"] = 2**63 - 3
        for question, count in questions.items():
            with pytest.raises(DataError) as caught:
                db.query(question)
            assert str(caught.value) == (
                f"error[E510]: a `range` of {count:,} numbers is too long for a question\n"
                "hint: Ask for fewer: a range is made before the rest of the question is looked at."
            )
        with pytest.raises(DataError, match="too long"):
            db.query("X = range(0.0, 1e300)")
        assert db.query("X = range(9223372036854775800, 9223372036854775807)").num_rows == 7
        assert db.query("f(Y), X = range(Y, Y + 100, 1.0)").to_pydict()["X"] == [1e17]
        assert db.query("X = range(0, 300000)").num_rows == 300_000
