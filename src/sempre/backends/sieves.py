"""Rows that a lookup finds and a later one drops, left out where they are found.

In `points_to(v, p) :- load(v, w), points_to(w, o), heap(o, p)` a deletion of `heap` looks `points_to` up by `o`, and
of what that finds `load` drops all rows whose `w` is loaded from nowhere: nine of ten. The values of `load`'s column
are marked, one byte each, and a row whose `w` is not marked is never put together. A row that is dropped would have
found nothing later on, and nothing in between depends on it, so what a plan finds is the same.

A run from scratch narrows such relations once and for all (`maintain/narrowing.py`). An update is too short for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sempre.analysis.model import Const, Var
from sempre.backends.bindings import Views, encode, view_of
from sempre.data import dataclass
from sempre.kernel.layout import Field, Packing
from sempre.kernel.sieve import Marks, Sieve
from sempre.kernel.values import Values
from sempre.plan.ops import LowerRank, Order, Probe, RankOf, Read, Step

# A lookup that finds fewer rows is not sieved; nor one after which a relation of so many times the rows is looked up,
# or where the column may have so many times as many values: each is marked, for every run of the relation.
SIEVED_ROWS = 1 << 12
LATER_ROWS = 4
MARKED_VALUES = 32
# Where more than this share of the rows has a chance it is not worth it; that is found out again after so many times.
USEFUL_SHARE = 0.7
SIEVE_AGAIN = 32


@dataclass(frozen=True, slots=True)
class Later:
    """A later lookup, by constants first and then by the value of a column that is found here."""

    key: tuple[str, Read]
    order: Order
    constants: tuple[int, ...]
    column: int


class Sieving:
    """What a lookup may leave out of what it finds."""

    def __init__(self, step: Probe, following: Sequence[Step], values: Values) -> None:
        self._later = list(_later(step, following, values))
        self._left_out = 0

    def sieve(self, views: Views, layout: Packing, total: int) -> Sieve | None:
        """For so many rows of a layout, the sieve by the smallest relation looked up later; None if it does not pay."""
        if not self._later or total < SIEVED_ROWS or not layout.narrow:
            return None
        if self._left_out:
            self._left_out -= 1
            return None
        size, _, later = min((len(view_of(views, each.key)), at, each) for at, each in enumerate(self._later))
        field = layout.fields[later.column]
        if size > LATER_ROWS * total or not 0 < (1 << field.bits) <= MARKED_VALUES * total:
            return None
        return Sieve(layout.place(later.column)[0], (1 << field.bits) - 1, _marks(views, later, field))

    def saw(self, total: int, kept: int) -> None:
        """So many of so many rows were let through."""
        if kept > USEFUL_SHARE * total:
            self._left_out = SIEVE_AGAIN


def _marks(views: Views, later: Later, field: Field) -> Marks:
    """Which values the later lookup may find something for: what is excluded there is marked too."""
    marks: Marks | None = None
    for trace, _ in view_of(views, later.key).parts:
        layout = trace.packing.reordered(later.order)
        for run in trace.orders[later.order]:
            more = run.marks(layout, later.constants, field)
            marks = more if marks is None else marks | more
    return np.zeros(1 << field.bits, np.uint8) if marks is None else marks


def _later(step: Probe, following: Sequence[Step], values: Values) -> Iterator[Later]:
    """The lookups that follow for certain, whatever is found, by what this step binds."""
    bound = {var.name: column for column, var in step.binds}
    for later in following:
        if isinstance(later, Probe):
            constants: list[int] = []
            for arg in later.lookup:
                if isinstance(arg, Const):
                    constants.append(encode(values, arg))
                    continue
                if isinstance(arg, Var) and arg.name in bound:
                    yield Later((later.relation, later.read), later.order, tuple(constants), bound[arg.name])
                break
        elif not isinstance(later, RankOf | LowerRank):
            return  # it may fail, and then it must
