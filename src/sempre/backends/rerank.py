"""Plans as code for the kernel's settler: what becomes of facts that lost support.

Like `walk`, but a rule may have several atoms of the stratum: nothing is added, so all of its facts are in the old
version, and which of them are out is known to the settler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sempre.analysis.model import Var
from sempre.backends.bindings import Views, view_of
from sempre.backends.walk_code import NotWalkable, WalkWriter, front_of, is_plain, is_walkable_step, place_of, table_of
from sempre.kernel import compiled
from sempre.kernel.layout import Column, Packing
from sempre.kernel.tally import Counted, Tally
from sempre.kernel.trace import RowSet, TraceView
from sempre.kernel.values import Values
from sempre.plan.ops import Assign, Either, Plan, Probe, Read, Step

# Instructions of kernel/settler.py, which is imported only once it is loaded.
OWN, EITHER = 6, 7
FORWARD, BACKWARD, GROUNDING = range(3)
OUT = 2
USED, WAITING, WORK, _, _, _, FAILED, TAKEN = range(8)
KEY, RELATION, RANK, NUMBER, STATE, _, OLD_RANK, OLD_NUMBER = range(8)
# Sizes that a table has at first, in bits: it grows, but not while one fact is followed. How much work may be done, for
# each fact of the stratum and anyway.
TABLE_BITS = (14, 20)
WORK_SHARE = 1.0
WORK_ANYWAY = 1 << 20
# What has no more to come than this share of what was is brought to an end, also if it takes half as long again.
NEARLY = 0.25
# How much work is done before somebody is asked whether to go on: some milliseconds.
SLICE = 1 << 17
# A sieve has two to the power of this bits for each key that it is made of, and at most so many altogether.
SIEVE_BITS, MOST_SIEVE_BITS = 3, 27
# A front of more facts than these is for arrays: they take a fact in less time, if there are many.
FRONT = 1 << 11


@dataclass(frozen=True, slots=True)
class Reranked:
    """What became of facts that lost support: see `RerankedOf`."""

    gone: dict[str, RowSet]
    ranks: dict[str, Counted]
    tight: dict[str, Counted]
    highest: int
    touched: int


def is_rerankable(plan: Plan) -> bool:
    """Whether the shape of a plan is one that the settler can follow."""
    if not plan.steps:
        return False
    first, *rest = plan.steps
    plain = isinstance(first, Probe) and first.read is Read.ONLY and all(map(is_plain, plan.head))
    return plain and all(map(_followed, rest))


def _followed(step: Step) -> bool:
    if isinstance(step, Either):
        return all(isinstance(way[0], Probe) and all(map(_followed, way)) for way in step.options)
    return isinstance(step, Probe) or is_walkable_step(step, frozenset())


def _certain(step: Probe, following: Sequence[Step]) -> Iterator[Probe]:
    """The lookups that come after a step for certain, and that ask for what it binds and for what is bound before."""
    binds = {var.name for _, var in step.binds}
    between: set[str] = set()
    for later in following:
        ways = [way[0] for way in later.options] if isinstance(later, Either) else [later]
        for probe in ways:
            asked = {arg.name for arg in probe.lookup if isinstance(arg, Var)} if isinstance(probe, Probe) else set()
            if isinstance(probe, Probe) and asked & binds and not asked & between:
                yield probe
        if isinstance(later, Either):
            return
        if isinstance(later, Probe):
            between |= {var.name for _, var in later.binds}
        elif isinstance(later, Assign):
            between.add(later.var.name)


@dataclass(slots=True)
class Settling(WalkWriter):
    """Code for the settler."""

    own: Mapping[str, tuple[int, Packing]] = field(default_factory=dict)  # the number of a relation, and its keys
    before: list[int] = field(default_factory=list)
    sieve_of: list[int] = field(default_factory=list)
    sieves: list[int] = field(default_factory=list)
    tables: list[tuple[int, ...]] = field(default_factory=list)
    bodies: int = 0
    most_bodies: int = 0
    mark_bytes: int = 0
    _table_of: dict[tuple[int, int], int] = field(default_factory=dict)

    def plan_of(self, plan: Plan, views: Views, task: int) -> tuple[int, int, int, int]:
        """Write one plan; returns where it starts, its task, and how many lookups in the stratum it makes."""
        self.views, self.slots, self.bodies = views, {}, 0
        first = len(self.starts)
        scan, *rest = plan.steps
        assert isinstance(scan, Probe)
        self.scan(scan, self.own[scan.relation][1])
        self._rest(plan, rest)
        self.most_slots = max(self.most_slots, len(self.slots))
        self.most_bodies = max(self.most_bodies, self.bodies)
        return self.own[scan.relation][0], first, task, self.bodies

    def emit(self, *numbers: int) -> None:
        self.before.append(len(self.starts) - 1)
        self.sieve_of.append(-1)
        WalkWriter.emit(self, *numbers)

    def step(self, step: Step) -> None:
        if isinstance(step, Probe) and step.relation in self.own:
            self.own_probe(step)
        else:
            WalkWriter.step(self, step)

    def _rest(self, plan: Plan, steps: Sequence[Step]) -> None:
        for at, step in enumerate(steps):
            if isinstance(step, Either):
                self.either(plan, step, steps[at + 1 :])
                return
            self.step(step)
            if isinstance(step, Probe):
                self.sieve(step, steps[at + 1 :])
        self.result(plan, *self.own[plan.relation])

    def own_probe(self, step: Probe) -> None:
        """A lookup in a relation of the stratum; the settler has to know which fact it finds."""
        number, own = self.own[step.relation]
        source, layout = self.source(view_of(self.views, (step.relation, Read.HERE)), step.order)
        columns: list[int] = []
        for column in own.order:
            shift, mask, _ = place_of(layout, column)
            columns += [shift, mask, place_of(own, column)[0]]
        self.emit(
            OWN, source, self.prefix(step, layout)[0], number, step.read is Read.BOTH, self.bodies, len(own.order),
            *columns, *self.prefix(step, layout)[1:], *self.binds(step, layout),
        )  # fmt: skip
        self.bodies += 1

    # ------------------------------------------------------------------------------------------------- sieves

    def sieve(self, step: Probe, following: Sequence[Step]) -> None:
        """Say which of the lookups that follow for certain sorts out what the last instruction finds, if one does."""
        found = [self._read(later) for later in _certain(step, following) if self.may_sift(later)]
        if found:
            later, source, layout = min(found, key=lambda each: self._keys(each[1]))
            self.sieve_of[-1] = len(self.sieves)
            self.sieves += [self._table(source, self.prefix(later, layout)[0]), *self._parts(step, later, layout)]

    def may_sift(self, step: Probe) -> bool:
        """Whether a sieve knows all that a lookup may find: facts go, and none comes."""
        return True

    def _read(self, step: Probe) -> tuple[Probe, int, Packing]:
        read = Read.HERE if step.relation in self.own else step.read
        return step, *self.source(view_of(self.views, (step.relation, read)), step.order)

    def _keys(self, source: int) -> int:
        first, last = self.sources[source]
        return sum(self.runs[run][1] for plus, end, _, _ in self.parts[first:last] for run in range(plus, end))

    def _table(self, source: int, free: int) -> int:
        """The bits that stand for the prefixes of a source."""
        key = (source, free.bit_length())
        if key not in self._table_of:
            keys = self._keys(source)
            bits = max(6, min(keys.bit_length() + SIEVE_BITS, MOST_SIEVE_BITS))
            self._table_of[key] = len(self.tables)
            self.tables.append((source, free.bit_length(), self.mark_bytes, (1 << bits) - 1, keys, 0, 0))
            self.mark_bytes += 1 << (bits - 3)
        return self._table_of[key]

    def _parts(self, step: Probe, later: Probe, layout: Packing) -> list[int]:
        """What is known of the later lookup's prefix before this one, and what this one finds of it."""
        own = self._read(step)[2]
        binds = {var.name: column for column, var in step.binds}
        known: list[int] = []
        found: list[int] = []
        for column, arg in zip(later.prefix, later.lookup, strict=True):
            *operand, low, high, shift = self.placed(arg, layout, column)
            if isinstance(arg, Var) and arg.name in binds:
                here, mask, least = place_of(own, binds[arg.name])
                found += [here, mask, least - low, shift]
            else:
                known += [*operand, low, high, shift]
        return [len(known) // 5, *known, len(found) // 4, *found]

    def either(self, plan: Plan, step: Either, rest: Sequence[Step]) -> None:
        """Ways to go on, each with a lookup first that can be counted, and with the `rest` of the steps after it."""
        here, at = len(self.starts), len(self.code) + 2
        self.emit(EITHER, len(step.options), *[0] * (4 * len(step.options)))
        bodies = self.bodies
        for option in step.options:
            first, begin = len(self.starts), len(self.code)
            self.bodies = bodies
            self._rest(plan, (*option, *rest))
            self.before[first] = here
            code = self.code
            skipped = 3 if code[begin] != OWN else 7 + 3 * code[begin + 6]
            code[at : at + 4] = [first, code[begin + 1], code[begin + 2], begin + skipped]
            at += 4


def rerank(
    front: Mapping[str, RowSet],
    plans: Sequence[tuple[Plan, Views, int]],
    present: Mapping[str, TraceView],
    explicit: Mapping[str, TraceView],
    numbers: tuple[Mapping[str, Tally], Mapping[str, Tally]],
    values: Values,
    look: Callable[[float], None],
) -> Reranked | None:
    """Settle the facts of the front and all that rests on them, or None where that cannot be done now.

    `plans` have the views that they read and their task each; `numbers` are ranks, and numbers of tight instances.
    `look` is called now and then, with what is expected to come as a multiple of what was.
    """
    settler = compiled.settler()
    if settler is None or sum(map(len, front.values())) > FRONT:
        return None
    relations = list(present)
    try:
        writer = Settling(values, {})
        shown = [writer.source(view, view.parts[0][0].own)[1] for view in present.values()]
        targets = dict(zip(relations, shown, strict=True))
        writer.own = {name: (number, targets[name]) for number, name in enumerate(relations)}
        rows = [writer.plan_of(plan, views, task) for plan, views, task in plans]
        given = [_given(writer, explicit[name], targets[name]) for name in relations]
        tallies, spans = _numbers(relations, targets, numbers)
        keys, owners = front_of(front, relations, targets)
    except NotWalkable:
        return None
    budget = WORK_ANYWAY + int(WORK_SHARE * sum(map(len, present.values())))
    code = (
        table_of(rows, 4), np.array(writer.starts, np.int64), np.array(writer.before, np.int64),
        np.array(writer.code, np.int64), table_of(writer.sources, 2), table_of(writer.parts, 4),
        table_of(writer.runs, 4), np.array(given, np.int64), tallies, spans,
        np.array(writer.sieve_of, np.int64), np.array(writer.sieves, np.int64), table_of(writer.tables, 7),
        np.zeros(writer.mark_bytes, np.uint8), writer.most_slots, writer.most_bodies,
    )  # fmt: skip
    for bits in TABLE_BITS:
        state = settler.begin(keys, owners, tallies, spans, bits)
        before, rest = len(keys), 0.0
        while _goes_on(state, rest, budget):
            state = settler.settle(*state, *code, int(state[3][WORK]) + SLICE)
            rest = _rest(state[3], before)
            look(rest)
            before = int(state[3][WAITING])
        if not state[3][WAITING] and not state[3][FAILED]:
            return _told(state[1][: state[3][USED]], relations, targets)
        if not state[3][FAILED]:
            break
    return None


def _goes_on(state: tuple[Any, ...], rest: float, budget: int) -> bool:
    """Whether there is more to do, and it is likely to be done within the budget."""
    found = state[3]
    work = int(found[WORK])
    if rest < NEARLY:
        budget += budget // 2
    return bool(found[WAITING] and not found[FAILED] and (work < 2 * SLICE or work * (1 + rest) < budget))


def _rest(found: Column, before: int) -> float:
    """What is still to come, as a multiple of what was: while the queue grows, each fact in it brings two others."""
    waiting = int(found[WAITING])
    return waiting / max(1, int(found[TAKEN])) * (3 if waiting > before else 1)


def _given(writer: WalkWriter, view: TraceView, layout: Packing) -> int:
    """Explicit facts as a source; their keys must be those of the relation."""
    if not len(view):
        writer.sources.append((0, 0))
        return len(writer.sources) - 1
    source, own = writer.source(view, view.parts[0][0].own)
    if own is not layout:
        raise NotWalkable
    return source


def _numbers(
    relations: Sequence[str],
    targets: Mapping[str, Packing],
    numbers: tuple[Mapping[str, Tally], Mapping[str, Tally]],
) -> tuple[Column, Column]:
    """Where ranks and numbers are, and which of them are those of each relation."""
    places: list[tuple[int, ...]] = []
    spans: list[tuple[int, ...]] = []
    for name in relations:
        span: list[int] = []
        for tallies in numbers:
            if tallies[name].packing is not targets[name]:
                raise NotWalkable
            span.append(len(places))
            places += tallies[name].places()
            span.append(len(places))
        spans.append(tuple(span))
    return table_of(places, 6), table_of(spans, 4)


def _told(facts: Column, relations: Sequence[str], targets: Mapping[str, Packing]) -> Reranked:
    """What became of the facts that were touched."""
    gone: dict[str, RowSet] = {}
    ranks: dict[str, Counted] = {}
    tight: dict[str, Counted] = {}
    facts = facts[np.argsort(facts[:, KEY])]
    out = facts[:, STATE] == OUT
    facts[out, RANK] = facts[out, NUMBER] = 0
    for number, name in enumerate(relations):
        mine = facts[:, RELATION] == number
        layout = targets[name]
        gone[name] = RowSet(layout, facts[mine & out, KEY])
        for differences, now, before in ((ranks, RANK, OLD_RANK), (tight, NUMBER, OLD_NUMBER)):
            other = mine & (facts[:, now] != facts[:, before])
            differences[name] = Counted(layout, facts[other, KEY], facts[other, now] - facts[other, before])
    return Reranked(gone, ranks, tight, int(facts[:, RANK].max(initial=0)), len(facts))
