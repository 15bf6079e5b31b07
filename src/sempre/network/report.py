"""What a run sent: messages, updates and bytes, per burst, per node and over time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import field
from typing import Any

from sempre.data import dataclass
from sempre.network.node import Address, Message


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

    `steps` counts deliveries: in rounds, how many rounds it took. `timeline` has the messages sent in each.
    """

    number: int
    changed: int = 0
    messages: int = 0
    updates: int = 0
    bytes: int = 0
    steps: int = 0
    seconds: float = 0.0
    nodes: dict[Address, Traffic] = field(default_factory=dict)
    timeline: Counter[int] = field(default_factory=Counter)
    started: float = field(default_factory=time.perf_counter)

    def tick(self) -> None:
        self.steps += 1

    def send(self, message: Message, size: int) -> None:
        self.messages += 1
        self.updates += len(message.updates)
        self.bytes += size
        self.timeline[self.steps] += 1
        sender = self.nodes.setdefault(message.source, Traffic())
        sender.messages += 1
        sender.updates += len(message.updates)
        sender.bytes += size
        self.nodes.setdefault(message.target, Traffic()).received += 1

    def finish(self) -> None:
        if not self.seconds:
            self.seconds = time.perf_counter() - self.started

    def to_json(self) -> dict[str, Any]:
        """The report as plain data."""
        nodes = {
            str(address): {
                "messages": traffic.messages,
                "updates": traffic.updates,
                "bytes": traffic.bytes,
                "received": traffic.received,
            }
            for address, traffic in self.nodes.items()
        }
        return {
            "burst": self.number,
            "changed": self.changed,
            "messages": self.messages,
            "updates": self.updates,
            "bytes": self.bytes,
            "steps": self.steps,
            "seconds": round(self.seconds, 6),
            "nodes": nodes,
            "timeline": [self.timeline[step] for step in range(1, self.steps + 1)],
        }
