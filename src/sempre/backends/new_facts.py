"""Facts that plans find, until it is known which of them are new."""

from __future__ import annotations

import threading

import numpy as np

from sempre.kernel import compiled, gather, join
from sempre.kernel.layout import Keys, Packing
from sempre.kernel.tally import Counted, narrow
from sempre.kernel.trace import RowSet, Trace, TraceView


class NewFacts:
    """Facts that are not known yet, in parts in which each occurs once; `counts` their instances or not.

    Keys that come one by one are put into buckets first, one for each thread.
    """

    def __init__(self, target: Packing, known: TraceView | Trace, counts: bool) -> None:
        self.target = target
        self.counts = counts
        self._known = known
        self._runs = _plain_runs(known, target)
        self._parts: list[Counted] = []
        self._buckets: dict[int, gather.Bucket] = {}

    def bucket(self) -> gather.Bucket:
        """That of this thread."""
        thread = threading.get_ident()
        if thread not in self._buckets:
            self._buckets[thread] = gather.Bucket(self.target.bits, self.counts, self.take)
        return self._buckets[thread]

    def take(self, keys: Keys, weights: join.Weights) -> None:
        """Keep those of some sorted keys of a bucket that are not known; the arrays are the bucket's."""
        loops = compiled.loops(keys.size) if self._runs is not None else None
        if loops is None:
            self.add(self.target, keys.copy(), weights.copy())
            return
        assert self._runs is not None
        for run in self._runs:
            size = loops.unknown(keys, weights, run)
            keys, weights = keys[:size], weights[:size]
        if keys.size:
            self._parts.append(Counted(self.target, keys.copy(), narrow(weights)))

    def add(self, layout: Packing, keys: Keys, weights: join.Weights) -> None:
        """Keep those of some sorted keys that are not known."""
        found = self._known.contains(RowSet(layout, keys)) if len(self._known) else None
        if found is not None and found.any():
            keys = keys[~found]
            weights = weights[~found] if self.counts else weights
        if keys.size:
            self._parts.append(Counted(layout, keys, weights).narrowed())

    def keep(self, facts: Counted) -> None:
        """Keep sorted facts of which somebody else has made sure that they are not known."""
        if len(facts):
            self._parts.append(facts)

    def finished(self) -> list[Counted]:
        while self._buckets:  # they know this collection, so that nothing else would free them before long
            self._buckets.popitem()[1].close()
        return self._parts


def _plain_runs(known: TraceView | Trace, target: Packing) -> list[Keys] | None:
    """The keys of a version in which all that is known can be looked up as it is; None if there is more to look at."""
    parts = known.parts if isinstance(known, TraceView) else ((known, ()),)
    if not target.narrow or any(excluded or trace.dead is not None for trace, excluded in parts):
        return None
    if any(trace.size and trace.packing is not target for trace, _ in parts):
        return None
    return [run.keys for trace, _ in parts for run in trace.orders[trace.own]]


def summed(parts: list[Counted], layout: Packing) -> tuple[Keys, join.Weights]:
    """The keys of all parts with the sums of their numbers; takes the parts away, which saves memory."""
    spare = 63 - layout.bits
    if not layout.narrow or any(int(part.weights.max()) >> max(spare, 0) for part in parts):
        keys = np.concatenate([part.repacked(layout).keys for part in parts])
        return join.consolidate(keys, np.concatenate([part.weights for part in parts]))
    both = np.empty(sum(map(len, parts)), np.int64)
    end = both.size
    while parts:
        part = parts.pop()
        words = both[end - len(part) : end]
        np.left_shift(part.repacked(layout).keys, spare, out=words)
        words |= part.weights
        end -= len(part)
    keys, sums = join.totals(both, spare)
    return keys.copy(), sums.copy()
