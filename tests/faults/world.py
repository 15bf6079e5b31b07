"""What the fault campaign writes: a program whose state after every epoch is known without sempre."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sempre
from sempre.limits import Limits

TEXT = """
.decl edge(x: symbol, y: symbol)
.decl at(t: number)
.decl reach(x: symbol, y: symbol)
.decl alone(x: symbol)
.decl next(x: number, y: number)
.decl hops(x: symbol, n: number)
edge("n0", "n1").
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
alone(x) :- edge(x, _), !reach(x, x).
next(x, y) :- at(x), at(y), x < y, !(at(z), x < z, z < y).
hops("n0", 0).
hops(y, min(n + 1)) :- hops(x, n), edge(x, y).
"""
STRATEGIES = ("auto", "auto", "dredc", "bfc", "counting", "elastic", "ranked", "recompute")
# Small pieces, so that segments and merges happen all the time.
SMALL_PIECES = Limits(shared_rows=12, merged_pieces=3)
MODULES = ("auto", "auto", "off", "tc")
Rows = frozenset[tuple[Any, ...]]


@dataclass(frozen=True)
class State:
    """The explicit facts after an epoch."""

    edges: Rows
    times: Rows

    def facts(self) -> dict[str, Rows]:
        """All relations."""
        reach = _closure(self.edges)
        times = sorted(time for (time,) in self.times)
        return {
            "edge": self.edges,
            "at": self.times,
            "reach": reach,
            "alone": frozenset((x,) for x, _ in self.edges if (x, x) not in reach),
            "next": frozenset(pairwise(times)),
            "hops": _hops(self.edges),
        }


@dataclass(frozen=True)
class Change:
    """The insertions and deletions of an epoch."""

    edges: list[tuple[str, str]]
    times: list[tuple[int]]
    old_edges: list[tuple[str, str]]
    old_times: list[tuple[int]]

    def arguments(self) -> dict[str, Any]:
        """As `apply` takes them."""
        insert = {"edge": self.edges, "at": self.times}
        return {"insert": insert, "delete": {"edge": self.old_edges, "at": self.old_times}}

    def script(self) -> str:
        """As a change script has them; what is inserted comes last, and wins."""
        gone = [f'-edge("{x}","{y}").' for x, y in self.old_edges] + [f"-at({t})." for (t,) in self.old_times]
        come = [f'+edge("{x}","{y}").' for x, y in self.edges] + [f"+at({t})." for (t,) in self.times]
        return "\n".join([*gone, *come, "commit.", ""])


class World:
    """The epochs of one store. All of it follows from the seed, so that any process can say what must be there."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._states = [State(frozenset({("n0", "n1")}), frozenset())]

    def change(self, epoch: int) -> Change:
        """The change of an epoch from 1; it has new symbols and wider numbers, and drops those of some epochs ago."""
        rng = random.Random(self.seed * 1_000_003 + epoch)
        nodes = [f"n{number}" for number in range(6)]
        edges = [(rng.choice(nodes), rng.choice(nodes)) for _ in range(rng.randint(1, 5))]
        edges.append((rng.choice(nodes), f"e{epoch}"))
        old = [(rng.choice(nodes), rng.choice(nodes)) for _ in range(rng.randint(0, 6))]
        old += [(node, f"e{epoch - 3}") for node in nodes]
        times = [(rng.randrange(40),), (rng.randrange(10) << rng.randrange(40),)]
        return Change(edges, times, old, [(rng.randrange(40),) for _ in range(8)] + self._wide_times(epoch - 4))

    def _wide_times(self, epoch: int) -> list[tuple[int]]:
        return self.change(epoch).times[1:] if epoch > 0 else []

    def state(self, epoch: int) -> State:
        while len(self._states) <= epoch:
            change, last = self.change(len(self._states)), self._states[-1]
            self._states.append(
                State(
                    (last.edges - set(change.old_edges)) | set(change.edges),
                    (last.times - set(change.old_times)) | set(change.times),
                )
            )
        return self._states[epoch]

    def check(self, db: sempre.Database, epoch: int, where: str) -> None:
        """Raise unless a database is what it must be after an epoch."""
        assert db.epoch == epoch, f"{where}: epoch {db.epoch} instead of {epoch}"
        for name, rows in self.state(epoch).facts().items():
            found = list(db[name])
            wrong = set(found) ^ rows
            assert not wrong, f"{where}, epoch {epoch}: {name} has {wrong - rows} and lacks {wrong & rows}"
            assert len(found) == len(rows), f"{where}, epoch {epoch}: {name} has a row twice"


def _closure(edges: Iterable[tuple[Any, ...]]) -> Rows:
    following: dict[Any, set[Any]] = {}
    for x, y in edges:
        following.setdefault(x, set()).add(y)
    found = set()
    for start in following:
        left = [start]
        while left:
            for y in following.get(left.pop(), ()):
                if (start, y) not in found:
                    found.add((start, y))
                    left.append(y)
    return frozenset(found)


def _hops(edges: Iterable[tuple[Any, ...]]) -> Rows:
    steps, level, number = {"n0": 0}, {"n0"}, 0
    while level:
        number += 1
        level = {y for x, y in edges if x in level} - steps.keys()
        steps |= dict.fromkeys(level, number)
    return frozenset(steps.items())
