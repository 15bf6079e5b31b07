"""Where strata are evaluated: in the driver's kernel while they fit its memory, as DataFrames beyond.

The choice is made per stratum, before it starts, from the sizes of what it reads. When that was too little, the stratum
is given up and started again on the larger place. What a stratum reads is brought to where it runs; what it derives
stays there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sempre.analysis.model import CheckedProgram, Stratum
from sempre.data import dataclass
from sempre.maintain.planning import Plans
from sempre.maintain.strategy import Change, Outcome, Work
from sempre.plan.backend import CLUSTER, DRIVER, Backend, Rows, Version
from sempre.plan.ops import relations_of
from sempre.rewrites.neighbors import shown

# A column in the kernel: eight bytes, sorted in about three orders.
VALUE_BYTES = 24

# A pass that closes a whole stratum at once, or None where it cannot: asked before rounds of DataFrames begin.
Closer = Callable[[Work, Stratum], "Outcome | None"]


class PlaceTooSmall(Exception):
    """A stratum has outgrown the place it runs on."""


def machine_memory() -> int:
    """The memory that this process may use: the machine's, or what its control group allows."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
    except OSError:
        return total
    return min(total, int(allowed)) if allowed.isdigit() else total


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a stratum runs, and why."""

    place: str
    why: str


class Places:
    """The backends of one program, and which of them a stratum runs on."""

    def __init__(
        self,
        program: CheckedProgram,
        backends: Mapping[str, Backend],
        wanted: str = "auto",
        budget: int | None = None,
        closer: Closer | None = None,
    ) -> None:
        self._program = program
        self.backends = backends
        self.limits = next(iter(backends.values())).limits
        self.budget = budget or int(machine_memory() * self.limits.memory_share)
        self.closer = closer
        only = next(iter(backends)) if len(backends) == 1 else None
        self._fixed = only or (wanted if wanted in backends else None)
        self.main = self._fixed or DRIVER
        self.plans = {name: Plans(program, backend) for name, backend in backends.items()}
        # Per relation and place, the last version that was brought there: unchanged ones are not brought again.
        self._brought: dict[tuple[str, str], tuple[Version, Version]] = {}

    def renew(self) -> None:
        """Plans from nothing, for the backends' present layouts."""
        self.plans = {name: Plans(self._program, backend) for name, backend in self.backends.items()}

    def keep(self) -> None:
        """What was numbered so far belongs to a state that is committed."""
        for backend in self.backends.values():
            backend.keep()

    def forget(self) -> None:
        """Take back what was numbered since `keep`, with all that may hold such a number."""
        self._brought.clear()
        self.renew()
        for backend in self.backends.values():
            backend.forget()

    @property
    def fixed(self) -> str | None:
        """Where everything has to be, if it has to be at one place."""
        return self._fixed

    def bytes_of(self, relation: str, rows: int) -> int:
        """About what rows of a relation take in the driver."""
        return rows * max(1, self._program.relations[relation].arity) * VALUE_BYTES

    def home(self, relation: str, old: Version, coming: Rows | None, going: Rows | None) -> Choice:
        """Where explicit facts are kept: on the cluster once some of them are there, until little is left of them."""
        if self._fixed is not None:
            return Choice(self._fixed, "")
        if all(rows is None or rows.place == DRIVER for rows in (old, coming, going)):
            return Choice(DRIVER, "")
        arriving = 0 if coming is None else len(coming)
        needed = self.bytes_of(relation, len(old) + max(arriving, 0 if going is None else len(going)))
        if needed <= self.budget * self.limits.return_share:
            return Choice(DRIVER, "")
        return Choice(CLUSTER, self._beyond(relation, needed))

    def _beyond(self, names: str, needed: int) -> str:
        if needed > self.budget:
            return f"{names} on the cluster: about {needed:,} bytes, and the budget is {self.budget:,}"
        return f"{names} still on the cluster: about {needed:,} bytes, more than a quarter of the budget"

    def next_larger(self, place: str) -> str | None:
        """Where a stratum can go when a place is too small for it."""
        return CLUSTER if place == DRIVER and self._fixed is None else None

    def choose(self, stratum: Stratum, epoch: Work, home: str | None) -> Choice:
        """Where a stratum should run, given how large what it reads is, and where it is now."""
        if self._fixed is not None:
            return Choice(self._fixed, "")
        needed = self.estimate(stratum, sizes(epoch, stratum))
        limit = self.budget * (self.limits.return_share if home == CLUSTER else 1)
        if needed <= limit:
            return Choice(DRIVER, "")
        return Choice(CLUSTER, self._beyond(shown(stratum.relations), needed))

    def estimate(self, stratum: Stratum, sizes: Mapping[str, int]) -> int:
        """The bytes that a stratum may take in the driver: what it reads, once per rule that reads it, and itself."""
        bodies = [relations_of(rule.body) for rule in (*stratum.nonrecursive, *stratum.recursive)]
        rows = [(name, sizes.get(name, 0)) for body in (*bodies, set(stratum.relations)) for name in body]
        return sum(self.bytes_of(name, size) for name, size in rows)

    def guard(self, stratum: Stratum, epoch: Work, observe: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """Watches the rounds of a stratum in the driver; raises `PlaceTooSmall` when they exceed the budget."""
        widest = max(max(1, self._program.relations[name].arity) for name in stratum.relations)
        taken = self.estimate(stratum, sizes(epoch, stratum))

        def watch(round_: int, facts: int) -> None:
            nonlocal taken
            observe(round_, facts)
            taken += facts * widest * VALUE_BYTES
            if taken > self.budget:
                raise PlaceTooSmall(f"about {taken:,} bytes after {round_} rounds, and the budget is {self.budget:,}")

        return watch

    # ------------------------------------------------------------------------------------------------- bringing

    def bring_rows(self, relation: str, rows: Rows, place: str) -> Rows:
        """The same rows at a place."""
        if rows.place == place:
            return rows
        return self.backends[place].receive(relation, rows.columns(), len(rows))

    def bring(self, relation: str, version: Version, place: str) -> Version:
        """The same version at a place."""
        if version.place == place:
            return version
        held = self._brought.get((relation, place))
        if held is not None and held[0] is version:
            return held[1]
        backend = self.backends[place]
        brought = backend.version(self.bring_rows(relation, version.rows(), place))
        self._brought[relation, place] = (version, brought)
        return brought

    def bring_change(self, relation: str, change: Change, place: str) -> Change:
        return Change(*(self.bring_rows(relation, rows, place) for rows in (change.plus, change.minus)))

    # ------------------------------------------------------------------------------------ an epoch and its strata

    def at(self, epoch: Work, place: str, stratum: Stratum, on_round: Callable[[int, int], None]) -> Work:
        """What an epoch has for one stratum, at a place: all that the stratum reads is brought there."""
        own = set(stratum.relations)
        reads = set().union(own, *(relations_of(r.body) for r in (*stratum.nonrecursive, *stratum.recursive)))
        below = [name for name in reads if name in epoch.new and name not in own]
        bring, bring_change = self.bring, self.bring_change
        given = epoch.explicit_changes
        return replace(
            epoch,
            backend=self.backends[place],
            plans=self.plans[place],
            old={name: bring(name, epoch.old[name], place) for name in reads},
            explicit={name: bring(name, epoch.explicit[name], place) for name in own},
            explicit_before={name: bring(name, epoch.explicit_before[name], place) for name in own},
            explicit_changes={name: bring_change(name, given[name], place) for name in own if name in given},
            on_round=on_round,
            new={name: bring(name, epoch.new[name], place) for name in below},
            changes={name: bring_change(name, epoch.changes[name], place) for name in below if name in epoch.changes},
        )


def take(epoch: Work, work: Work, outcome: Outcome) -> None:
    """What a stratum came to; indexes that it asked for are kept for the strata to come."""
    for mine, theirs in ((epoch.old, work.old), (epoch.new, work.new)):
        for name, version in theirs.items():
            if name in mine and mine[name].place == version.place:
                mine[name] = version
    epoch.new.update(outcome.versions)
    epoch.changes.update({name: change for name, change in outcome.changes.items() if change})


def sizes(epoch: Work, stratum: Stratum) -> dict[str, int]:
    """The sizes of what a stratum reads, as far as they are known."""
    found = {**epoch.old, **epoch.new, **{name: epoch.explicit[name] for name in stratum.relations}}
    return {name: len(version) for name, version in found.items()}
