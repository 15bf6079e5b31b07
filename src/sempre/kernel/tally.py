"""Numbers beside rows: counters that change by small amounts.

A `Tally` maps rows to integers, zero where nothing is stored. Like a trace it is immutable and made of sorted runs:
a change is a run of differences, and runs are merged, differences added up and zeros dropped, as they grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.layout import Column, Keys, Packing, fields_covering, packing
from sempre.kernel.run import Run
from sempre.kernel.trace import MERGE_RATIO, SMALL_RUN, RowSet, Trace, within

# The greatest number that four bytes hold.
MOST_NARROW = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Counted:
    """Distinct rows, sorted, with a number each, never zero."""

    packing: Packing
    keys: Keys
    weights: join.Weights

    def __len__(self) -> int:
        return int(self.keys.size)

    def rows(self) -> RowSet:
        return RowSet(self.packing, self.keys)

    def negated(self) -> Counted:
        return Counted(self.packing, self.keys, -self.weights)

    def narrowed(self) -> Counted:
        """The same numbers in four bytes each, if they fit."""
        return Counted(self.packing, self.keys, narrow(self.weights))

    def repacked(self, target: Packing) -> Counted:
        return Counted(target, self.rows().repacked(target).keys, self.weights)


def narrow(weights: join.Weights) -> join.Weights:
    """Counters are small: four bytes hold nearly all of them."""
    if weights.size and (int(weights.max()) > MOST_NARROW or int(weights.min()) < -MOST_NARROW):
        return weights
    return weights.astype(np.int32)


class Tally:
    """An immutable map from rows to integers."""

    __slots__ = ("_runs", "packing")

    def __init__(self, packing: Packing, runs: tuple[tuple[Run, join.Weights], ...] = ()) -> None:
        self.packing = packing
        self._runs = runs

    @staticmethod
    def over(trace: Trace, parts: Sequence[Counted]) -> Tally:
        """A map with the sums of these numbers, all of rows of the trace: it shares the keys with it."""
        runs: list[tuple[Run, join.Weights]] = []
        keys = [part.repacked(trace.packing).keys for part in parts]
        for run in trace.orders[trace.own]:
            weights = np.zeros(run.size, np.int64)
            for part, own in zip(parts, keys, strict=True):
                run.add(own, part.weights, weights)
            runs.append((run, narrow(weights)))
        return Tally(trace.packing, tuple(runs))

    def adding(self, change: Counted) -> Tally:
        """The map with these differences added."""
        if not len(change):
            return self
        if change.packing is not self.packing:
            fields = fields_covering(change.rows().columns(), self.packing.fields)
            target = packing(fields, self.packing.order)
            return self.widened(target)._pushed(change.repacked(target))
        return self._pushed(change)

    def _pushed(self, change: Counted) -> Tally:
        keys, weights = change.keys, change.weights
        runs = self._runs
        # Numbers that need eight bytes are kept in one run: the sum over several might not fit eight bytes.
        whole = narrow(weights).itemsize == 8 or any(held.itemsize == 8 for _, held in runs)
        while runs and (
            whole or runs[-1][0].size <= MERGE_RATIO * keys.size or runs[-1][0].size + keys.size <= SMALL_RUN
        ):
            run, held = runs[-1]
            runs = runs[:-1]
            keys, weights = join.consolidate(np.concatenate((run.keys, keys)), np.concatenate((held, weights)))
        return Tally(self.packing, (*runs, (Run(keys), narrow(weights))) if keys.size else runs)

    def widened(self, target: Packing) -> Tally:
        """The same map under a packing with more room."""
        if target is self.packing:
            return self
        runs = tuple(
            (Run(target.pack(self.packing.columns(run.keys), run.size)), weights) for run, weights in self._runs
        )
        return Tally(target, runs)

    def get(self, rows: RowSet) -> join.Weights:
        """The number of each row."""
        keys = rows.keys
        found = np.zeros(keys.size, np.int64)
        at: join.Rows | None = None
        if rows.packing is not self.packing:
            columns = rows.columns()
            at = np.flatnonzero(within(columns, self.packing.fields)) if columns else np.arange(keys.size)
            keys = self.packing.pack([column[at] for column in columns], at.size)
        for run, weights in self._runs:
            here, there = run.place(keys)
            if here.size:
                found[there if at is None else at[there]] += weights[here]
        return found

    def of_columns(self, columns: Sequence[Column], size: int) -> join.Weights:
        """The number of each row, given by columns; the rows may repeat and come in any order."""
        found = np.zeros(size, np.int64)
        at = np.flatnonzero(within(columns, self.packing.fields)) if columns else np.arange(size)
        if at.size < size:
            columns = [column[at] for column in columns]
        keys = self.packing.pack(columns, at.size)
        for run, weights in self._runs:
            positions = run.find(keys)
            hit = np.flatnonzero(positions >= 0)
            if hit.size:
                found[at[hit]] += weights.take(positions[hit])
        return found

    def between(self, low: Keys, high: Keys) -> join.Weights:
        """The sum of the numbers of all rows within each pair of bounds."""
        total = np.zeros(low.size, np.int64)
        for run, weights in self._runs:
            starts, stops = run.ranges(low, high)
            hits = stops - starts
            found = int(hits.sum())
            if found:
                ends = hits.cumsum()
                at = np.arange(low.size).repeat(hits)
                positions = np.arange(found) + (starts - ends + hits).take(at)
                # Running sums as integers: floats would round what lies beyond 53 bits.
                running = np.concatenate(([0], weights.take(positions).cumsum(dtype=np.int64)))
                total += running[ends] - running[ends - hits]
        return total

    @property
    def size(self) -> int:
        """How many numbers are kept; a row counts once for every run that has it."""
        return sum(run.size for run, _ in self._runs)

    def entries(self) -> Counted:
        """All rows whose number is not zero."""
        if not self._runs:
            return Counted(self.packing, np.empty(0, self.packing.dtype), np.empty(0, np.int64))
        keys = np.concatenate([run.keys for run, _ in self._runs])
        weights = np.concatenate([weights.astype(np.int64) for _, weights in self._runs])
        return Counted(self.packing, *join.consolidate(keys, weights))

    def runs(self) -> list[tuple[Keys, join.Weights]]:
        """The differences that make up the map, as they are stored: rows may occur in several."""
        return [(run.keys, weights) for run, weights in self._runs]

    def addresses(self) -> list[tuple[int, int, int, int]]:
        """Where the runs lie: address of the keys, of the numbers, how many, and how wide a number is."""
        return [(run.keys.ctypes.data, weights.ctypes.data, run.size, weights.itemsize) for run, weights in self._runs]

    def places(self) -> list[tuple[int, int, int, int, int, int]]:
        """Where the runs lie, as `Run.address` has it, and where the numbers and how wide they are."""
        return [(*run.address(), weights.ctypes.data, weights.itemsize) for run, weights in self._runs]

    @property
    def nbytes(self) -> int:
        return sum(int(run.keys.nbytes) + int(weights.nbytes) for run, weights in self._runs)
