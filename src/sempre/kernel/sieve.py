"""Sieves: which keys have a chance in a lookup that comes later, by one column."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sempre.data import dataclass
from sempre.kernel.layout import Column, Field

# One byte for each value of a field: 1 if it is there.
Marks: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Sieve:
    """Lets the keys through whose bits from `shift` on, as many as the `mask` has, are marked."""

    shift: int
    mask: int
    marks: Marks


def marked(values: Column, wanted: Field) -> Marks:
    """Which values of a field are among some values."""
    marks = np.zeros(1 << wanted.bits, np.uint8)
    places = values - wanted.lo
    marks[places[(values >= wanted.lo) & (values <= wanted.hi)]] = 1
    return marks
