"""Shards in one process, and a scheduler that treats their messages as badly as it may."""

from __future__ import annotations

import random

from sempre.active.gathering import chain_of, input_parts, told_chain, whole
from sempre.active.shard import CycleShard, Message
from sempre.active.sharding import sharded
from sempre.active.timeline import AllGiven, Timeline
from sempre.backends.local import LocalBackend
from tests.chains import Subject
from tests.oracle.naive import Facts


class Scheduler:
    """Shards of a program, and the messages between them that were not delivered yet."""

    def __init__(self, subject: Subject, workers: int, rng: random.Random) -> None:
        self.subject = subject
        self.rng = rng
        self.sharding = sharded(subject.program, workers)
        self.shards = []
        for me in range(workers):
            backend = LocalBackend(self.sharding.program, 1)
            backend.values = subject.backend.values
            self.shards.append(CycleShard(self.sharding, me, backend))
        self.mail: list[tuple[int, Message]] = []

    def settle(self, horizon: int) -> None:
        """Steps and deliveries in any order, until there is nothing to do."""
        self.play(50_000, horizon)
        assert not self.mail, "it never comes to a rest"

    def play(self, most: int, horizon: int) -> None:
        """So many steps and deliveries in any order, or fewer if there is nothing to do."""
        for shard in self.shards:
            shard.horizon = horizon
        lazy = self.rng.random()  # how much rather shards work on than look at their mail
        idle: set[int] = set()
        for _ in range(most):
            awake = [me for me in range(len(self.shards)) if me not in idle]
            if self.mail and (not awake or self.rng.random() > lazy):
                idle.discard(self._deliver())
            elif awake:
                me = self.rng.choice(awake)
                sent = self.shards[me].step()
                if sent is None:
                    idle.add(me)
                else:
                    self.mail += sent.items()
            else:
                return

    def settle_in_step(self, horizon: int) -> None:
        """What workers do that wait for each other: who is behind goes first, and has its mail."""
        for shard in self.shards:
            shard.horizon = horizon
        idle: set[int] = set()
        while self.mail or len(idle) < len(self.shards):
            while self.mail:
                idle.discard(self._deliver())
            me = min((each for each in range(len(self.shards)) if each not in idle), key=self._order, default=None)
            sent = None if me is None else self.shards[me].step()
            if sent is not None:
                self.mail += sent.items()
            elif me is not None:
                idle.add(me)

    def _order(self, me: int) -> tuple[int, bool]:
        """Of two that have done as much, the one goes first that sends something before it needs the other."""
        return self.shards[me].done, self.shards[me].is_within

    def _deliver(self) -> int:
        """Any message, or some of its parts; who got it."""
        to, message = self.mail.pop(self.rng.randrange(len(self.mail)))
        if len(message) > 1 and self.rng.random() < 0.3:  # parts have no order either
            self.rng.shuffle(message)
            at = self.rng.randrange(1, len(message))
            self.mail.append((to, message[at:]))
            message = message[:at]
        self.shards[to].receive(message)
        return to


def encoded_input(scheduler: Scheduler, facts: Facts) -> list[tuple[int, Message]]:
    """The input as messages, each of one part."""
    found = []
    for name, rows in scheduler.subject.encoded(facts).items():
        if len(rows):
            for to, part in input_parts(scheduler.sharding, name, list(rows.columns()), len(rows)):
                found.append((to, [part]))
    return found


def timeline(scheduler: Scheduler, given: AllGiven) -> Timeline:
    """What the shards know, as one timeline."""
    chains = {}
    for name in scheduler.sharding.relations:
        portions = [told_chain(shard.chain(name)) for shard in scheduler.shards]
        chains[name] = chain_of(scheduler.subject.backend, name, portions)
    return whole(chains, max(shard.last_flip for shard in scheduler.shards), given)
