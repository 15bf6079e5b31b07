"""Where strata are evaluated: in the driver's kernel while they fit its memory, on workers while they fit theirs, as
DataFrames beyond.

The choice is made per stratum (`maintain/decide.py`), before it starts, from the sizes of what it reads. When that was
too little, the stratum is given up and started again on the larger place. What a stratum reads is brought to where it
runs; what it derives stays there.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from sempre.analysis.model import CheckedProgram, Stratum
from sempre.data import dataclass
from sempre.maintain.decide import (
    RECOMPUTE,
    VALUE_BYTES,
    ChangeSize,
    Decision,
    OnePass,
    StratumSizes,
    bytes_of,
    needed_bytes,
    placed,
)
from sempre.maintain.expected import Expected, PlaceCosts
from sempre.maintain.planning import Plans
from sempre.maintain.strategy import Change, Outcome, Work
from sempre.plan.backend import CLUSTER, DRIVER, WORKERS, Backend, Rows, Version
from sempre.plan.ops import relations_of
from sempre.rewrites.successors import shown

logger = logging.getLogger("sempre.places")

# The share of the machine's memory that strata may take in the driver unless `memory` says otherwise.
MEMORY_SHARE = 0.5


class PassCloser(Protocol):
    """Closes whole strata at once, where that can be done, instead of by rounds of DataFrames."""

    def one_pass(self, program: CheckedProgram, stratum: Stratum, sizes: StratumSizes) -> OnePass | None:
        """The pass that closes a stratum, if there is one."""
        ...

    def close(self, work: Work, stratum: Stratum, one_pass: Any) -> Outcome:
        """Make a pass that was found."""
        ...


class Follower(Protocol):
    """Follows a small change of a stratum on the cluster without its jobs."""

    def is_worth_trying(self, stratum: Stratum, change: ChangeSize) -> bool:
        """Whether nothing is known that speaks against it."""
        ...

    def follow(self, work: Work, stratum: Stratum, decision: Decision) -> Outcome:
        """The stratum after the change; raises `Abandoned` where that turns out to be for jobs."""
        ...

    def ran(self, stratum: Stratum, seconds: float) -> None:
        """A stratum was evaluated from scratch, by jobs, in so many seconds."""
        ...


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
        closer: PassCloser | None = None,
        follower: Follower | None = None,
        workers_budget: int = 0,
        no_workers: str = "",
    ) -> None:
        self._program = program
        self.backends = backends
        self.limits = next(iter(backends.values())).limits
        self.budget = budget or int(machine_memory() * self.limits.memory_share)
        self.closer = closer
        self.follower = follower
        # What workers have room for, for strata that need more than the budget; or why there are none.
        self.workers_budget = workers_budget if WORKERS in backends else 0
        self.no_workers = no_workers
        only = next(iter(backends)) if len(backends) == 1 else None
        self._fixed = only or (wanted if wanted in backends else None)
        self.main = self._fixed or DRIVER
        self.plans = {name: Plans(program, backend) for name, backend in backends.items()}
        self.costs = PlaceCosts(self.limits.similar_share)
        # Per relation and place, the versions before and after the last change that were brought there: unchanged ones
        # are not brought again, and of changed ones the change alone.
        self._brought: dict[tuple[str, str], tuple[tuple[Version, Version], ...]] = {}

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

    def lose(self, place: str) -> None:
        """A place has lost whatever it had, plans too."""
        self._brought = {key: pairs for key, pairs in self._brought.items() if key[1] != place}
        self.plans[place] = Plans(self._program, self.backends[place])

    @property
    def fixed(self) -> str | None:
        """Where everything has to be, if it has to be at one place."""
        return self._fixed

    def home(self, relation: str, old: Version, coming: Rows | None, going: Rows | None) -> Choice:
        """Where explicit facts are kept: on the cluster once some of them are there, until little is left of them."""
        if self._fixed is not None:  # rows come to the driver, and from there to workers where rules read them
            is_brought = self._fixed == WORKERS and DRIVER in self.backends
            return Choice(DRIVER if is_brought else self._fixed, "")
        if all(rows is None or rows.place == DRIVER for rows in (old, coming, going)):
            return Choice(DRIVER, "")
        arriving, leaving = (0 if rows is None else len(rows) for rows in (coming, going))
        needed = bytes_of(self._program.relations[relation], len(old) + max(arriving, leaving))
        return Choice(*placed(relation, needed, self.budget, CLUSTER, self.limits))

    def room(self, place: str) -> int | None:
        """The bytes that a stratum may take at a place before it has to go to a larger one; None without limit."""
        if self._fixed is not None or place == CLUSTER:
            return None
        return self.budget if place == DRIVER else self.workers_budget

    def expected(
        self, stratum: Stratum, sizes: EpochSizes, decision: Decision, home: str | None
    ) -> tuple[Expected, ...]:
        """What each place is expected to cost a stratum, where there is a choice."""
        if self._fixed is not None or len(self.backends) < 2:
            return ()
        rooms = {place: self.room(place) for place in self.backends}
        needed = needed_bytes(self._program, stratum, sizes.rows)
        return self.costs.expected(stratum.index, needed, rooms, home, decision.change)

    def ran(self, stratum: Stratum, expected: Expected, decision: Decision, how: str, seconds: float) -> None:
        """What a stratum has cost where it was decided to run; `how` it was brought up to date."""
        if (decision.update or decision.followed) and how != RECOMPUTE:
            self.costs.followed(stratum.index, decision.place, decision.change, seconds)
        else:
            self.costs.ran(stratum.index, decision.place, expected.bytes, seconds)

    def guard(
        self, stratum: Stratum, epoch: Work, observe: Callable[[int, int], None], room: int
    ) -> Callable[[int, int], None]:
        """Watches the rounds of a stratum; raises `PlaceTooSmall` when they exceed the room there is."""
        widest = max(max(1, self._program.relations[name].arity) for name in stratum.relations)
        taken = needed_bytes(self._program, stratum, EpochSizes(epoch, stratum).rows)

        def watch(round_: int, facts: int) -> None:
            nonlocal taken
            observe(round_, facts)
            taken += facts * widest * VALUE_BYTES
            if taken > room:
                raise PlaceTooSmall(f"about {taken:,} bytes after {round_} rounds, and the budget is {room:,}")

        return watch

    def warned(self, stratum: Stratum, epoch: Work, observe: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """Warns, once, of a stratum that takes many rounds on the cluster, where each is several jobs."""
        began, most = time.perf_counter(), self.limits.warned_rounds

        def watch(round_: int, facts: int) -> None:
            observe(round_, facts)
            if round_ == most:
                each = (time.perf_counter() - began) / round_
                names = shown(stratum.relations)
                said = f"{names} has taken {round_} rounds on the cluster, {each:.2f} s each, and goes on"
                epoch.notes.append(said)
                logger.warning("%s; %s", said, self._instead(), extra={"relations": names, "rounds": round_})

        return watch

    def _instead(self) -> str:
        """What to do about many rounds."""
        wider = "rules that double the way, as p(x, z) :- p(x, y), p(y, z), take fewer rounds"
        if self._fixed == CLUSTER:
            return f'place="auto" has no rounds of jobs while it fits this process or tasks; {wider}'
        return f"more than memory={self.budget >> 20}M, or workers=N, may do without jobs; {wider}"

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
        held = self._held(relation, version, place)
        if held is not None:
            return held
        backend = self.backends[place]
        brought = backend.version(self.bring_rows(relation, version.rows(), place))
        self._brought[relation, place] = ((version, brought),)
        return brought

    def _held(self, relation: str, version: Version, place: str) -> Version | None:
        """The same version at a place, if it was brought there before."""
        pairs = self._brought.get((relation, place), ())
        return next((brought for given, brought in pairs if given is version), None)

    def bring_new(self, relation: str, epoch: Work, place: str) -> Version:
        """What an epoch made of a relation, at a place: what was brought of it before, with the change."""
        old, new, change = epoch.old[relation], epoch.new[relation], epoch.changes.get(relation)
        before, after = (self._held(relation, version, place) for version in (old, new))
        if new.place == place or change is None or before is None or after is not None:
            return self.bring(relation, new, place)
        moved = self.bring_change(relation, change, place)
        brought = before.removing(moved.minus).adding(moved.plus)
        self._brought[relation, place] = ((old, before), (new, brought))
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
            new={name: self.bring_new(name, epoch, place) for name in below},
            changes={name: bring_change(name, epoch.changes[name], place) for name in below if name in epoch.changes},
        )

    def take(self, epoch: Work, work: Work, outcome: Outcome) -> None:
        """What a stratum came to; indexes that it asked for are kept for the strata and the epochs to come."""
        for mine, theirs in ((epoch.old, work.old), (epoch.new, work.new)):
            for name, version in theirs.items():
                if name in mine and mine[name].place == version.place:
                    mine[name] = version
                elif name in mine:
                    self._keep_brought(name, mine[name], version)
        epoch.new.update(outcome.versions)
        epoch.changes.update({name: change for name, change in outcome.changes.items() if change})

    def _keep_brought(self, relation: str, version: Version, indexed: Version) -> None:
        """What was brought of a version has been indexed."""
        pairs = self._brought.get((relation, indexed.place), ())
        if pairs:
            kept = tuple((given, indexed if given is version else brought) for given, brought in pairs)
            self._brought[relation, indexed.place] = kept


class EpochSizes:
    """How large what a stratum reads is in an epoch, found out when it is asked for."""

    def __init__(self, epoch: Work, stratum: Stratum) -> None:
        self._epoch = epoch
        self._stratum = stratum

    def rows(self, relation: str) -> int:
        epoch = self._epoch
        if relation in self._stratum.relations:
            return len(epoch.explicit[relation])
        return len(epoch.new[relation] if relation in epoch.new else epoch.old[relation])

    def before(self, relation: str) -> int:
        return len(self._epoch.old[relation])

    def change(self) -> ChangeSize:
        epoch, own = self._epoch, self._stratum.relations
        rules = (*self._stratum.nonrecursive, *self._stratum.recursive)
        names = set().union(*(relations_of(rule.body) for rule in rules)) - set(own)
        changes = [epoch.changes[name] for name in names if name in epoch.changes]
        changes += [epoch.explicit_changes[name] for name in own if name in epoch.explicit_changes]
        plus, minus = sum(len(change.plus) for change in changes), sum(len(change.minus) for change in changes)
        read = sum(len(epoch.old[name]) for name in names) + sum(len(epoch.explicit[name]) for name in own)
        return ChangeSize(plus + minus, read, "mixed" if plus and minus else "delete" if minus else "insert")
