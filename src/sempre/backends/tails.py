"""Ends of plans that only have to be there.

In `p(a) :- e(a, b), e(b, c), e(c, d), e(d, f)` the head is known as soon as `a` is. What follows is a question to `b`:
how many ways are there from it? So it is asked once for each `b`, and in the same way once for each `c` that is met on
the way, where the paths themselves may be too many to be looked at. What was answered is known until the plan has run.

The answer is a number of instances, which multiplies the weight of a row. Where nobody counts instances, it is whether
there is one.

Reference: M. Yannakakis, Algorithms for Acyclic Database Schemes, VLDB 1981: joins that are reduced from their ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from sempre.analysis.head_aggregates import names_in
from sempre.analysis.model import Call, Var
from sempre.backends.bindings import Bindings, Runnable, Sink, Views
from sempre.backends.lookups import ProbeRunner
from sempre.backends.merging import LEFT_OUT, are_alike
from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.capacity import uncountable
from sempre.kernel.layout import Field
from sempre.plan.ops import Absent, Assign, Either, Filter, Probe, Reduce, Step, TakeApart, probes

# A column for the value that is asked about, which no variable is called.
ASKED = "#asked"
# Where a lookup finds so many rows for each on average, it pays to ask once for each value, even if few are alike.
EXPANDING = 16
# Aggregates that have a result whatever the values are.
SAFE_KINDS = frozenset(("count", "min", "max"))

# Makes a pipeline of steps, with a column that they carry along; what these variables are was bound before.
Make: TypeAlias = "Callable[[Sequence[Step], frozenset[str], frozenset[str]], Runnable]"


@dataclass(frozen=True, slots=True)
class Tail:
    """Steps at the end of a plan that share one variable with all others; `places` are their places among them."""

    key: str
    steps: tuple[Step, ...]
    places: frozenset[int]


def names_of(step: Step) -> tuple[set[str], set[str]] | None:
    """The variables that a step reads, and those that it binds; None for steps that look at more than rows."""
    match step:
        case Probe(lookup=lookup, binds=binds):
            return {arg.name for arg in lookup if isinstance(arg, Var)}, {var.name for _, var in binds}
        case Filter(test=test):
            return names_in(test.left) | names_in(test.right), set()
        case Assign(var=var, expr=expr):
            return names_in(expr), {var.name}
        case TakeApart(unpack=unpack, binds=binds):
            fields = {arg.name for arg in unpack.fields if isinstance(arg, Var)}
            return {unpack.record.name} | (fields - binds), set(binds)
        case Absent(literal=literal):
            return {var.name for var in literal.shared}, set()
        case Reduce(literal=literal, test=test):
            shared = {var.name for var in literal.shared}
            return (shared | {literal.result.name}, set()) if test else (shared, {literal.result.name})
        case Either(options=options):
            return _names_of_all(options[0])
        case _:
            return None


def may_fail(step: Step) -> bool:
    """Whether a step may raise for some rows: what is computed may be out of range, and what is added up too large."""
    match step:
        case Filter(test=test):
            return isinstance(test.left, Call) or isinstance(test.right, Call)
        case Assign(expr=expr):
            return isinstance(expr, Call)
        case Reduce(literal=literal, steps=steps):
            return literal.kind not in SAFE_KINDS or isinstance(literal.expr, Call) or any(map(may_fail, steps))
        case Absent(steps=steps):
            return any(map(may_fail, steps))
        case Either(options=options):
            return any(may_fail(inner) for steps in options for inner in steps)
        case _:
            return False


def _names_of_all(steps: Sequence[Step]) -> tuple[set[str], set[str]] | None:
    reads: set[str] = set()
    binds: set[str] = set()
    for step in steps:
        found = names_of(step)
        if found is None:
            return None
        reads |= found[0] - binds
        binds |= found[1]
    return reads, binds


@dataclass(frozen=True, slots=True)
class Ends:
    """What is known of the variables of a plan: those that are bound before its steps, and those that the head needs.

    Steps before the `first` are no end.
    """

    bound: frozenset[str]
    needed: frozenset[str]
    first: int = 0


@dataclass(frozen=True, slots=True)
class EndingPlace:
    """Where the steps begin that only have to find something, what is known there, and which of them are tails."""

    place: int
    ends: Ends
    tails: tuple[Tail, ...]


def ending_of(steps: Sequence[Step], ends: Ends) -> EndingPlace | None:
    """The first place from which on some steps are tails."""
    bound = set(ends.bound)
    for place, step in enumerate(steps):
        if place >= ends.first and (tails := _tails_of(steps[place:], frozenset(bound), ends.needed)):
            return EndingPlace(place, replace(ends, bound=frozenset(bound)), tuple(tails))
        names = names_of(step)
        bound |= names[1] if names is not None else set()
    return None


def _tails_of(steps: Sequence[Step], bound: frozenset[str], needed: frozenset[str]) -> list[Tail]:
    """The parts of the last steps of a plan that depend on one variable each; none while the head is not known."""
    if not needed <= bound or len(probes(tuple(steps))) < 2:
        return []
    names = [names_of(step) for step in steps]
    parts: list[tuple[set[str], set[int]]] = []  # the variables that they bind, and places
    for place, found in enumerate(names):
        if found is None:
            return []
        mine, places = (found[0] | found[1]) - bound, {place}
        for part in [part for part in parts if part[0] & mine]:
            parts.remove(part)
            mine, places = mine | part[0], places | part[1]
        parts.append((mine, places))
    tails = []
    for _, places in parts:
        shared = {name for place in places for name in (names[place] or (set(), set()))[0]} & bound
        within = tuple(steps[place] for place in sorted(places))
        # What comes before a step may keep it from failing, as `y != 0` does for `x / y`.
        is_safe = len(parts) == 1 or not any(map(may_fail, within))
        if is_safe and len(shared) == 1 and len(probes(within)) > 1 and isinstance(within[0], Probe):
            tails.append(Tail(next(iter(shared)), within, frozenset(places)))
    return tails


class TailRunner:
    """Answers how often a tail holds for a value, and remembers it until the views are others."""

    def __init__(self, tail: Tail, first: ProbeRunner, make: Make, least_rows: int) -> None:
        self.tail = tail
        self._first = first
        self._make = make
        self._least_rows = least_rows
        self._nested: Runnable | None = None
        self._reads = [(probe.relation, probe.read) for probe in probes(tail.steps)]
        self._left_out = 0
        # Threads ask one after the other: what one of them finds out is known to all.
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """What was answered is of no use any more."""
        self._of: tuple[object, ...] = ()
        self._known: join.Rows = np.empty(0, np.int64)
        self._numbers: join.Weights = np.empty(0, np.int64)

    def pays(self, rows: Bindings, views: Views) -> bool:
        """Whether to ask once for each value, rather than to go on with all rows."""
        if rows.size < self._least_rows:
            return False
        if self._left_out:
            self._left_out -= 1
            return False
        column = rows.columns[self.tail.key]
        found = are_alike(column, rows.size) or int(self._first.found(rows, views).sum()) > EXPANDING * rows.size
        self._left_out = 0 if found else LEFT_OUT
        return found

    def kept(self, rows: Bindings, views: Views, counts: bool) -> Bindings:
        """The rows for which the tail holds; with `counts`, each stands for so many instances more often."""
        column = rows.columns[self.tail.key]
        counts = counts or rows.weights is not None
        with self._lock:
            self._learn(join.distinct(column.copy()), rows.fields.get(self.tail.key), views, counts)
            numbers = self._numbers.take(self._known.searchsorted(column))
        if counts:
            weights = numbers if rows.weights is None else join.multiplied(rows.weights, numbers)
            rows = Bindings(rows.size, rows.columns, rows.fields, weights)
        return rows.keep(numbers > 0, frozenset(rows.columns))

    def _learn(self, values: join.Rows, field: Field | None, views: Views, counts: bool) -> None:
        """Find out about those of some values, sorted and different, that are not known."""
        of = (counts, *(views[read] for read in self._reads))
        if len(of) != len(self._of) or any(mine is not theirs for mine, theirs in zip(of, self._of, strict=True)):
            self.forget()
            self._of = of
        if self._known.size:
            at = np.minimum(self._known.searchsorted(values), self._known.size - 1)
            values = values[self._known.take(at) != values]
        if not values.size:
            return
        numbers = self._asked(values, field, views, counts)
        at = self._known.searchsorted(values)
        self._known, self._numbers = np.insert(self._known, at, values), np.insert(self._numbers, at, numbers)

    def _asked(self, values: join.Rows, field: Field | None, views: Views, counts: bool) -> join.Weights:
        """For each value, in how many ways the tail holds, or one if nobody counts."""
        if self._nested is None:
            self._nested = self._make(self.tail.steps, frozenset((ASKED,)), frozenset((self.tail.key,)))
        numbers: join.Weights = np.zeros(values.size, np.int64)
        fields = {} if field is None else {self.tail.key: field}
        columns = {self.tail.key: values, ASKED: np.arange(values.size)}

        def found(some: Bindings) -> None:
            if not counts:
                numbers[some.columns[ASKED]] = 1
                return
            assert some.weights is not None
            places, sums = join.consolidate(some.columns[ASKED], some.weights)
            total = numbers[places] + sums
            if total.size and int(total.min()) < 0:
                raise uncountable()
            numbers[places] = total

        ones = np.ones(values.size, np.int64) if counts else None
        try:
            self._nested.run(Bindings(values.size, columns, fields, ones), views, found, counts=counts)
        finally:
            self._nested.forget()
        return numbers


class Ending:
    """The last steps of a plan, of which some are tails: those that pay are asked, and with what is left rows go on."""

    def __init__(self, steps: Sequence[Step], tails: Sequence[TailRunner], make: Callable[[Sequence[Step]], Runnable]):
        self._steps = tuple(steps)
        self._tails = tuple(tails)
        self._make = make
        self._rests: dict[frozenset[int], Runnable] = {}

    def run(self, rows: Bindings, views: Views, sink: Sink, counts: bool | None) -> None:
        """Send what the steps make of `rows` to `sink`."""
        done: frozenset[int] = frozenset()
        if counts is not None:
            for runner in self._tails:
                if rows.size and runner.pays(rows, views):
                    rows, done = runner.kept(rows, views, counts), done | runner.tail.places
        if not rows.size:
            return
        if len(done) == len(self._steps):
            sink(rows)
            return
        rest = self._rests.get(done)
        if rest is None:
            left = [step for place, step in enumerate(self._steps) if place not in done]
            rest = self._rests[done] = self._make(left)
        rest.run(rows, views, sink, counts=counts)

    def forget(self) -> None:
        """What was answered is of no use any more."""
        for runner in self._tails:
            runner.forget()
        for rest in list(self._rests.values()):
            rest.forget()
