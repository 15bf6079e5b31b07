"""What the planner wants to know of relations whose rows are with several workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp

from sempre.limits import Limits
from sempre.plan.estimates import Matching
from sempre.workers.crew import Crew
from sempre.workers.handles import RemoteVersion

# Of the rows at home with one worker: how many they are, how many values some columns have, and how many of these rows
# share the value that a row has.
Share = tuple[int, float, float]
NOTHING = Matching(1.0, 1.0)
# Halvings of an interval that is at most as wide as there are workers.
STEPS = 24


class RemoteStatistics:
    """Sizes, and what lookups find, as the workers estimate them."""

    def __init__(
        self, crew: Crew, state: Mapping[str, RemoteVersion], homes: Mapping[str, int | None], limits: Limits
    ) -> None:
        # Rows cannot choose their lookups here: every order to choose from would be a copy.
        self.limits = replace(limits, expanding_rows=1 << 62)
        self._crew = crew
        self._state = state
        self._homes = homes
        self._known: dict[tuple[str, tuple[int, ...]], tuple[int, Matching]] = {}

    def size(self, relation: str) -> int:
        return len(self._state[relation])

    def distinct(self, relation: str, column: int) -> int:
        return self._asked(relation, (column,))[0]

    def crowd(self, relation: str, column: int) -> float:
        """None to speak of, as above."""
        return 0.0

    def matching(self, relation: str, columns: tuple[int, ...]) -> Matching:
        return self._asked(relation, columns)[1]

    def _asked(self, relation: str, columns: tuple[int, ...]) -> tuple[int, Matching]:
        found = self._known.get((relation, columns))
        if found is None:
            version = self._state[relation]
            answers: list[Share] = [content for content, _ in self._crew.ask("statistics", [version.number, columns])]
            home = self._homes[version.relation]
            found = self._known[relation, columns] = combined(answers, home is None or home in columns)
        return found


def combined(shares: Sequence[Share], placed: bool) -> tuple[int, Matching]:
    """How many values there are, and what a lookup finds; `placed` if no two workers have the same value."""
    rows = sum(size for size, _, _ in shares)
    if not rows:
        return 1, NOTHING
    values = sum(own for size, own, _ in shares if size)
    crowd = sum(size * own for size, _, own in shares) / rows
    if not placed:
        # Rows are with their workers as if at random. So those that share a value are with all of them.
        values = spread(values / len(shares), rows / len(shares), len(shares))
        crowd = 1.0 + (crowd - 1.0) * len(shares)
    crowd = max(1.0, crowd)
    return max(1, round(values)), Matching(min(max(1.0, rows / values), crowd), crowd)


def spread(seen: float, rows: float, workers: int) -> float:
    """How many values there are, if one worker sees so many in so many rows that it was given at random."""
    low, high = seen, seen * workers
    for _ in range(STEPS):
        middle = (low + high) / 2
        if middle * (1 - exp(-rows / middle)) < seen:
            low = middle
        else:
            high = middle
    return high
