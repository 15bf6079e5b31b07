"""Hosts in this process, whose frames an adversary delays, reorders and repeats; any of them may die."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import sempre
from sempre.network.carriers import Hello
from sempre.network.host import DRIVER, Host
from sempre.network.host_process import host_from
from sempre.workers.channel import Lost
from sempre.workers.framing import PREFIX, Frame, decode, encode, lengths
from tests.property.networks import Case


def sent_over(frame: Frame) -> Frame:
    """What is read from the bytes of a frame."""
    data = b"".join(bytes(buffer) for buffer in encode(frame, 1))
    header, _ = lengths(data[: PREFIX.size])
    return decode(data[PREFIX.size : PREFIX.size + header], data[PREFIX.size + header :])[0]


class AdversarialCarrier:
    """See `Carrier`; frames are real, and so is what makes and takes them. `dies` says after how many deliveries."""

    def __init__(self, hosts: list[Host], seed: int, repeats: float = 0.1, dies: int | None = None) -> None:
        self.size = len(hosts)
        self.hosts = hosts
        self.random = random.Random(seed)
        self.repeats = repeats
        self.dies = dies
        self.pending: list[tuple[int, int, Frame]] = []  # from, to, frame
        self.mood = "any"
        self.steps = 0
        self.deliveries = 0

    def put(self, host: int, frame: Frame) -> None:
        self._post(DRIVER, host, frame)

    def _post(self, source: int, target: int, frame: Frame) -> None:
        for _ in range(2 if self.random.random() < self.repeats else 1):
            self.pending.append((source, target, sent_over(frame)))

    def next(self) -> tuple[int, Frame]:
        while True:
            busy = [host for host in self.hosts if host.busy]
            assert busy or self.pending, "everybody waits for somebody"
            if busy and (not self.pending or self.random.random() < 0.5):
                host = self.random.choice(busy)
                host.work(self.random.choice((1, 1, 2, 100)))
                if self.random.random() < 0.1:
                    host.tell()
                self._gather(host)
                continue
            source, target, frame = self.pending.pop(self._picked())
            self.deliveries += 1
            if self.dies is not None and self.deliveries > self.dies:
                raise Lost("a host has gone")
            if target == DRIVER:
                return source, frame
            self.hosts[target].take(source, frame)
            if not self.hosts[target].busy:
                self.hosts[target].work(1)  # as `attend` does: it says when nothing is left to do
            self._gather(self.hosts[target])

    def _gather(self, host: Host) -> None:
        for target, frame in host.outgoing():
            self._post(host.me, target, frame)

    def _picked(self) -> int:
        if self.steps <= 0:
            self.mood = self.random.choice(("any", "newest", "oldest", "starve"))
            self.steps = self.random.randint(1, 30)
            self.starved = self.random.randint(DRIVER, self.size - 1)
        self.steps -= 1
        places = list(range(len(self.pending)))
        if self.mood == "starve":
            places = [at for at in places if self.starved not in self.pending[at][:2]] or places
        return {"newest": places[-1], "oldest": places[0]}.get(self.mood, self.random.choice(places))

    def close(self) -> None:
        self.hosts = []


def adversary(seed: int, **options: Any) -> Callable[[Hello, int], AdversarialCarrier]:
    """A function that makes hosts as a network wants them; `dies` is for the first ones only."""

    def hired(hello: Hello, count: int) -> AdversarialCarrier:
        first = host_from({**hello, "me": 0})
        hosts = [first, *(Host(me, first._make, first._relations, first._placement) for me in range(1, count))]
        carrier = AdversarialCarrier(hosts, seed, **options)
        options.pop("dies", None)
        return carrier

    return hired


@contextmanager
def carried_by(hired: Callable[..., Any]) -> Iterator[None]:
    """Networks without a session get their hosts from `hired`."""
    with patch("sempre.api.network.network_processes", hired):
        yield


def by_relation(facts: Any) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, row in facts:
        found.setdefault(name, []).append(row)
    return found


def differing(case: Case, network: sempre.Network, upto: int | None = None) -> str:
    """What differs between a network and the central result after some bursts; empty if nothing does."""
    found = []
    for name, rows in case.central(upto).items():
        have = list(network[name])
        if set(have) != rows or len(have) != len(rows):
            found.append(f"{name}: extra {set(have) - rows}, missing {rows - set(have)}")
    return "\n".join([case.text, str(case.bursts), *found]) if found else ""


def settle_in(case: Case, rng: random.Random, **options: Any) -> str:
    """Run a case on a network whose bursts overlap at random; what is wrong in the end, or at any time before."""
    with sempre.Network(case.text, workers=rng.randint(1, 4), **options) as network:
        for number, burst in enumerate(case.bursts, 1):
            network.send(insert=by_relation(burst.insert), delete=by_relation(burst.delete))
            if rng.random() < 0.5:
                network.settle()
                if wrong := differing(case, network, number):
                    return wrong
        network.settle()
        return differing(case, network)


def run_again(case: Case, network: sempre.Network, rng: random.Random) -> str:
    """The bursts of a case on a network that holds nothing, some begun before others have settled; what is wrong."""
    here: dict[Any, None] = {}
    for number, burst in enumerate(case.bursts, 1):
        network.send(insert=by_relation(burst.insert), delete=by_relation(burst.delete))
        for fact in burst.delete:
            here.pop(fact, None)
        here |= dict.fromkeys(burst.insert)
        if number == len(case.bursts) or rng.random() < 0.4:
            network.settle()
            if wrong := differing(case, network, number):
                return wrong
    network.apply(delete=by_relation(here))
    return differing(case, network, 0)
