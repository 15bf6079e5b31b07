"""Numbers beside rows: counters that change by small amounts.

A `Tally` maps rows to integers, zero where nothing is stored. Like a trace it is immutable and made of sorted runs:
a change is a run of differences, and runs are merged, differences added up and zeros dropped, as they grow.

What a run from scratch has found round by round is not merged until it has been asked for a lot: few facts are looked
up in many parts sooner than the numbers of all facts are put together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.layout import Column, Keys, Packing, fields_covering, packing
from sempre.kernel.run import Run
from sempre.kernel.trace import MERGE_RATIO, SMALL_RUN, RowSet, Trace, within

# The greatest number that four bytes hold.
MOST_NARROW = (1 << 31) - 1
# Parts are put together once this many keys for each of theirs were looked up in them. Lookups by address are not
# counted one by one: each time they begin counts for so many.
LOOKUPS_PER_KEY = 1 / 64
PROBES_BY_ADDRESS = 1 << 12


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
    """Counters are small: four bytes hold nearly all of them. They lie one after the other, as `Run` has its keys."""
    if weights.size and (int(weights.max()) > MOST_NARROW or int(weights.min()) < -MOST_NARROW):
        return np.ascontiguousarray(weights)
    return weights.astype(np.int32)


Runs = tuple[tuple[Run, join.Weights], ...]

# The processor seconds that it took so far to put parts together: those of one thread, mostly.
_merging = 0.0


def merging_seconds() -> float:
    """How long this process has put parts together, which is for all epochs to come."""
    return _merging


class RoundParts:
    """Numbers of the rows of a trace in several parts, which become one map once they have been asked for a lot.

    That map shares its keys with the trace. Whether the parts are put together changes no number.
    """

    __slots__ = ("_probed", "_waiting", "runs", "size")

    def __init__(self, trace: Trace, parts: Sequence[Counted]) -> None:
        held = [part.repacked(trace.packing) for part in parts]
        # One value, so that a second thread finds both or none.
        self._waiting: tuple[Trace, list[Counted]] | None = (trace, held)
        self._probed = 0
        self.size = sum(map(len, held))
        self.runs: Runs = tuple((Run(part.keys), narrow(part.weights)) for part in held)
        if any(weights.itemsize == 8 for _, weights in self.runs):
            self.merged()  # the sum of several might not fit eight bytes

    def probed(self, probes: int) -> None:
        """Take note of lookups to come."""
        self._probed += probes
        if self._waiting is not None and self._probed > LOOKUPS_PER_KEY * self.size:
            self.merged()

    def merged(self) -> Runs:
        """The runs of one map."""
        global _merging
        waiting = self._waiting
        if waiting is not None:
            started, (trace, held) = time.thread_time(), waiting
            runs: list[tuple[Run, join.Weights]] = []
            for run in trace.orders[trace.own]:
                weights = np.zeros(run.size, np.int64)
                for part in held:
                    run.lodge(part.keys, part.weights, weights)
                runs.append((run, narrow(weights)))
            self.runs = tuple(runs)
            self._waiting = None
            _merging += time.thread_time() - started
        return self.runs


class Tally:
    """An immutable map from rows to integers: what its parts have, if there are any, and its own runs on top."""

    __slots__ = ("_held", "_own", "_parts", "packing")

    def __init__(self, packing: Packing, runs: Runs = (), parts: RoundParts | None = None) -> None:
        self.packing = packing
        self._own = runs
        self._parts = parts
        # What somebody has the addresses of must not go.
        self._held: Runs = ()

    @staticmethod
    def over(trace: Trace, parts: Sequence[Counted]) -> Tally:
        """A map with the sums of these numbers, all of rows of the trace: it shares the keys with it."""
        # Where nothing has a number, as ranks without recursion, a map of all rows would be a map of zeros.
        held = [part for part in parts if len(part)]
        return Tally(trace.packing, (), RoundParts(trace, held) if held else None)

    @property
    def _runs(self) -> Runs:
        return self._own if self._parts is None else (*self._parts.runs, *self._own)

    def _probed(self, probes: int) -> None:
        if self._parts is not None:
            self._parts.probed(probes)

    def _whole(self) -> Runs:
        """The runs of the map, none of them a part."""
        return self._own if self._parts is None else (*self._parts.merged(), *self._own)

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
        parts, runs = self._parts, self._own
        if parts is not None and parts.size <= MERGE_RATIO * (sum(run.size for run, _ in runs) + keys.size):
            parts, runs = None, self._whole()
        # Numbers that need eight bytes are kept in one run: the sum over several might not fit eight bytes.
        whole = narrow(weights).itemsize == 8 or any(held.itemsize == 8 for _, held in self._runs)
        if whole:
            parts, runs = None, self._whole()
        while runs and (
            whole or runs[-1][0].size <= MERGE_RATIO * keys.size or runs[-1][0].size + keys.size <= SMALL_RUN
        ):
            run, held = runs[-1]
            runs = runs[:-1]
            keys, weights = join.consolidate(np.concatenate((run.keys, keys)), np.concatenate((held, weights)))
        return Tally(self.packing, (*runs, (Run(keys), narrow(weights))) if keys.size else runs, parts)

    def widened(self, target: Packing) -> Tally:
        """The same map under a packing with more room."""
        if target is self.packing:
            return self
        runs = tuple(
            (Run(target.pack(self.packing.columns(run.keys), run.size)), weights) for run, weights in self._whole()
        )
        return Tally(target, runs)

    def get(self, rows: RowSet) -> join.Weights:
        """The number of each row."""
        self._probed(len(rows))
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
        self._probed(size)
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
        self._probed(low.size)
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
        return [(run.keys, weights) for run, weights in self._whole()]

    def addresses(self) -> list[tuple[int, int, int, int]]:
        """Where the runs lie: address of the keys, of the numbers, how many, and how wide a number is."""
        runs = self._lasting()
        return [(run.keys.ctypes.data, weights.ctypes.data, run.size, weights.itemsize) for run, weights in runs]

    def places(self) -> list[tuple[int, int, int, int, int, int]]:
        """Where the runs lie, as `Run.address` has it, and where the numbers and how wide they are."""
        return [(*run.address(), weights.ctypes.data, weights.itemsize) for run, weights in self._lasting()]

    def _lasting(self) -> Runs:
        """The runs, which stay where they are while the map is there."""
        self._probed(PROBES_BY_ADDRESS)
        self._held = self._runs
        return self._held

    @property
    def nbytes(self) -> int:
        return sum(int(run.keys.nbytes) + int(weights.nbytes) for run, weights in self._runs)
