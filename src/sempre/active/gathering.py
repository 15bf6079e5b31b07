"""Input on its way to shards, and what they know at the end as one timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sempre.active.shard import ADDED, DELETED, FLIPS, Message, Part
from sempre.active.sharding import Sharding
from sempre.active.timeline import AllGiven, Timeline, retold
from sempre.backends.local import LocalBackend
from sempre.kernel import chains as kernel
from sempre.kernel.chains import StoredRecords
from sempre.kernel.trace import Trace
from sempre.plan.backend import Chain, Rows
from sempre.workers.framing import Column
from sempre.workers.placing import Workers, split

# The kinds of records, as a shard tells them one after the other.
KINDS = (kernel.POINTS, kernel.ADDED, kernel.DELETED)
NO_NUMBERS = np.empty(0, np.int64)


def input_parts(sharding: Sharding, name: str, columns: list[Column], size: int) -> Iterator[tuple[int, Part]]:
    """Facts that come or go in the input, for their homes and for all who hold them in fragments."""
    yield from _divided(0, name, FLIPS, columns, NO_NUMBERS, sharding.homes(name, columns, size), sharding.workers)
    for fragment in sharding.fragments.get(name, ()):
        holders = sharding.holders(fragment, columns, size)
        if holders is None:
            yield from ((to, Part(0, fragment.name, FLIPS, columns, NO_NUMBERS)) for to in range(sharding.workers))
        else:
            yield from _divided(0, fragment.name, FLIPS, columns, NO_NUMBERS, holders, sharding.workers)


def given_parts(sharding: Sharding, given: AllGiven) -> Iterator[tuple[int, Part]]:
    """What is given in later cycles, for the homes of the facts: it begins to count, and in the next cycle ends."""
    for at, facts in given.items():
        for name, each in facts.items():
            for rows, what in ((each.added, ADDED), (each.deleted, DELETED)):
                columns, size = list(rows.columns()), len(rows)
                homes = sharding.homes(name, columns, size)
                for clock_, number in ((at, 1), (at + 1, -1)):
                    numbers = np.full(size, number, np.int64)
                    yield from _divided(clock_, name, what, columns, numbers, homes, sharding.workers)


def _divided(
    at: int, name: str, what: str, columns: list[Column], numbers: Column, to: Workers, workers: int
) -> Iterator[tuple[int, Part]]:
    sent = split([*columns, numbers] if numbers.size else columns, to, workers)
    for worker, part in enumerate(sent):
        if (to == worker).any():
            rows, mine = (part[:-1], part[-1]) if numbers.size else (part, numbers)
            yield worker, Part(at, name, what, rows, mine)


def messages(parts: Iterable[tuple[int, Part]]) -> dict[int, Message]:
    """One message for each worker."""
    found: dict[int, Message] = {}
    for worker, part in parts:
        found.setdefault(worker, []).append(part)
    return found


def told_chain(chain: Any) -> list[Column]:
    """The facts of a chain and its records, as columns: those of the facts, then of each kind cycles, rows, numbers."""
    found: list[Column] = [np.full(1, len(chain.now)), *chain.now.rows().columns()]
    for kind in KINDS:
        records = chain.records_of(kind)
        found += [records.cycles, *records.columns, records.numbers]
    return found


def chain_of(backend: LocalBackend, name: str, portions: Sequence[list[Column]]) -> Chain:
    """The chain of a relation from what shards told of it."""
    arity = backend.program.relations[name].arity
    size = sum(int(portion[0][0]) for portion in portions)
    columns = [np.concatenate(each) for each in zip(*(portion[1:] for portion in portions), strict=True)]
    backend.fit({name: columns[:arity]})
    now = Trace.of(backend.rows(name, columns[:arity], size)) if size else backend.empty(name)
    records, at = [], arity
    for _ in KINDS:
        cycles, *rows, numbers = columns[at : at + arity + 2]
        records.append(StoredRecords(cycles, rows, numbers))
        at += arity + 2
    chain: Any = kernel.Chain.restored(now, *records)
    found: Chain = chain
    return found


def whole(chains: Mapping[str, Chain], last_flip: int, given: AllGiven) -> Timeline:
    """The timeline of a run that is over."""
    end = max(1, last_flip + 1, max(given, default=0) + 1)
    return Timeline(chains, (end,), {}, *retold(chains, (end,)), given)


__all__ = ["Rows", "chain_of", "given_parts", "input_parts", "messages", "told_chain", "whole"]
