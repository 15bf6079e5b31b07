"""The original pipelined semi-naive evaluation, as [Nigam10] section 3 describes it, with its three failures.

Every node has a FIFO queue. An update is applied to the node's facts when it arrives, and its delta rules fire when it
is taken from the queue, against the facts as they are then: old and new facts are not told apart. Facts are sets.
"""

from __future__ import annotations

from collections import deque

Rule = tuple[str, tuple[str, ...]]
Update = tuple[int, str]


class OldPsn:
    """Propositional rules over facts that live at nodes: `where` says at which."""

    def __init__(self, rules: list[Rule], where: dict[str, int], facts: set[str]) -> None:
        self.rules = rules
        self.where = where
        self.facts = set(facts)
        self.queues: dict[int, deque[Update]] = {node: deque() for node in set(where.values())}
        self.sent: list[Update] = []

    def arrive(self, sign: int, fact: str) -> None:
        """An update reaches its node: it changes the facts at once, and waits in the queue."""
        (self.facts.add if sign > 0 else self.facts.discard)(fact)
        self.queues[self.where[fact]].append((sign, fact))
        self.sent.append((sign, fact))

    def dequeue(self, node: int) -> None:
        """Fire the delta rules of the first update in a queue."""
        sign, fact = self.queues[node].popleft()
        for head, body in self.rules:
            for pivot, atom in enumerate(body):
                if atom == fact and all(other in self.facts for at, other in enumerate(body) if at != pivot):
                    self.arrive(sign, head)

    def run(self, order: list[int], most: int = 1000) -> bool:
        """Dequeue as `order` says, then node by node; whether it came to an end."""
        for node in order:
            self.dequeue(node)
        while any(self.queues.values()):
            for node, queue in self.queues.items():
                if queue:
                    self.dequeue(node)
            if len(self.sent) > most:
                return False
        return True
