"""What a strategy remembers of a stratum from epoch to epoch: a value that belongs to the strategy.

The class of a memory is in the file of its strategy. It says what is remembered, how that is stored and read again, and
how it is checked. Whoever stores or checks memories knows `Memory` alone: storage hands it a `Shelf` to put its sets on
or to take them from, `verify` hands it `Checks`. A new strategy with a memory of a new kind is added to `registry`, and
nothing else has to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self

from sempre.analysis.model import Stratum
from sempre.maintain.strategy import Strategy, Work
from sempre.plan.backend import Chain, Counted, Rows, Tally

# What a manifest says of a memory: plain values.
Meta = Mapping[str, Any]
NOTHING = "nothing"  # the kind of a memory that is None


class MemorySink(Protocol):
    """Takes the sets of a memory, each by its kind and relation. The rows of a set may come in parts."""

    def tally(self, kind: str, relation: str, tally: Tally) -> None:
        """Rows with their numbers."""
        ...

    def rows(self, kind: str, relation: str, rows: Rows, number: int, iteration: int | None = None) -> None:
        """Rows with one number for all, in an iteration if the set has such."""
        ...

    def counted(self, kind: str, relation: str, counted: Counted, iteration: int | None = None) -> None:
        """Rows with their numbers, in an iteration if the set has such."""
        ...

    def chain(self, relation: str, chain: Chain) -> None:
        """The records of a relation, in sets of the kinds `points`, `added` and `deleted`; not the relation itself."""
        ...


class MemorySource(Protocol):
    """Gives the sets of a stored memory."""

    def tallies(self, kind: str, stratum: Stratum) -> dict[str, Tally]:
        """The numbers of one kind, for every relation of the stratum."""
        ...

    def iterations(self, kind: str, stratum: Stratum, size: int) -> list[dict[str, Counted]]:
        """For each of so many iterations, the numbers of one kind, for every relation of the stratum."""
        ...

    def chain(self, relation: str) -> Chain:
        """The chains of a relation."""
        ...

    def rows(self, kind: str, relation: str) -> dict[int, Rows]:
        """The rows of one kind, by their iterations."""
        ...

    def memory(self, meta: Meta, stratum: Stratum) -> Memory | None:
        """A memory within a memory."""
        ...

    def strategy(self, name: str) -> Strategy: ...


class Checks(Protocol):
    """Takes what is wrong with a memory."""

    @property
    def strategy(self) -> str:
        """The strategy that was chosen."""
        ...

    @property
    def is_clean(self) -> bool:
        """Whether nothing has been found wrong so far, with the facts in particular."""
        ...

    def saw(self, counters: int) -> None:
        """So many counters were looked at."""
        ...

    def compare(self, relation: str, what: str, label: str, have: Counted, want: Counted) -> bool:
        """Look at counters; says whether some are wrong, and notes them, as those of `label`."""
        ...

    def wrong(self, relation: str, what: str, rows: Rows, message: str, examples: bool) -> None:
        """Note facts that are wrong, if any; with examples, some of them are shown after the message."""
        ...


class Memory(Protocol):
    """What a strategy remembers of a stratum. Immutable."""

    kind: ClassVar[str]  # its name in manifests
    sets: ClassVar[Mapping[str, int]]  # the kinds of its sets, and how many columns come before those of the relation

    def describe(self) -> Meta | None:
        """What a manifest says of it besides its kind; None if it is not stored, and made again when it is needed."""
        ...

    def write(self, shelf: MemorySink) -> None:
        """Hand over its sets. What was written before and is the same object is not stored again."""
        ...

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: MemorySource) -> Self:
        """The memory that was described so."""
        ...

    def check(self, work: Work, stratum: Stratum, checks: Checks) -> None:
        """Compare it with what the facts say; in `work` nothing changes."""
        ...


class UnstoredMemory:
    """A memory that is not stored."""

    sets: ClassVar[Mapping[str, int]] = {}

    def describe(self) -> Meta | None:
        return None

    def write(self, shelf: MemorySink) -> None:
        """It has no sets."""

    @classmethod
    def read(cls, meta: Meta, stratum: Stratum, shelf: MemorySource) -> Self:
        raise NotImplementedError(f"a memory of kind {meta['kind']} is never stored")


def described(memory: Memory | None, strategy: str) -> dict[str, Any] | None:
    """What a manifest says of the memory of a strategy; None if it is not stored."""
    if memory is None:
        return {"kind": NOTHING, "strategy": strategy}
    found = memory.describe()
    return None if found is None else {"kind": memory.kind, "strategy": strategy, **found}


def how_many(facts: int) -> str:
    return "1 fact" if facts == 1 else f"{facts:,} facts"
