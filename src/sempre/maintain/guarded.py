"""Strata in which a relation does not keep all rows: evaluated again at every change, round by round.

What stays of a round is up to the guards of the relations (`analysis.model.Guard`):

- Of rows that exclude each other (`choice-domain`) the one stays that was there before; else one that is first. While
  a row of before can still be derived by what is certain, nothing new is chosen: so a chosen row stays while it can.
- A row goes when another stands for it (subsumption). Of two that stand for each other the one with the less values
  stays. Rounds depend on sets of facts alone, so the result does not depend on the updates before.
- Recursion ends before a round that begins with as many rows as the limit, as in Soufflé.
- Rows keep their numbers; new ones get the next.

A run that is given the rows of a state to prefer gives that state again exactly if it is valid: what was chosen is
derived, and nothing more can be chosen. That is how `verify` checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sempre.analysis.model import Guard, Kind, Stratum
from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, floats_of
from sempre.maintain.planning import pivots
from sempre.maintain.seminaive import Fixpoint, first_facts
from sempre.maintain.states import ViewDict, read_step
from sempre.maintain.strategy import Change, Outcome, Work, as_update, nonempty
from sempre.plan.backend import Rows, Version
from sempre.plan.ops import Read

UNDER = "#under"
Ids = NDArray[np.int64]


@dataclass(slots=True)
class Guarded:
    """Evaluates a stratum again; rows of `prior`, or of the state before, are preferred."""

    prior: Mapping[str, Version] | None = None
    name: str = "guarded"
    forgetful: ClassVar[bool] = True

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        return self._evaluated(work, stratum, self.prior or {})

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        return as_update(work, stratum, self._evaluated(work, stratum, self.prior or work.old))

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> None:
        """It remembers nothing but the facts."""

    def _evaluated(self, work: Work, stratum: Stratum, prior: Mapping[str, Version]) -> Outcome:
        backend, names = work.backend, stratum.relations
        state = {**work.new}
        start = first_facts(backend, work.plans, work.program, stratum, state, work.explicit)
        work.new.update({name: version for name, version in state.items() if name not in names})
        state = {**work.new, **{name: backend.empty(name) for name in names}}
        rounds = GuardedRounds(work, stratum, prior)
        rounds.run(state, start)
        work.new.update({name: version for name, version in state.items() if name not in names})
        versions = {name: state[name] for name in names}
        changes = {name: Change(versions[name].rows(), backend.empty(name).rows()) for name in names}
        kept = ", ".join(f"{name}: {work.program.guards[name].what}" for name in names if name in work.program.guards)
        return Outcome(versions, changes, None, rounds.rounds, why=f"evaluated again ({kept})")


class GuardedRounds(Fixpoint):
    """Semi-naive rounds, in each of which the guards say what stays."""

    def __init__(self, work: Work, stratum: Stratum, prior: Mapping[str, Version]) -> None:
        super().__init__(work.backend, work.plans, work.program, stratum, work.on_round, walking=False)
        self._work = work
        self._guards = {name: work.program.guards[name] for name in stratum.relations if name in work.program.guards}
        self._prior = {name: prior[name] for name in self._guards if name in prior}
        self._waiting: dict[str, Rows] = {}

    def run(self, state: dict[str, Version], delta: dict[str, Rows]) -> None:
        old = {name: state[name] for name in self._stratum.relations}
        while delta := self._admitted(state, old, delta):
            if self._jobs and self._outgrown(old, delta):
                self._prepare(state, old, delta)
            new = {name: old[name].adding(delta[name]) if name in delta else old[name] for name in old}
            self.rounds += 1
            self._on_round(self.rounds, sum(map(len, delta.values())))
            following = self._step(old, new, delta) if self._jobs else {}
            old, delta = new, following
        state.update(old)

    def _admitted(
        self, state: dict[str, Version], old: dict[str, Version], delta: Mapping[str, Rows]
    ) -> dict[str, Rows]:
        """What of a round stays; rows of `old` that it takes the place of leave that."""
        limits = [(name, guard.limit) for name, guard in self._guards.items() if guard.limit is not None]
        if self.rounds and any(len(old[name]) >= limit for name, limit in limits):
            return {}
        left = nonempty(self._backend, delta)
        for name, guard in self._guards.items():
            if guard.keys and name in left:
                waiting = self._waiting.get(name)
                self._waiting[name] = left[name] if waiting is None else self._backend.union([waiting, left[name]])
                del left[name]
            elif guard.dominance and name in left:
                left[name], old[name] = self._undominated(state, name, guard, old[name], left[name])
            elif guard.numbered and name in left:
                left[name] = self._numbered(name, guard.numbered, left[name])
        left = nonempty(self._backend, left)
        chosen = self._chosen(old, preferred=True)
        if not chosen and not left:
            chosen = self._chosen(old, preferred=False)
        return left | chosen

    # --------------------------------------------------------------------------------------------------- choice

    def _chosen(self, old: Mapping[str, Version], preferred: bool) -> dict[str, Rows]:
        """Rows that waited and that no row excludes; only those of before, or any."""
        found: dict[str, Rows] = {}
        for name, waiting in list(self._waiting.items()):
            wanted = waiting
            if preferred:
                if name not in self._prior:
                    continue
                wanted = self._backend.intersection(waiting, self._prior[name])
            if len(wanted):
                picked = self._picked(name, old[name], wanted)
                self._waiting[name] = self._backend.difference(waiting, self._backend.version(wanted))
                if len(picked):
                    found[name] = picked
        return found

    def _picked(self, name: str, old: Version, rows: Rows) -> Rows:
        """The first rows, in their order, of which no two exclude each other, and which no row of `old` excludes."""
        mine, others = rows.columns(), old.rows().columns()
        size, taken = len(rows), len(old)
        ids = [
            _numbers([[mine[at] for at in key], [others[at] for at in key]], (size, taken))
            for key in self._guards[name].keys
        ]
        free = np.ones(size, np.bool_)
        for own, standing in ids:
            free &= ~np.isin(own, standing)
        picked = np.zeros(size, np.bool_)
        while free.any():
            rest = np.flatnonzero(free)
            first = np.ones(rest.size, np.bool_)
            for own, _ in ids:
                where = np.unique(own[rest], return_index=True)[1]
                leads = np.zeros(rest.size, np.bool_)
                leads[where] = True
                first &= leads
            won = rest[first]
            picked[won] = True
            for own, _ in ids:
                free &= ~np.isin(own, own[won])
        at = np.flatnonzero(picked)
        return self._backend.receive(name, [column[at] for column in mine], at.size)

    # ---------------------------------------------------------------------------------------------- subsumption

    def _undominated(
        self, state: dict[str, Version], name: str, guard: Guard, old: Version, delta: Rows
    ) -> tuple[Rows, Version]:
        """New rows and old ones without those that another row stands for."""
        backend = self._backend
        pairs = self._pairs(state, name, guard, old, delta)
        if not len(pairs):
            return delta, old
        dropped = self._dropped(name, pairs)
        if not len(dropped):
            return delta, old
        gone = backend.version(dropped)
        return backend.difference(delta, gone), old.removing(backend.intersection(dropped, old))

    def _pairs(self, state: dict[str, Version], name: str, guard: Guard, old: Version, delta: Rows) -> Rows:
        """The pairs of a row and one that stands for it, of which one is new."""
        backend, plans = self._backend, self._plans
        both = old.adding(delta)
        wanted = [(rule, pivot) for rule in guard.dominance for pivot in pivots(rule, (name,))]
        ready = [plans.delta(rule, pivot, {**state, name: both}) for rule, pivot in wanted]
        orders = plans.needed_orders(wanted)
        looked = set().union(*(found for (each, read), found in orders.items() if each == name and read != Read.ONLY))
        both, old = both.indexed(looked), old.indexed(looked)
        only = backend.version(delta, orders.get((name, Read.ONLY), ()))
        views: ViewDict = {}
        read_step(views, name, backend.view(both), backend.view(old), backend.view(only))
        return backend.derive(name + UNDER, ready, views, backend.empty(name + UNDER))

    def _dropped(self, name: str, pairs: Rows) -> Rows:
        """The rows that go: those that others stand for, and of rows that stand for each other all but the least."""
        columns = pairs.columns()
        arity, size = len(columns) // 2, len(pairs)
        lesser, greater = columns[:arity], columns[arity:]
        low, high = _numbers([lesser, greater], (size, size))
        apart = low != high
        low, high = low[apart], high[apart]
        lesser = [column[apart] for column in lesser]
        most = int(max(low.max(initial=0), high.max(initial=0))) + 1
        mutual = np.isin(low * most + high, high * most + low)
        gone = set(low[~mutual].tolist())
        tied = [at for at in np.flatnonzero(mutual).tolist() if not {int(low[at]), int(high[at])} & gone]
        if tied:
            keys = self._values_of(name, [column[tied] for column in lesser])
            order = {int(low[at]): key for at, key in zip(tied, keys, strict=True)}
            rivals: dict[int, set[int]] = {}
            for at in tied:
                rivals.setdefault(int(low[at]), set()).add(int(high[at]))
            for row in sorted(order, key=lambda each: order[each]):
                if row not in gone:
                    gone |= rivals[row]
        first = {int(row): at for at, row in reversed(list(enumerate(low.tolist())))}
        places = np.array(sorted(first[row] for row in gone), np.intp)
        return self._backend.receive(name, [column[places] for column in lesser], places.size)

    def _values_of(self, name: str, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
        """Rows as something that can be ordered, and does not depend on how values are numbered."""
        relation = self._work.program.relations[name]
        shown: list[Sequence[Any]] = []
        for column, kind in zip(columns, relation.kinds, strict=True):
            if kind is Kind.SYMBOL:
                values: Values = self._backend.values  # type: ignore[attr-defined]  # that of the driver has them
                shown.append(values.symbols.decode(column))
            elif kind is Kind.RECORD and np.unique(column).size > 1:
                hint = "Compare one more column, so that one of the two is the better one."
                message = f"rows of `{name}` stand for each other, and differ in a record"
                raise DataError(Diagnostic("E166", message, relation.span, hint=hint))
            elif kind is Kind.FLOAT:
                shown.append(floats_of(column).tolist())
            else:
                shown.append((column.view(np.uint64) if kind is Kind.UNSIGNED else column).tolist())
        return list(zip(*shown, strict=True))

    # -------------------------------------------------------------------------------------------------- numbers

    def _numbered(self, name: str, numbered: tuple[int, int], rows: Rows) -> Rows:
        """The rows with their numbers: those of before, and the next ones in the order of the rows."""
        apart, first = numbered
        columns, size = list(rows.columns()), len(rows)
        numbers = np.full(size, -1, np.int64)
        following = first
        if name in self._prior and len(self._prior[name]):
            before = self._prior[name].rows()
            given = before.columns()
            mine, theirs = _numbers([columns[:-1], given[:-1]], (size, len(before)))
            order = np.argsort(theirs)
            place = np.searchsorted(theirs, mine, sorter=order).clip(max=len(before) - 1)
            known = theirs[order[place]] == mine
            numbers[known] = given[-1][order[place[known]]]
            following = int(given[-1].max()) + apart
        fresh = np.flatnonzero(numbers < 0)
        numbers[fresh] = following + apart * np.arange(fresh.size)
        columns[-1] = numbers
        return self._backend.receive(name, columns, size)


def _numbers(tables: Sequence[Sequence[Column]], sizes: Sequence[int]) -> list[Ids]:
    """Numbers for the rows of tables with the same columns: equal rows, of whichever table, have equal numbers."""
    ids = np.zeros(sum(sizes), np.int64)
    for parts in zip(*tables, strict=True):
        inverse = np.unique(np.concatenate(parts), return_inverse=True)[1].astype(np.int64)
        ids = np.unique(ids * (int(inverse.max(initial=0)) + 1) + inverse, return_inverse=True)[1].astype(np.int64)
    return np.split(ids, np.cumsum(sizes)[:-1].tolist())
