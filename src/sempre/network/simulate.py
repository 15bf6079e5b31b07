"""Carries messages between nodes in memory: in rounds, or in whatever order an adversary likes.

    network = make_network(checked)
    network.run([Burst(insert=[("link", ("a", "b"))])], Rounds())      # or Adversary(seed=7)
    network.facts("reach")

An event is a message, or the base facts that change at one node. A schedule decides which events go to which node next;
what it decided is the trace, and `Replay(trace)` does the same again. A run ends when no event is left.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from sempre.data import dataclass
from sempre.diagnostics import DataError, Diagnostic
from sempre.network import wire
from sempre.network.node import Address, Fact, Message, Node, same_address
from sempre.network.node_tables import Row
from sempre.network.report import BurstReport

DEFAULT_LIMIT = 50_000_000


@dataclass(frozen=True, slots=True)
class Burst:
    """Changes of base facts that happen at once, wherever the facts live."""

    insert: Sequence[Fact] = ()
    delete: Sequence[Fact] = ()


@dataclass(frozen=True, slots=True)
class NodeChange:
    """The part of a burst that concerns one node."""

    target: Address
    insert: tuple[Fact, ...]
    delete: tuple[Fact, ...]


Event = Message | NodeChange
Trace = list[list[int]]


class Schedule(Protocol):
    """Decides what is delivered next."""

    def next(self, pending: Mapping[int, Event]) -> list[int]:
        """The numbers of the events to deliver now, each of them pending; at least one."""

    def early(self) -> bool:
        """Whether the next burst comes now, before this one has settled."""


class Rounds:
    """Everything that is pending is delivered at once; what that sends is delivered in the next round."""

    def next(self, pending: Mapping[int, Event]) -> list[int]:
        return list(pending)

    def early(self) -> bool:
        return False


class Adversary:
    """Reorders, delays, starves nodes and lets bursts overlap; the same seed does the same."""

    def __init__(self, seed: int, overlap: float = 0.05) -> None:
        self.random = random.Random(seed)
        self.overlap = overlap
        self.mood = "any"
        self.steps = 0
        self.starved: Address = None

    def next(self, pending: Mapping[int, Event]) -> list[int]:
        if self.steps <= 0:
            self.mood = self.random.choice(("any", "newest", "oldest", "starve", "crowd"))
            self.steps = self.random.randint(1, 30)
            self.starved = pending[self.random.choice(list(pending))].target
        self.steps -= 1
        numbers = list(pending)
        if self.mood == "starve":
            numbers = [
                number for number in numbers if not same_address(pending[number].target, self.starved)
            ] or numbers
        if self.mood == "newest":
            return [numbers[-1]]
        if self.mood == "oldest":
            return [numbers[0]]
        picked = self.random.choice(numbers)
        if self.mood != "crowd":
            return [picked]
        together = [number for number in numbers if same_address(pending[number].target, pending[picked].target)]
        self.random.shuffle(together)
        return together[: self.random.randint(1, len(together))]

    def early(self) -> bool:
        return self.random.random() < self.overlap


class Replay:
    """Does what a trace says."""

    def __init__(self, trace: Trace) -> None:
        self.steps = iter(trace)
        self.following = next(self.steps, None)

    def next(self, pending: Mapping[int, Event]) -> list[int]:
        step, self.following = self.following, next(self.steps, None)
        if not step or any(number not in pending for number in step):
            message = "the trace does not belong to this run"
            raise DataError(
                Diagnostic("E532", message, hint="Replay it on the program, facts and changes it was made of.")
            )
        return step

    def early(self) -> bool:
        if self.following == []:
            self.following = next(self.steps, None)
            return True
        return False


def _once(message: Message) -> int:
    return 1


@dataclass(slots=True)
class Simulation:
    """All nodes of a run and the events between them. `make` gives the node at an address.

    `copies` says how often a message is delivered, for nodes that tolerate duplicates.
    """

    make: Callable[[Address], Node]
    location: Mapping[str, int]
    limit: int = DEFAULT_LIMIT
    copies: Callable[[Message], int] = _once
    nodes: dict[Address, Node] = field(default_factory=dict)
    pending: dict[int, Event] = field(default_factory=dict)
    trace: Trace = field(default_factory=list)
    reports: list[BurstReport] = field(default_factory=list)
    events: int = 0
    delivered: int = 0

    def node(self, address: Address) -> Node:
        found = self.nodes.get(address)
        if found is None:
            found = self.nodes[address] = self.make(address)
        return found

    def facts(self, relation: str) -> Iterator[Row]:
        """The facts of a relation at all nodes."""
        return (row for node in self.nodes.values() for row in node.facts(relation))

    # ----------------------------------------------------------------------------------------------- running

    def run(self, bursts: Iterable[Burst], schedule: Schedule) -> list[BurstReport]:
        """Apply the bursts, in order, until everything has settled; one report for each."""
        waiting = list(bursts)
        first = len(self.reports)
        # Nodes hold millions of tuples and no cycles: looking for cycles among them takes a third of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            while waiting:
                self._settle(waiting, schedule)
        finally:
            if collecting:
                gc.enable()
        self._check_settled()
        return self.reports[first:]

    def _settle(self, waiting: list[Burst], schedule: Schedule) -> None:
        """Begin the next burst and deliver until nothing is left; the schedule may begin others meanwhile."""
        report = self._begin(waiting.pop(0))
        while self.pending:
            self._step(schedule, report)
            if waiting and self.pending and schedule.early():
                self.trace.append([])
                report = self._begin(waiting.pop(0))
        report.finish()

    def _begin(self, burst: Burst) -> BurstReport:
        """Put the changes of a burst among the events."""
        if self.reports:
            self.reports[-1].finish()
        report = BurstReport(len(self.reports))
        self.reports.append(report)
        parts: dict[Address, tuple[list[Fact], list[Fact]]] = {}
        for side, facts in enumerate((burst.insert, burst.delete)):
            for name, row in facts:
                parts.setdefault(row[self.location[name]], ([], []))[side].append((name, row))
        for address, (insert, delete) in parts.items():
            self._add(NodeChange(address, tuple(insert), tuple(delete)))
        report.changed = sum(len(insert) + len(delete) for insert, delete in parts.values())
        return report

    def _add(self, event: Event) -> None:
        self.pending[self.events] = event
        self.events += 1

    def _step(self, schedule: Schedule, report: BurstReport) -> None:
        """Deliver what the schedule picks, grouped by node."""
        step: list[int] = []
        groups: dict[Address, list[Event]] = {}
        for picked in schedule.next(self.pending):
            if picked not in self.pending:
                continue  # it went in place of a later change at its node
            number = self._first_change(picked)
            event = self.pending.pop(number)
            groups.setdefault(event.target, []).append(event)
            step.append(number)
        self.trace.append(step)
        report.tick()
        for address, events in groups.items():
            for message in self._deliver(self.node(address), events):
                for _ in range(self.copies(message)):
                    self._add(message)
                report.send(message, wire.message_size(message))
        self.delivered += len(step)
        if self.delivered > self.limit:
            hint = "Raise --limit if the network is merely large; a program without end never settles."
            raise DataError(Diagnostic("E531", f"not settled after {self.delivered:,} messages", hint=hint))

    def _first_change(self, picked: int) -> int:
        """The event `picked`; for a change, the oldest one at that node: a node sees its own facts change in order."""
        event = self.pending[picked]
        if not isinstance(event, NodeChange):
            return picked
        others = (number for number, other in self.pending.items() if isinstance(other, NodeChange))
        return next(number for number in others if same_address(self.pending[number].target, event.target))

    def _deliver(self, node: Node, events: list[Event]) -> list[Message]:
        out: list[Message] = []
        mail: list[Message] = []
        for event in events:
            if isinstance(event, NodeChange):
                out += node.change(event.insert, event.delete)
            else:
                mail.append(event)
        if mail:
            out += node.receive(mail)
        return out

    def _check_settled(self) -> None:
        stuck = sum(node.waiting() for node in self.nodes.values())
        assert not stuck, f"{stuck} deletions wait for facts that never came"
