"""Choices that a random number generator or Hypothesis can make, and the values they range over.

Every choice is a number below a bound. Smaller numbers mean simpler programs, so that a failing case shrinks well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sempre.lang import syntax as s
from tests.oracle.values import Value

T = TypeVar("T")

SYMBOLS = ("a", "b", "c", "d", "ab", "", "é", 'q"', "x y", "ü→\t")
RECORD = "Pair"
NUMERIC = ("number", "unsigned", "float")


@dataclass(frozen=True)
class Dice:
    """`below(n)` gives a number from 0 to n - 1."""

    below: Callable[[int], int]

    def choose(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, percent: int) -> bool:
        return self.below(100) >= 100 - percent

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def some(self, options: Sequence[T], most: int) -> list[T]:
        """Up to `most` of the options, each once."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(min(self.below(most + 1), len(left)))]

    def value(self, kind: str, size: int) -> Value:
        """A value out of a domain of about `size` values."""
        if kind == RECORD:
            return None if self.chance(10) else (self.below(size), self.below(size))
        if kind == "symbol":
            return SYMBOLS[self.below(10) if self.chance(6) else self.below(min(size, 4))]
        return self.below(size) / 2 if kind == "float" else self.below(size)


def literal(value: Value, kind: str) -> s.Term:
    """The literal for a value."""
    if value is None:
        return s.Nil()
    if isinstance(value, tuple):
        return s.Record(tuple(literal(part, "number") for part in value))
    if isinstance(value, str):
        return s.String(value)
    # Half of the whole numbers have neither point nor suffix: their place says what they are.
    if isinstance(value, float):
        return s.Number(int(value)) if value.is_integer() and value % 2 == 0 else s.Float(value)
    return s.Unsigned(value) if kind == "unsigned" and value % 2 else s.Number(value)
