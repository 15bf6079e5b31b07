"""A made-up code base for a points-to analysis, and commits to it.

Packages have classes, classes have methods, methods have a few variables that are allocated, moved in circles, cast,
stored and loaded, and handed to methods that the receiver's type decides on. Most calls stay in the package; `tangle`
is the share that does not.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Fact = tuple[str, tuple[int, ...]]
Facts = dict[str, list[tuple[int, ...]]]

METHODS, VARIABLES, SITES, OBJECTS = 8, 12, 8, 4  # a method's numbers start at its own multiples of these
FIELDS = 6


@dataclass
class CodeBase:
    """All facts, method by method; a commit changes those of a few methods or of one class."""

    packages: int
    classes: int
    tangle: float
    seed: int = 5
    methods: dict[int, set[Fact]] = field(default_factory=dict)
    types: dict[int, set[Fact]] = field(default_factory=dict)
    revision: dict[int, int] = field(default_factory=dict)
    renamed: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for kind in range(self.packages * self.classes):
            self.types[kind] = self._class(kind)
            for slot in range(METHODS - 1):  # the last is free for what a commit adds
                self._write(kind * METHODS + slot)

    def facts(self) -> Facts:
        """All of it, by relation."""
        return by_relation(fact for part in (self.methods, self.types) for facts in part.values() for fact in facts)

    # ------------------------------------------------------------------------------------------------ commits

    def commits(self, count: int, rng: random.Random) -> Iterator[tuple[str, Facts, Facts]]:
        """What each commit is, inserts and deletes."""
        kinds = ("method changed", "method added", "method removed", "class renamed")
        for number in range(count):
            what = kinds[number % len(kinds)]
            kind = rng.randrange(self.packages * self.classes)
            before = self._of(kind)
            if what == "method changed":
                self._write(kind * METHODS + rng.randrange(METHODS - 1))
            elif what == "method added":
                self._write(kind * METHODS + METHODS - 1)
            elif what == "method removed":
                self.methods.pop(kind * METHODS + rng.randrange(METHODS - 1), None)
            else:
                self.renamed[kind] = self.packages * self.classes + number
            self.types[kind] = self._class(kind)
            after = self._of(kind)
            yield what, by_relation(after - before), by_relation(before - after)

    def _of(self, kind: int) -> set[Fact]:
        """The facts of one class."""
        own = [self.methods.get(kind * METHODS + slot, set()) for slot in range(METHODS)]
        return self.types[kind].union(*own)

    # ----------------------------------------------------------------------------------------------- the text

    def _class(self, kind: int) -> set[Fact]:
        """Its name, what it inherits, the type of its objects."""
        name, package = self.renamed.get(kind, kind), kind // self.classes
        parent = package * self.classes + (kind % self.classes) // 3
        found: set[Fact] = {("subtype", (name, name)), ("subtype", (name, self.renamed.get(parent, parent)))}
        for slot in range(METHODS):
            method = kind * METHODS + slot
            if method not in self.methods:
                method = parent * METHODS + slot
            found.add(("lookup", (name, slot, method)))
            for number in range(OBJECTS):
                found.add(("type", ((kind * METHODS + slot) * OBJECTS + number, name)))
        found |= {("entry", (kind * METHODS + slot,)) for slot in range(2)}
        return found

    def _write(self, method: int) -> None:
        revision = self.revision[method] = self.revision.get(method, -1) + 1
        self.methods[method] = self._method(method, random.Random(f"{self.seed}/{method}/{revision}"))

    def _method(self, method: int, rng: random.Random) -> set[Fact]:
        first = method * VARIABLES
        this, one, two, back, *local = range(first, first + VARIABLES)
        found: set[Fact] = {("this", (method, this)), ("returns", (method, back))}
        found |= {("formal", (method, 0, one)), ("formal", (method, 1, two))}
        every = [this, one, two, back, *local]
        for number in range(rng.randint(1, OBJECTS)):
            found.add(("alloc", (rng.choice(local), method * OBJECTS + number, method)))
        found |= {("move", (a, b)) for a, b in zip(local, [*local[1:], local[0]], strict=True) if rng.random() < 0.7}
        found |= {("move", (rng.choice(every[3:]), rng.choice(every))) for _ in range(4)}
        package = method // METHODS // self.classes
        target = package * self.classes + rng.randrange(self.classes)
        found.add(("cast", (rng.choice(local), rng.choice(every), target // 3 * 3)))
        found |= {("load", (rng.choice(local), rng.choice(every), rng.randrange(FIELDS))) for _ in range(2)}
        found |= {("store", (rng.choice(every), rng.randrange(FIELDS), rng.choice(every))) for _ in range(2)}
        for number in range(3):
            found |= self._call(method, method * SITES + number, rng, every, local)
        return found

    def _call(self, method: int, site: int, rng: random.Random, every: list[int], local: list[int]) -> set[Fact]:
        """A call of some method on a variable; now and then on a new object of another package."""
        receiver = every[0] if rng.random() < 0.4 else rng.choice(local)
        found: set[Fact] = {("call", (site, receiver, rng.randrange(METHODS), method))}
        if rng.random() < self.tangle:
            other = rng.randrange(self.packages * self.classes) * METHODS + rng.randrange(METHODS)
            found.add(("alloc", (receiver, other * OBJECTS, method)))
        found |= {("actual", (site, n, rng.choice(every))) for n in range(2)}
        found.add(("result", (site, rng.choice(local))))
        return found


def by_relation(facts: Iterable[Fact]) -> Facts:
    found: Facts = {}
    for relation, row in facts:
        found.setdefault(relation, []).append(row)
    return {name: sorted(set(rows)) for name, rows in found.items()}
