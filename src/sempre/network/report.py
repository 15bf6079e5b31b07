"""What a run sent: messages, updates and bytes, per burst, per node and over time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from sempre.data import dataclass
from sempre.network.node import Address, Message
from sempre.network.plain import value_of


@dataclass(slots=True)
class Traffic:
    """What one node sent, and how many messages it received."""

    messages: int = 0
    updates: int = 0
    bytes: int = 0
    received: int = 0


@dataclass(slots=True)
class BurstReport:
    """What happened from one burst to the next, or until everything had settled.

    `steps` counts deliveries: in rounds, how many rounds it took. `timeline` has the messages sent in each. In tasks,
    which have no rounds, a step is what came about by that many messages, each of which caused the next; `crossed` of
    the messages went from one task to another, in `shipped` bytes.
    """

    number: int
    changed: int = 0
    messages: int = 0
    updates: int = 0
    bytes: int = 0
    steps: int = 0
    seconds: float = 0.0
    crossed: int = 0
    shipped: int = 0
    nodes: dict[Address, Traffic] = field(default_factory=dict)
    links: dict[tuple[Address, Address], Traffic] = field(default_factory=dict)
    timeline: Counter[int] = field(default_factory=Counter)
    started: float = field(default_factory=time.perf_counter)

    def tick(self) -> None:
        self.steps += 1

    def send(self, message: Message, size: int, step: int | None = None) -> None:
        """Count a message of so many bytes, sent in the present step or in another one."""
        self.messages += 1
        self.updates += len(message.updates)
        self.bytes += size
        self.timeline[self.steps if step is None else step] += 1
        source, target = message.source, message.target
        link = self.links.get((source, target))
        if link is None:
            link = self.links[source, target] = Traffic()
            self.nodes.setdefault(source, Traffic())
            self.nodes.setdefault(target, Traffic())
        for traffic in (self.nodes[source], link):
            traffic.messages += 1
            traffic.updates += len(message.updates)
            traffic.bytes += size
        self.nodes[target].received += 1

    def finish(self) -> None:
        if not self.seconds:
            self.seconds = time.perf_counter() - self.started

    # -------------------------------------------------------------------------------------- what tasks have counted

    def to_wire(self) -> dict[str, Any]:
        """What a task has counted, for the driver to add up."""
        return {
            "messages": self.messages,
            "updates": self.updates,
            "bytes": self.bytes,
            "steps": self.steps,
            "crossed": self.crossed,
            "shipped": self.shipped,
            "timeline": list(self.timeline.items()),
            "nodes": [[address, traffic.received] for address, traffic in self.nodes.items()],
            "links": [[*ends, link.messages, link.updates, link.bytes] for ends, link in self.links.items()],
        }

    def add(self, counted: Mapping[str, Any]) -> None:
        """Add what a task has counted."""
        for name in ("messages", "updates", "bytes", "crossed", "shipped"):
            setattr(self, name, getattr(self, name) + counted[name])
        self.steps = max(self.steps, counted["steps"])
        self.timeline.update(dict(counted["timeline"]))
        for plain, received in counted["nodes"]:
            self.nodes.setdefault(value_of(plain), Traffic()).received += received
        for source, target, messages, updates, size in counted["links"]:
            ends = value_of(source), value_of(target)
            for traffic in (self.nodes[ends[0]], self.links.setdefault(ends, Traffic())):
                traffic.messages += messages
                traffic.updates += updates
                traffic.bytes += size

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        nodes = {
            str(address): {**_sent(traffic), "received": traffic.received} for address, traffic in self.nodes.items()
        }
        links = [{"from": str(a), "to": str(b), **_sent(traffic)} for (a, b), traffic in self.links.items()]
        return {
            "burst": self.number,
            "changed": self.changed,
            "messages": self.messages,
            "updates": self.updates,
            "bytes": self.bytes,
            "steps": self.steps,
            "seconds": round(self.seconds, 6),
            "crossed": self.crossed,
            "shipped": self.shipped,
            "nodes": nodes,
            "links": links,
            "timeline": [self.timeline[step] for step in range(1, self.steps + 1)],
        }


def _sent(traffic: Traffic) -> dict[str, int]:
    return {"messages": traffic.messages, "updates": traffic.updates, "bytes": traffic.bytes}
