"""Classes of terms that must have one kind, merged as a clause is read (union-find)."""

from __future__ import annotations

from dataclasses import replace

from sempre.analysis.functor_signatures import ANY
from sempre.analysis.model import Kind
from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, Span

Key = str | int


@dataclass(frozen=True, slots=True)
class Sort:
    """What is known about a class: the kinds it may have, the record type it is, and what decided that.

    `place` is where the kinds were last narrowed, `reason` what narrowed them.
    """

    kinds: frozenset[Kind] = ANY
    record: str | None = None
    place: Span = NOWHERE
    reason: str = ""

    @property
    def kind(self) -> Kind:
        """The kind; a class that nothing decides is of numbers."""
        if len(self.kinds) == 1:
            return next(iter(self.kinds))
        return Kind.NUMBER

    @property
    def text(self) -> str:
        """The kind in words, with its article; any of several kinds of numbers is `a number`."""
        if self.record is not None:
            return f"a record `{self.record}`"
        numbers = {Kind.UNSIGNED, Kind.FLOAT} if Kind.NUMBER in self.kinds else set()
        names = [kind.value for kind in Kind if kind in self.kinds - numbers]
        return " or ".join(f"an {name}" if name == "unsigned" else f"a {name}" for name in names)


def meet(one: Sort, other: Sort) -> Sort | None:
    """What is known when both hold; None when they exclude each other. `one` keeps its reason if it says more."""
    kinds = one.kinds & other.kinds
    if not kinds or (one.record and other.record and one.record != other.record):
        return None
    record = one.record or other.record
    if kinds == one.kinds and record == one.record:
        return one
    if kinds == other.kinds and record == other.record:
        return other
    return replace(other, kinds=kinds, record=record)


class Classes:
    """A union-find over keys, each class with its `Sort`."""

    def __init__(self) -> None:
        self.parent: dict[Key, Key] = {}
        self.sorts: dict[Key, Sort] = {}

    def root(self, key: Key) -> Key:
        if key not in self.parent:
            self.parent[key] = key
            self.sorts[key] = Sort()
        while self.parent[key] != key:
            self.parent[key] = self.parent[self.parent[key]]
            key = self.parent[key]
        return key

    def sort(self, key: Key) -> Sort:
        return self.sorts[self.root(key)]

    def narrow(self, key: Key, sort: Sort) -> Sort | None:
        """Add what `sort` says about `key`; on a clash, change nothing and return what was known."""
        root = self.root(key)
        known = self.sorts[root]
        joined = meet(known, sort)
        if joined is None:
            return known
        self.sorts[root] = joined
        return None

    def merge(self, one: Key, other: Key) -> tuple[Sort, Sort] | None:
        """Make two classes one; on a clash, change nothing and return what was known of each."""
        first, second = self.root(one), self.root(other)
        if first == second:
            return None
        joined = meet(self.sorts[first], self.sorts[second])
        if joined is None:
            return self.sorts[first], self.sorts[second]
        self.parent[second] = first
        self.sorts[first] = joined
        return None
