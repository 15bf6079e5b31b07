"""Fact chains: what happened to every row of a relation, cycle by cycle, in columns.

A chain has, for each cycle, how many instances added the row, how many deleted it, and whether it was there. All three
stay as they are for long stretches, so only the cycles where one of them changes are kept, as rows with the cycle as
one more column:

- `points` has (row, cycle) where the row came or went;
- `added` and `deleted` have (row, cycle) with the difference to the cycle before.

The number at a cycle is the sum of the differences up to it. A row was there at a cycle if it is there now and flipped
an even number of times since, or is not and flipped an odd number of times. What was there in cycle 0 has no points:
it follows from the rest. Nothing has an end: a record holds until the next one.

Like traces and tallies, chains never change, and a change of a few records costs what it touches.

Reference: [Wolfson91] section 4. Differs: run-length encoded, for all facts at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.layout import Column, Field, Keys, Packing, common_packing, fields_covering, packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import Order, RowSet, Trace, TraceView, within

# Room for cycle numbers grows by this many bits at a time.
CYCLE_BITS = 12
Stamped = tuple[int, Counted]
# The kinds of records.
POINTS, ADDED, DELETED = "points", "added", "deleted"


def _stamped_packing(layout: Packing, cycle: int) -> Packing:
    bits = CYCLE_BITS
    while cycle >> bits:
        bits += CYCLE_BITS
    return packing((*layout.fields, Field(0, bits)), (*layout.order, len(layout.order)))


def _stamped_keys(layout: Packing, keys: Keys, target: Packing, cycle: int) -> Keys:
    if layout.narrow and target.narrow:
        return np.asarray((keys << target.fields[-1].bits) | cycle)
    return target.pack([*layout.columns(keys), np.full(keys.size, cycle)], keys.size)


def stamp(rows: RowSet, cycle: int) -> RowSet:
    """The rows with the cycle as their last column."""
    target = _stamped_packing(rows.packing, cycle)
    return RowSet(target, _stamped_keys(rows.packing, rows.keys, target, cycle))


def stamp_counts(counted: Counted, cycle: int) -> Counted:
    rows = stamp(counted.rows(), cycle)
    return Counted(rows.packing, rows.keys, counted.weights)


def _unstamped(rows: RowSet) -> RowSet:
    """The distinct rows without their cycles."""
    layout = packing(rows.packing.fields[:-1], rows.packing.order[:-1])
    return RowSet(layout, join.distinct(layout.pack(rows.columns()[:-1], len(rows)).copy()))


def _bounds(
    layout: Packing, columns: Sequence[Column], size: int, first: int, last: int
) -> tuple[join.Rows, Keys, Keys] | None:
    """For rows that `layout` can hold: where they stand in `columns`, and their keys from `first` to `last` cycle."""
    field = layout.fields[-1]
    first, last = max(first, field.lo), min(last, field.hi)
    if first > last:
        return None
    at = np.flatnonzero(within(columns, layout.fields[:-1])) if columns else np.arange(size)
    if not at.size:
        return None
    inside = [column.take(at) for column in columns]
    low = layout.pack([*inside, np.full(at.size, first)], at.size)
    return at, low, layout.pack([*inside, np.full(at.size, last)], at.size)


def union(sets: Iterable[RowSet]) -> RowSet:
    """The distinct rows of some sets, at least one."""
    every = list(sets)
    filled = [rows for rows in every if len(rows)] or every[:1]
    layout = common_packing([rows.packing for rows in filled])
    if len(filled) == 1:
        return filled[0]
    return RowSet(layout, join.distinct(np.concatenate([rows.repacked(layout).keys for rows in filled])))


def symmetric_difference(left: RowSet, right: RowSet) -> RowSet:
    """The rows that are in one of the sets only."""
    layout = common_packing([left.packing, right.packing])
    both = np.concatenate((left.repacked(layout).keys, right.repacked(layout).keys))
    keys, times = join.tally(both)
    return RowSet(layout, keys[times == 1])


def _numbers(counted: Counted | None, rows: RowSet) -> join.Weights:
    """The number of each row, zero for rows that are not counted."""
    found = np.zeros(len(rows), np.int64)
    if counted is not None and len(counted):
        # Every packing sorts rows alike, so the sorted keys can be searched once they look the same.
        layout = common_packing([rows.packing, counted.packing])
        keys, probes = counted.repacked(layout).keys, rows.repacked(layout).keys
        at = np.minimum(keys.searchsorted(probes), keys.size - 1)
        hit = keys.take(at) == probes
        found[hit] = counted.weights.take(at[hit])
    return found


def decide(added: join.Weights, deleted: join.Weights, before: join.Mask) -> join.Mask:
    """Whether rows are there after a cycle: a row that is both added and deleted, or neither, stays as it was."""
    return np.where((added > 0) == (deleted > 0), before, added > 0)


@dataclass(frozen=True, slots=True)
class AbsentRows:
    """Those rows of `trace` that were not there at `cycle`: the ones that flipped since an odd number of times, or an
    even number if they are not there now.
    """

    trace: Trace
    points: Trace
    cycle: int
    odd: bool

    @property
    def size(self) -> int:
        return 1  # there may be some; only a look at each row can tell

    @property
    def packing(self) -> Packing:
        return self.trace.packing

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.trace.fields

    def __len__(self) -> int:
        return 0

    def contains(self, rows: RowSet) -> join.Mask:
        return self.trace.contains(rows) & self._away(rows.columns(), len(rows))

    def count(self, order: Order, low: Keys, high: Keys, exact: bool) -> Column:
        """How many of the rows lie within each pair of bounds; those in between are looked at one by one."""
        layout = self.packing.reordered(order)
        if exact:
            found = self.trace.count(order, low, high, True)
            found[~self._away(layout.columns(low), low.size)] = 0
            return found
        total = np.zeros(low.size, np.int64)
        for run in self.trace.orders[order]:
            at, keys = run.expand(*run.ranges(low, high))
            keep = self._away(layout.columns(keys), keys.size)
            if self.trace.dead is not None:
                keep &= self.trace.dead.count(order, keys, keys, True) == 0
            total += np.bincount(at[keep], minlength=low.size)
        return total

    def _away(self, columns: Sequence[Column], size: int) -> join.Mask:
        return np.asarray((flips_after(self.points, columns, size, self.cycle) & 1) == self.odd)


def flips_after(points: Trace, columns: Sequence[Column], size: int, cycle: int) -> Column:
    """How often each row came or went after `cycle`."""
    total = np.zeros(size, np.int64)
    if points.size:
        bounds = _bounds(points.packing, columns, size, cycle + 1, 1 << 62)
        if bounds is not None:
            at, low, high = bounds
            total[at] = points.count(points.own, low, high, False)
    return total


def _sums(tally: Tally, rows: RowSet, cycle: int) -> join.Weights:
    """The numbers of the rows at `cycle`."""
    total = np.zeros(len(rows), np.int64)
    bounds = _bounds(tally.packing, rows.columns(), len(rows), 0, cycle)
    if bounds is not None:
        at, low, high = bounds
        total[at] = tally.between(low, high)
    return total


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Records as columns, in any order: the cycle of each, its row, and its number."""

    cycles: Column
    columns: Sequence[Column]
    numbers: join.Weights

    def counted(self, fields: Sequence[Field]) -> Counted:
        """The same with the rows and cycles as keys."""
        layout = packing(fields_covering(self.columns, fields), tuple(range(len(fields))))
        target = _stamped_packing(layout, int(self.cycles.max()) if self.cycles.size else 0)
        keys = target.pack([*self.columns, self.cycles], self.cycles.size)
        return Counted(target, *join.consolidate(keys, self.numbers))


@dataclass(frozen=True, slots=True)
class Chain:
    """The chains of all rows of one relation.

    `now` has the rows after the last cycle, `gone` those that were there at some cycle and are not now.
    """

    now: Trace
    gone: Trace
    points: Trace
    added: Tally
    deleted: Tally

    @staticmethod
    def starting(rows: RowSet) -> Chain:
        """The chains before the first cycle, when the relation has these rows."""
        layout = _stamped_packing(rows.packing, 0)
        nothing = Trace.empty(rows.packing.fields)
        return Chain(Trace.of(rows), nothing, Trace.empty(layout.fields), Tally(layout), Tally(layout))

    @staticmethod
    def restored(now: Trace, points: StoredRecords, added: StoredRecords, deleted: StoredRecords) -> Chain:
        """The chains with these records, of a relation that has the rows of `now` after the last cycle."""
        flips = points.counted(now.fields).rows()
        tallies = [each.counted(now.fields) for each in (added, deleted)]
        chain = Chain(
            now,
            Trace.empty(now.fields),
            Trace.of(flips),
            *(Tally(each.packing).adding(each) for each in tallies),
        )
        return chain._sorted_out(_unstamped(flips))

    # ------------------------------------------------------------------------------------------------ reading

    def runs(self, what: str) -> list[tuple[Packing, Keys, join.Weights | int]]:
        """The records of one kind, as runs of rows with cycles and numbers that add up to them.

        Chains share the runs that they have in common.
        """
        if what != POINTS:
            tally: Tally = getattr(self, what)
            return [(tally.packing, keys, weights) for keys, weights in tally.runs()]
        found: list[tuple[Packing, Keys, join.Weights | int]] = []
        trace: Trace | None = self.points
        sign = 1
        while trace is not None:
            found += [(trace.packing, run.keys, sign) for run in trace.orders[trace.own]]
            trace, sign = trace.dead, -sign
        return found

    def records_of(self, what: str) -> StoredRecords:
        """The records of one kind; rows may occur in several."""
        runs = self.runs(what)
        columns = [np.concatenate(each) for each in zip(*(p.columns(k) for p, k, _ in runs), strict=True)]
        if not columns:
            nothing = np.empty(0, np.int64)
            return StoredRecords(nothing, [nothing] * len(self.now.fields), nothing)
        numbers = [np.full(k.size, w) if isinstance(w, int) else w.astype(np.int64) for _, k, w in runs]
        return StoredRecords(columns[-1], columns[:-1], np.concatenate(numbers))

    def by_cycle(self, relation: str) -> dict[int, tuple[int, int]]:
        """By cycle, how many rows came or went, and their digest; for cycle 0, the rows that were there."""
        found: dict[int, tuple[int, int]] = {}
        start = [RowSet(rows.packing, rows.keys[self.present(rows, 0)]) for rows in (self.now.rows(), self.gone.rows())]
        found[0] = sum(map(len, start)), digest(relation, start[0]) ^ digest(relation, start[1])
        rows = self.points.rows()
        if not len(rows):
            return found
        *columns, cycles = rows.columns()
        order = np.argsort(cycles, kind="stable")
        numbers, first, sizes = np.unique(cycles[order], return_index=True, return_counts=True)
        marks = np.bitwise_xor.reduceat(_digests(relation, columns, len(rows))[order], first)
        found |= {int(number): (int(size), int(mark)) for number, size, mark in zip(numbers, sizes, marks, strict=True)}
        return found

    def present(self, rows: RowSet, cycle: int) -> join.Mask:
        """Which rows were there at `cycle`."""
        flipped = (flips_after(self.points, rows.columns(), len(rows), cycle) & 1).astype(np.bool_)
        return self.now.contains(rows) ^ flipped

    def counts(self, rows: RowSet, cycle: int) -> tuple[join.Weights, join.Weights]:
        """How many instances added and how many deleted each row at `cycle`."""
        return _sums(self.added, rows, cycle), _sums(self.deleted, rows, cycle)

    def view(self, cycle: int, since: bool, without: Trace | None = None) -> TraceView:
        """The relation at `cycle`, less rows it had then. `since` says whether anything came or went later."""
        if not since:
            view = TraceView.of(self.now)
            return view if without is None or not without.size else view.without(without)
        parts: list[tuple[Trace, tuple[AbsentRows | Trace, ...]]] = []
        left = None if without is None or not without.size else without.rows()
        for trace, odd in ((self.now, True), (self.gone, False)):
            excluded: tuple[AbsentRows | Trace, ...] = (AbsentRows(trace, self.points, cycle, odd),)
            if left is not None:
                inside = trace.contains(left)
                excluded = (*excluded, Trace.of(RowSet(left.packing, left.keys[inside]), trace.orders))
            parts.append((trace, excluded))
        return TraceView(tuple(parts))

    def at(self, cycle: int) -> Trace:
        """The relation at `cycle`; reads all of it, unless it never changed."""
        if not self.points.size:
            return self.now
        both = [self.now.rows(), self.gone.rows()]
        return Trace.of(union(RowSet(rows.packing, rows.keys[self.present(rows, cycle)]) for rows in both))

    def flips(self, rows: RowSet, cycle: int) -> int:
        """How many of the rows came or went at `cycle`."""
        return int(self.points.contains(stamp(rows, cycle)).sum())

    def flipped(self, first: int, last: int) -> RowSet:
        """The rows that came or went in a stretch of cycles; reads all points."""
        rows = self.points.rows()
        cycles = rows.packing.unpack(rows.keys, len(rows.packing.order) - 1)
        return _unstamped(RowSet(rows.packing, rows.keys[(cycles >= first) & (cycles <= last)]))

    def cycles_of(self, row: RowSet) -> list[int]:
        """The cycles at which one row came or went."""
        bounds = _bounds(self.points.packing, row.columns(), len(row), 0, 1 << 62)
        if bounds is None:
            return []
        _, low, high = bounds
        found: list[int] = []
        for run in self.points.orders[self.points.own]:
            _, keys = run.expand(*run.ranges(low, high))
            if self.points.dead is not None:
                keys = keys[~self.points.dead.holds(keys)]
            found += self.points.packing.unpack(keys, len(row.packing.order)).tolist()
        return sorted(found)

    def differences(self, other: Chain) -> dict[str, RowSet]:
        """The rows whose chains differ: when they come and go, or how often they are added or deleted."""
        points, others = self.points, other.points
        flips = [
            RowSet(rows.packing, rows.keys[~there.contains(rows)])
            for rows, there in ((points.rows(), others), (others.rows(), points))
        ]
        found = {"cycles": union(map(_unstamped, flips))}
        for what in ("added", "deleted"):
            mine, theirs = getattr(self, what).entries(), getattr(other, what).entries()
            layout = common_packing([mine.packing, theirs.packing])
            both = [mine.repacked(layout), theirs.negated().repacked(layout)]
            keys, _ = join.consolidate(
                *(np.concatenate(pair) for pair in zip(*((c.keys, c.weights) for c in both), strict=True))
            )
            found[what] = _unstamped(RowSet(layout, keys))
        return {what: rows for what, rows in found.items() if len(rows)}

    @property
    def records(self) -> int:
        """How many records are kept."""
        return self.points.size + self.added.size + self.deleted.size

    @property
    def nbytes(self) -> int:
        """The memory of the records, without the relation itself."""
        return self.points.nbytes + self.added.nbytes + self.deleted.nbytes

    # ----------------------------------------------------------------------------------------------- new versions

    def indexed(self, orders: Iterable[Order]) -> Chain:
        """The same chains, quick to look up by these orders."""
        wanted = tuple(orders)
        now, gone = self.now.indexed(wanted), self.gone.indexed(wanted)
        return self if now is self.now and gone is self.gone else replace(self, now=now, gone=gone)

    def advanced(self, cycle: int, added: Counted | None, deleted: Counted | None) -> tuple[Chain, RowSet, RowSet]:
        """One cycle more, given how the numbers of instances change; also the rows that came and that went."""
        chain = self._counting([(cycle, added)], [(cycle, deleted)])
        rows = union(counted.rows() for counted in (added, deleted) if counted is not None)
        before = self.now.contains(rows)
        after = decide(*chain.counts(rows, cycle), before)
        plus = RowSet(rows.packing, rows.keys[after & ~before])
        minus = RowSet(rows.packing, rows.keys[before & ~after])
        points = self.points
        for flips in (plus, minus):
            points = points.adding(stamp(flips, cycle)) if len(flips) else points
        chain = replace(chain, now=self.now.removing(minus).adding(plus), points=points)
        return chain._sorted_out(union((plus, minus))), plus, minus

    def turned(self, cycle: int, rows: RowSet) -> tuple[Chain, RowSet, RowSet]:
        """One cycle more in which all of these rows come or go; also those that came and those that went."""
        there = self.now.contains(rows)
        plus, minus = RowSet(rows.packing, rows.keys[~there]), RowSet(rows.packing, rows.keys[there])
        chain = replace(self, now=self.now.removing(minus).adding(plus), points=self.points.adding(stamp(rows, cycle)))
        return chain._sorted_out(rows), plus, minus

    def compared(
        self, cycle: int, added: Counted | None, deleted: Counted | None, plus: RowSet, minus: RowSet
    ) -> tuple[RowSet, RowSet]:
        """What another run has more and less than this one at `cycle`.

        `added` and `deleted` are by how much its numbers of instances differ at this cycle, `plus` and `minus` what
        it has more and less one cycle before.
        """
        counted = [part.rows() for part in (added, deleted) if part is not None]
        rows = union((*counted, plus, minus))
        own_added, own_deleted = self.counts(rows, cycle)
        differs = Trace.of(plus).contains(rows) | Trace.of(minus).contains(rows)
        before = self.present(rows, cycle - 1) ^ differs
        has = decide(own_added + _numbers(added, rows), own_deleted + _numbers(deleted, rows), before)
        had = self.present(rows, cycle)
        return RowSet(rows.packing, rows.keys[has & ~had]), RowSet(rows.packing, rows.keys[had & ~has])

    def edited(
        self,
        toggles: Sequence[tuple[int, RowSet]],
        added: Sequence[Stamped],
        deleted: Sequence[Stamped],
        start: tuple[RowSet, RowSet],
        end: tuple[RowSet, RowSet],
    ) -> Chain:
        """The chains of another run, given the differences.

        `toggles` are the rows that flip at a cycle in one of the runs only, `added` and `deleted` the differences of
        the records, `start` and `end` what the other run has more and less in cycle 0 and after the last.
        """
        chain = self._counting(added, deleted)
        points = self.points
        for cycle, rows in toggles:
            stamped = stamp(rows, cycle)
            there = points.contains(stamped)
            points = points.removing(RowSet(stamped.packing, stamped.keys[there]))
            points = points.adding(RowSet(stamped.packing, stamped.keys[~there]))
        chain = replace(chain, points=points, now=self.now.removing(end[1]).adding(end[0]))
        return chain._sorted_out(union((*start, *(rows for _, rows in toggles))))

    def _counting(
        self, added: Sequence[tuple[int, Counted | None]], deleted: Sequence[tuple[int, Counted | None]]
    ) -> Chain:
        tallies = []
        for tally, changes in ((self.added, added), (self.deleted, deleted)):
            for cycle, counted in changes:
                if counted is not None and len(counted):
                    tally = tally.adding(stamp_counts(counted, cycle))
            tallies.append(tally)
        return replace(self, added=tallies[0], deleted=tallies[1])

    def _sorted_out(self, rows: RowSet) -> Chain:
        """With these rows where they belong: those that are not there now, but were once, in `gone`."""
        once = flips_after(self.points, rows.columns(), len(rows), 0) > 0
        belongs = once & ~self.now.contains(rows)
        inside = self.gone.contains(rows)
        gone = self.gone.removing(RowSet(rows.packing, rows.keys[inside & ~belongs]))
        return replace(self, gone=gone.adding(RowSet(rows.packing, rows.keys[belongs & ~inside])))


def digest(relation: str, rows: RowSet) -> int:
    """A number that tells sets of rows apart: that of a symmetric difference is the exclusive or of the two."""
    if not len(rows):
        return 0
    return int(np.bitwise_xor.reduce(_digests(relation, rows.columns(), len(rows))))


def _digests(relation: str, columns: Sequence[Column], size: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The number of each row."""
    mixed = np.full(size, np.uint64(_spread(relation)))
    for column in columns:
        mixed = _mix(mixed ^ np.ascontiguousarray(column).view(np.uint64))
    return _mix(mixed)


def _spread(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def _mix(values: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The finalizer of SplitMix64: every bit of the input moves half of the output."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
