"""Plans as code for the kernel's grower: what follows from a few new facts, through as many rounds as it takes.

Like `rerank`, rules may have several atoms of the stratum, so new facts must find each other. Rounds are those of
arrays, and so are the numbers of instances that derive a fact when it is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from sempre.backends.bindings import Views
from sempre.backends.rerank import SLICE, TABLE_BITS, Settling
from sempre.backends.walk_code import NotWalkable, front_of, table_of
from sempre.kernel import compiled
from sempre.kernel.layout import Column, Packing
from sempre.kernel.tally import Counted
from sempre.kernel.trace import RowSet, TraceView
from sempre.kernel.values import Values
from sempre.plan.ops import Plan, Probe, Read

USED, TAKEN, WORK, FAILED, INSTANCES = range(5)
KEY, RELATION, ROUND, NUMBER = range(4)
# When as much work was done and this many facts wait to be taken, the next rounds are for arrays.
MOST_WORK = 1 << 22
MOST_WAITING = 1 << 12


@dataclass(frozen=True, slots=True)
class Grown:
    """What follows from new facts: see `GrownOf`."""

    rounds: Sequence[Mapping[str, RowSet]]
    pending: Mapping[str, RowSet]
    numbers: Mapping[str, Counted]


@dataclass(slots=True)
class Growing(Settling):
    """Code for the grower."""

    index_of: list[int] = field(default_factory=list)
    indexes: list[tuple[int, int, int]] = field(default_factory=list)
    _index_at: dict[tuple[str, tuple[int, ...], int], int] = field(default_factory=dict)

    def emit(self, *numbers: int) -> None:
        self.index_of.append(-1)
        Settling.emit(self, *numbers)

    def own_probe(self, step: Probe) -> None:
        """A lookup in a relation of the stratum, which finds new facts too."""
        Settling.own_probe(self, step)
        at = self.starts[-1]
        free = self.code[at + 2].bit_length()
        key = (step.relation, step.order, free)
        if key not in self._index_at:
            self._index_at[key] = len(self.indexes)
            self.indexes.append((self.code[at + 3], free, at + 6))
        self.index_of[-1] = self._index_at[key]

    def may_sift(self, step: Probe) -> bool:
        """New facts are in no sieve."""
        return step.relation not in self.own


def grow(
    front: Mapping[str, RowSet],
    plans: Sequence[Plan],
    views: Views,
    present: Mapping[str, TraceView],
    values: Values,
    look: Callable[[], None],
) -> tuple[Grown, int] | None:
    """What follows from the front, and how many instances were found; None where that cannot be done now."""
    grower = compiled.grower()
    if grower is None:
        return None
    relations = list(present)
    try:
        writer = Growing(values, {})
        shown = [writer.source(view, view.parts[0][0].own) for view in present.values()]
        targets = {name: layout for name, (_, layout) in zip(relations, shown, strict=True)}
        writer.own = {name: (number, targets[name]) for number, name in enumerate(relations)}
        read = {**views, **{(name, Read.HERE): view for name, view in present.items()}}
        rows = [writer.plan_of(plan, read, 0) for plan in plans]
        keys, owners = front_of(front, relations, targets)
    except NotWalkable:
        return None
    indexes = table_of(writer.indexes, 3)
    code = (
        table_of(rows, 4), np.array(writer.starts, np.int64), np.array(writer.before, np.int64),
        np.array(writer.code, np.int64), table_of(writer.sources, 2), table_of(writer.parts, 4),
        table_of(writer.runs, 4), np.array([source for source, _ in shown], np.int64),
        np.array(writer.sieve_of, np.int64), np.array(writer.sieves, np.int64), table_of(writer.tables, 7),
        np.zeros(writer.mark_bytes, np.uint8), np.array(writer.index_of, np.int64), indexes, writer.most_slots,
    )  # fmt: skip
    for bits in TABLE_BITS:
        state = grower.begin(keys, owners, indexes, bits)
        while _goes_on(state[4]):
            state = grower.grow(*state, *code, int(state[4][WORK]) + SLICE)
            look()
        if not state[4][FAILED]:
            found = state[4]
            told = _told(state[1][: found[USED]], int(found[TAKEN]), len(keys), relations, targets)
            return None if told is None else (told, int(found[INSTANCES]))
    return None


def _goes_on(found: Column) -> bool:
    waiting = int(found[USED] - found[TAKEN])
    return bool(waiting and not found[FAILED] and (found[WORK] < MOST_WORK or waiting < MOST_WAITING))


def _told(
    facts: Column, taken: int, begun: int, relations: Sequence[str], targets: Mapping[str, Packing]
) -> Grown | None:
    """The facts that were found, round by round. Those of a round that was not taken to its end wait to be taken again,
    and what followed from some of them is dropped; None if not even the front was taken.
    """
    done = taken == len(facts)
    last = int(facts[:, ROUND].max(initial=0)) if done else int(facts[taken, ROUND])
    if not done and not last:
        return None
    new = facts[begun:]
    new = new[new[:, ROUND] <= last]
    new = new[np.lexsort((new[:, KEY], new[:, RELATION], new[:, ROUND]))]
    rounds: list[dict[str, RowSet]] = [{} for _ in range(last + 1)]
    ends = np.flatnonzero(np.diff(new[:, ROUND] * len(relations) + new[:, RELATION], append=-1)) + 1
    for low, high in pairwise([0, *ends.tolist()]):
        name = relations[int(new[low, RELATION])]
        rounds[int(new[low, ROUND])][name] = RowSet(targets[name], new[low:high, KEY].copy())
    new = new[np.argsort(new[:, KEY])]
    numbers = {
        name: Counted(targets[name], *(new[new[:, RELATION] == at, column] for column in (KEY, NUMBER)))
        for at, name in enumerate(relations)
    }
    return Grown(rounds[1:] if done else rounds[1:-1], {} if done else rounds[-1], numbers)
