"""Every order in which messages can be delivered, for small cases.

Runs are repeated from the start for every order. Two deliveries to different nodes that were both possible give the
same state in either order, so of such neighbors only the one in the order of their numbers is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sempre.network.simulate import Burst, Event, Simulation


class TooMany(Exception):
    """There are more orders than the caller wants to see."""


class _Guided:
    """Follows a prefix of choices, then always takes the first; remembers what could have been chosen."""

    def __init__(self, prefix: list[int]) -> None:
        self.prefix = prefix
        self.taken: list[int] = []
        self.options: list[list[int]] = []
        self.before: dict[int, object] = {}  # what was pending one step ago, and for which node

    def next(self, pending: Mapping[int, Event]) -> list[int]:
        options = [number for number, event in pending.items() if self.is_needed(number, event.target)]
        at = len(self.taken)
        # A run whose every continuation is covered by another order still has to end.
        choice = self.prefix[at] if at < len(self.prefix) else (options or list(pending))[0]
        self.options.append(options)
        self.taken.append(choice)
        self.before = {number: event.target for number, event in pending.items()}
        return [choice]

    def is_needed(self, number: int, target: object) -> bool:
        """Whether this is not the swap of an order that is tried anyway."""
        if not self.taken or number not in self.before:
            return True
        last = self.taken[-1]
        return number > last or self.before[last] == target

    def early(self) -> bool:
        return False


def every_order(make: Callable[[], Simulation], bursts: list[Burst], most: int = 20_000) -> Iterator[Simulation]:
    """The settled network of every order; all bursts but the first are there from the start, in the order of a node."""
    stack: list[list[int]] = [[]]
    runs = 0
    while stack:
        prefix = stack.pop()
        runs += 1
        if runs > most:
            raise TooMany
        network, schedule = make(), _Guided(prefix)
        for burst in bursts[:-1]:
            network._begin(burst)
        network.run([bursts[-1]], schedule)
        for at in range(len(prefix), len(schedule.taken)):
            others = [number for number in schedule.options[at] if number != schedule.taken[at]]
            stack += [[*schedule.taken[:at], other] for other in others]
        yield network
