"""A run of active rules on workers, from nothing: the driver's side.

Workers are fed and left alone. The driver asks when they rest. If there is work beyond the horizon, it is moved on, by
ever larger steps; with `step` 1 they go in step, and this is the synchronous variation.

Reference: [Wolfson91] sections 6 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sempre.active.gathering import chain_of, given_parts, input_parts, whole
from sempre.active.shard import FLIPS, Part
from sempre.active.sharding import Sharding, sharded
from sempre.active.timeline import AllGiven, Timeline
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.plan.backend import Rows
from sempre.workers.crew import Crew, WorkersLost
from sempre.workers.framing import Column

# How far workers may run ahead at first.
FIRST_HORIZON = 64


@dataclass(frozen=True, slots=True)
class Pace:
    """How far workers run: up to `first`, then by `factor` times as many cycles each time, and one at least."""

    first: int = FIRST_HORIZON
    factor: float = 2.0

    def after(self, horizon: int) -> int:
        """The next horizon."""
        return max(horizon + 1, int(horizon * self.factor))


ASYNCHRONOUS = Pace()
# All workers do a cycle before any does the next.
SYNCHRONOUS = Pace(1, 1.0)


class LeftToDriver(Exception):
    """Workers did not come to an end, or failed at a cycle: the run is to be repeated where it can be told why."""


class HiredRun:
    """One run on workers."""

    def __init__(self, crew: Crew, backend: LocalBackend, limit: int, pace: Pace = ASYNCHRONOUS) -> None:
        self._crew = crew
        self._backend = backend
        self._limit = limit
        self._pace = pace
        self._sharding: Sharding = sharded(backend.program, len(crew))
        self.last_flip = 0
        # How often all workers were asked whether they rest.
        self.asked = 0

    def run(self, facts: Mapping[str, Rows], given: AllGiven) -> None:
        """From the input to the end; raises `LeftToDriver` if there is none that workers can find."""
        crew, sharding = self._crew, self._sharding
        for name, rows in facts.items():
            if len(rows):
                self._feed(list(input_parts(sharding, name, list(rows.columns()), len(rows))))
        for to, part in given_parts(sharding, given):
            self._feed([(to, part)])
        horizon = min(self._pace.first, self._limit)
        while True:
            crew.tell("go", [horizon])
            rest = self._rest()
            if any(each["stuck"] for each in rest):
                raise LeftToDriver
            self.last_flip = max(int(each["last"]) for each in rest)
            if not any(each["busy"] for each in rest):
                return
            if horizon >= self._limit:
                raise LeftToDriver
            horizon = min(self._pace.after(horizon), self._limit)

    def _feed(self, parts: Sequence[tuple[int, Part]]) -> None:
        """Parts of one cycle: those that say the same of one relation, for different workers, go at once."""
        groups: dict[tuple[int, str, str], dict[int, list[Column]]] = {}
        for to, part in parts:
            size = part.columns[0].size if part.columns else max(1, part.numbers.size)
            numbers = np.ones(size, np.int64) if part.what == FLIPS else part.numbers
            groups.setdefault((part.at, part.name, part.what), {})[to] = [*part.columns, numbers]
        for (at, name, what), by_worker in groups.items():
            columns = [by_worker.get(worker, []) for worker in range(len(self._crew))]
            self._crew.tell("feed", [at, name, what], columns=columns)

    def _rest(self) -> list[dict[str, Any]]:
        """What workers say when all of them rest and nothing is under way."""
        while True:
            self.asked += 1
            found = [content for content, _ in self._crew.ask("rest")]
            if all(
                one["put"][other] == found[other]["got"][me]
                for me, one in enumerate(found)
                for other in range(len(found))
            ):
                return found

    def facts(self, name: str) -> Rows:
        """The facts of a relation at the end."""
        answers = self._crew.ask("facts", [name])
        size = sum(int(content) for content, _ in answers)
        if not size:
            return self._backend.no_rows(name)
        columns = [np.concatenate(each) for each in zip(*(columns for _, columns in answers), strict=True)]
        self._backend.fit({name: columns})
        return self._backend.rows(name, columns, size)

    def timeline(self, given: AllGiven) -> Timeline:
        """The whole run."""
        chains = {}
        for name in self._sharding.relations:
            chains[name] = chain_of(self._backend, name, [columns for _, columns in self._crew.ask("chain", [name])])
        return whole(chains, self.last_flip, given)


def on_workers(
    hire: Callable[[], Crew],
    backend: LocalBackend,
    facts: Mapping[str, Rows],
    given: AllGiven,
    limit: int,
    pace: Pace = ASYNCHRONOUS,
) -> Timeline:
    """A run on workers that are hired for it; once more on others if some are lost."""
    for is_last in (False, True):
        crew = hire()
        try:
            run = HiredRun(crew, backend, limit, pace)
            run.run(facts, given)
            return run.timeline(given)
        except WorkersLost:
            if is_last:
                raise
        finally:
            crew.close()
    raise AssertionError("the second time either returns or raises")
