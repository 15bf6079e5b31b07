"""Small changes of strata on the cluster, followed in the driver: what is tried before jobs are started.

The line: a change of few rows whose consequences are few is followed here, by lookups in files (`near.py`); everything
else is jobs. Nobody knows before how far a change goes, so a guard watches: it gives up when too much was read or too
many facts are affected, or when it has taken a good part of what a run from scratch takes. Then the jobs do it, and
changes of that kind are not tried again for a while.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from sempre.analysis.model import Stratum
from sempre.data import dataclass
from sempre.kernel.capacity import CapacityError
from sempre.kernel.trace import RowSet
from sempre.limits import Limits
from sempre.maintain.decide import ChangeSize, Decision
from sempre.maintain.planning import Plans
from sempre.maintain.registry import STRATEGIES
from sempre.maintain.strategy import Abandoned, Change, Outcome, Work
from sempre.plan.backend import Rows, Version, sealed
from sempre.plan.ops import relations_of
from sempre.spark.cluster.near import Near, NearBackend
from sempre.spark.cluster.spark_backend import SparkBackend
from sempre.spark.cluster.tables import Table, unsealed, unsealed_version


@dataclass(slots=True)
class GivenUp:
    """An update that was given up: of how many rows, and how often similar ones have not been tried since."""

    rows: int
    passed: int = 0


class Following:
    """Follows small changes where that can be done."""

    def __init__(self, backend: SparkBackend) -> None:
        self._backend = backend
        self._full: dict[int, float] = {}
        self._given_up: dict[tuple[int, str], GivenUp] = {}

    def ran(self, stratum: Stratum, seconds: float) -> None:
        """A stratum was evaluated from scratch, by jobs, in so many seconds."""
        self._full[stratum.index] = seconds

    def is_worth_trying(self, stratum: Stratum, change: ChangeSize) -> bool:
        """Whether a change like that has not been given up, or was so long ago, or with many more rows."""
        known = self._given_up.get((stratum.index, change.kind))
        if known is None or change.rows * self._backend.limits.retried_share <= known.rows:
            return True
        known.passed += 1
        return known.passed > self._backend.limits.retried_after

    def follow(self, work: Work, stratum: Stratum, decision: Decision) -> Outcome:
        """The stratum after a small change; raises `Abandoned` if that is for jobs."""
        change = decision.change
        assert change is not None
        near = NearBackend(work.program, self._backend.limits)
        guard = _FollowingGuard(work, self._backend.limits, self._full.get(stratum.index, 0.0))
        try:
            outcome = STRATEGIES[decision.strategy].update(self._near(work, stratum, near, guard), stratum, None)
        except (Abandoned, CapacityError) as reason:
            self._given_up[stratum.index, change.kind] = GivenUp(change.rows)
            raise Abandoned(str(reason)) from None
        finally:
            near.local.close()
        self._given_up.pop((stratum.index, change.kind), None)
        read, found = sum(near.read.values()), sum(near.found.values())
        why = (
            f"followed in the driver: {change.rows:,} rows ({change.kind}) affected {guard.affected:,} facts, "
            f"{found:,} rows looked up, {read:,} read from files"
        )
        return self._outcome(work, near, outcome, decision.strategy, why)

    def _near(self, work: Work, stratum: Stratum, near: NearBackend, guard: _FollowingGuard) -> Work:
        """The same epoch, over versions that stay where they are."""
        held: dict[int, Near] = {}

        def version(name: str, given: Version) -> Any:
            # What two names are the same version of is looked up once.
            found = held.get(id(given))
            if found is None:
                found = held[id(given)] = near.far(name, unsealed_version(given))
            return found

        def rows(name: str, given: Rows) -> RowSet:
            table = unsealed(given)
            return near.coder.rows(table.arrow(), table.kinds, table.arity)

        def change(name: str, given: Change) -> Change:
            return Change(rows(name, given.plus), rows(name, given.minus))

        rules = (*stratum.nonrecursive, *stratum.recursive)
        reads = set(stratum.relations).union(*(relations_of(rule.body) for rule in rules))
        near.watch(guard.look)
        backend = sealed(near)
        return replace(
            work,
            backend=backend,
            plans=Plans(work.program, backend),
            old={name: version(name, given) for name, given in work.old.items() if name in reads},
            new={name: version(name, given) for name, given in work.new.items() if name in reads},
            explicit={name: version(name, given) for name, given in work.explicit.items()},
            explicit_before={name: version(name, given) for name, given in work.explicit_before.items()},
            explicit_changes={name: change(name, given) for name, given in work.explicit_changes.items()},
            changes={name: change(name, given) for name, given in work.changes.items() if name in reads},
            on_round=guard,
            modules={},
        )

    def _outcome(self, work: Work, near: NearBackend, outcome: Outcome, how: str, why: str) -> Outcome:
        """What was found, on the cluster."""
        changes, versions = {}, {}
        for name, found in outcome.changes.items():
            plus, minus = (self._table(near, name, rows) for rows in (found.plus, found.minus))
            changes[name] = Change(plus, minus)
            versions[name] = work.old[name].removing(minus).adding(plus)
        return Outcome(versions, changes, None, outcome.rounds, how, why)

    def _table(self, near: NearBackend, name: str, rows: Rows) -> Table:
        assert isinstance(rows, RowSet)
        empty = unsealed(self._backend.empty(name).rows())
        if not len(rows):
            return empty
        return empty.store.held(near.coder.table(rows, empty.kinds, empty.arity), empty.kinds, empty.arity)


class _FollowingGuard:
    """Watches the affected part and the time; raises `Abandoned` when following a change stops being worth it."""

    def __init__(self, work: Work, limits: Limits, full_seconds: float) -> None:
        self._observe = work.on_round
        self._full_seconds = full_seconds
        self._most_seconds = max(limits.followed_share * full_seconds, limits.followed_moment)
        self._most_facts = limits.followed_facts
        self._started = time.perf_counter()
        self.affected = 0

    def __call__(self, round_: int, facts: int) -> None:
        self._observe(round_, facts)
        self.affected += facts
        if self.affected > self._most_facts:
            raise Abandoned(f"{self.affected:,} facts affected")
        self.look()

    def look(self, rest: float | None = None) -> None:
        """Raises when the time is up."""
        spent = time.perf_counter() - self._started
        if spent > self._most_seconds:
            raise Abandoned(f"{spent:.2f} s spent, and a run from scratch took {self._full_seconds:.2f} s")
