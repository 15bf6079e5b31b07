"""INCR_UPDATE: the timeline of a run on changed facts, from that of the run on the old ones.

What changes is the input, or what somebody adds and deletes in later cycles (`Given`). Both runs are followed side by
side, cycle by cycle, but only their differences are computed: which facts one database has and the other has not (NEW),
and how many instances of which rules hold in one and not in the other (what is undone and redone). A cycle that no
difference reaches costs nothing; once the databases agree again, so does all the rest.

Reference: [Wolfson91] section 3 and appendix A. Differs:
- Cycle 0 is set directly: a record there would inherit from a cycle that does not exist. In any other cycle a change is
  an operation like those of rules, with records of its own.
- The last cycle that was done is repaired too; then the run goes on from there.
- Instances to undo are matched on the old database, those to redo on the new one, each instance once and counted.
- NEW is the whole difference of the two databases, so a fact that differs keeps differing until a record decides.
- Records are differences to the cycle before: what is undone and redone changes them where it begins and ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field

from sempre.active.inference import Cycle, Endless, Inference, by_sign, part_of
from sempre.active.timeline import (
    AllGiven,
    Signs,
    Timeline,
    clock,
    given_counts,
    last_flips,
    last_given,
    summed,
    told_at,
)  # fmt: skip
from sempre.analysis.model import NormalRule
from sempre.data import dataclass
from sempre.maintain.states import Sides
from sempre.maintain.strategy import Change
from sempre.plan.backend import Chain, Counted, Rows, Version, View
from sempre.plan.ops import Order


def absorb(inference: Inference, changes: Mapping[str, Change], given: AllGiven | None = None) -> None:
    """Change the input of the run by `changes`, and all that is given to `given`, as if it had always been so."""
    update = Absorption(inference, changes, inference.timeline.given if given is None else given)
    update.run()
    inference.edited += update.records
    inference.rewritten(update.timeline())
    number = sum(len(change.plus) + len(change.minus) for change in changes.values()) + update.told_facts
    ends = inference.timeline.ends
    inference.observe(Cycle(len(ends) - 1, ends[-1], update.differ, number))


@dataclass(slots=True)
class _Edits:
    """What changes in the chains of one relation."""

    toggles: list[tuple[int, Rows]] = field(default_factory=list)
    added: list[tuple[int, Counted]] = field(default_factory=list)
    deleted: list[tuple[int, Counted]] = field(default_factory=list)


class Absorption:
    def __init__(self, inference: Inference, changes: Mapping[str, Change], given: AllGiven) -> None:
        self._inference = inference
        self._backend = inference.backend
        self._matcher = inference.matcher
        self._line = inference.timeline
        self._chains: dict[str, Chain] = dict(self._line.chains)
        self._last_flips = last_flips(self._line.flips)
        self._start = changes
        self._given = given
        # How the new run differs from the old one after the cycle just done.
        self.differ: dict[str, Change] = dict(changes)
        # By rule, how many instances the new run has more in the cycle just done.
        self._shift: dict[int, Counted] = {}
        # The clocks at which the two runs are given other facts, the last at which that changes numbers, and by how
        # much the numbers of the new run differ for it in the cycle just done.
        old = inference.timeline.given
        self._told = {at for at in {*old, *given} if old.get(at) is not given.get(at)}
        self._last_told = max(self._told, default=-1) + 1
        self._outer: Signs = {}
        self.told_facts = 0
        # Relations in which either run's database, or their difference, changed in the cycle just done.
        self._moved: set[str] = set(changes)
        self._edits: dict[str, _Edits] = {name: _Edits() for name in self._chains}
        self._flips: dict[int, dict[str, int]] = {at: dict(by) for at, by in self._line.flips.items()}
        self._marks = dict(self._line.marks)
        self._ends = list(self._line.ends)

    def run(self) -> None:
        """Follow the differences to the last cycle that was done, or to where there are none and will be none."""
        self._mark(0)
        for phase in range(len(self._ends)):
            self._shift = {}
            rules = self._inference.phases[phase]
            heads = {rule.relation for rule in rules}
            over = False
            for number in self._cycles(phase):
                over = not (self.differ or self._shift or self._outer) and clock(phase, number) > self._last_told
                if over:
                    break
                self._cycle(rules, heads, clock(phase, number), number == 1)
            if not self._flips_at(clock(phase, self._ends[phase])):
                self._ends[phase] = self._end_of(phase)
            if over:
                return

    def _cycles(self, phase: int) -> Iterator[int]:
        """The cycles of a phase: those of the old run, and more if the new one needs them and another phase follows."""
        last = phase == len(self._ends) - 1
        number = 1
        while number <= self._line.ends[phase] or (not last and self._flips_at(clock(phase, number - 1))):
            if number > self._inference.limit:
                raise Endless(self._line, phase, number - 1, number - 1, 0)
            self._ends[phase] = max(self._ends[phase], number)
            yield number
            number += 1

    def _flips_at(self, at: int) -> bool:
        return any(self._flips.get(at, {}).values())

    def _end_of(self, phase: int) -> int:
        """The cycle of a phase, in the new run, that is the first to change nothing."""
        number, given = self._ends[phase], last_given(self._given)
        while number > 1 and clock(phase, number - 1) > given and not self._flips_at(clock(phase, number - 1)):
            number -= 1
        return number

    def _cycle(self, rules: tuple[NormalRule, ...], heads: Collection[str], at: int, first: bool) -> None:
        """One cycle of both runs, as far as they differ."""
        told = self._tell(at)
        if self.differ:
            again = [rule for rule in rules if first or self._matcher.reads(rule) & self._moved]
        else:
            again = [rule for rule in rules if rule.number in self._shift]
        if self.differ or again or told:
            self._match(again, at)
            self._decide(rules, {rule.relation for rule in again} | (self._moved & set(heads)) | told, at)
        else:
            self._moved = set(self._line.flips.get(at, ()))
        self._mark(at)

    def _tell(self, at: int) -> set[str]:
        """Take in what is given at a clock; the relations of which that changes numbers, in either run."""
        told = told_at(self._line.given, at) | told_at(self._given, at)
        if not told:
            return told
        backend = self._backend
        old, new = (given_counts(backend, given, at) for given in (self._line.given, self._given))
        for key in {**old, **new}:
            back = [counted.negated() for counted in part_of(key, old)]
            changed = backend.total(key[0], [*part_of(key, new), *back])
            if len(changed):
                self._edit(*key).append((at, changed))
                before = self._outer.pop(key, None)
                self._outer |= summed(backend, {key: [changed] if before is None else [before, changed]})
                self.told_facts += len(changed) if at in self._told else 0
        return told

    def _match(self, rules: list[NormalRule], at: int) -> None:
        """Find the instances that the databases before this cycle do not share."""
        chains = self._chains

        def read(name: str, orders: Collection[Order]) -> Sides:
            chain = chains[name] = chains[name].indexed(orders)
            since = self._last_flips.get(name, 0) >= at

            def old(without: Version | None) -> View:
                return chain.view(at - 1, since, without)

            change = self.differ.get(name)
            if change is None:
                return self._matcher.standing(name, old(None), orders)
            return self._matcher.between(old, change, orders)

        near = [rule for rule in rules if self._matcher.reads(rule) & self.differ.keys()]
        sizes = {name: chain.now for name, chain in chains.items()}
        found = self._matcher.difference(near, self.differ, sizes, read) if near else {}
        for rule in rules:
            before, after = self._shift.pop(rule.number, None), found.get(rule.number)
            parts = ([] if after is None else [after]) + ([] if before is None else [before.negated()])
            if parts:
                self._record(rule, at, self._backend.total(rule.relation, parts))
            if after is not None:
                self._shift[rule.number] = after

    def _record(self, rule: NormalRule, at: int, counted: Counted) -> None:
        if len(counted):
            self._edit(rule.relation, rule.deletes).append((at, counted))

    def _edit(self, name: str, deletes: bool) -> list[tuple[int, Counted]]:
        edits = self._edits[name]
        return edits.deleted if deletes else edits.added

    def _decide(self, rules: tuple[NormalRule, ...], names: Collection[str], at: int) -> None:
        """What differs after this cycle, in relations where that may have changed."""
        found = self._signs([rule for rule in rules if rule.relation in names])
        outer = {key: counted for key, counted in self._outer.items() if key[0] in names}
        signs = summed(self._backend, {key: part_of(key, found, outer) for key in {**found, **outer}})
        moved = set(self._line.flips.get(at, ()))
        for name in names:
            before = self.differ.get(name) or self._nothing(name)
            added, deleted = signs.get((name, False)), signs.get((name, True))
            if not before and added is None and deleted is None:
                continue
            plus, minus = self._chains[name].compared(at, added, deleted, before.plus, before.minus)
            self._toggle(name, at, before, Change(plus, minus), moved)
        self._moved = moved

    def _signs(self, rules: list[NormalRule]) -> Signs:
        """By how much the instances of rules make the numbers of the new run differ."""
        return by_sign(self._backend, rules, self._shift)

    def _toggle(self, name: str, at: int, before: Change, after: Change, moved: set[str]) -> None:
        """Note the facts that come or go at this cycle in one of the runs only."""
        backend = self._backend
        was, has = (backend.union([change.plus, change.minus]) for change in (before, after))
        rows = backend.union(
            [backend.difference(was, backend.version(has)), backend.difference(has, backend.version(was))]
        )
        if after:
            self.differ[name] = after
        else:
            self.differ.pop(name, None)
        if len(rows):
            moved.add(name)
            self._edits[name].toggles.append((at, rows))
            number = self._flips.setdefault(at, {}).get(name, 0)
            self._flips[at][name] = number + len(rows) - 2 * self._chains[name].flips(rows, at)

    def _nothing(self, name: str) -> Change:
        rows = self._backend.empty(name).rows()
        return Change(rows, rows)

    def _mark(self, at: int) -> None:
        mark = self._marks.get(at)
        if mark is None:  # a cycle that the old run did not need: its database stayed
            mark = self._line.marks[max(known for known in self._line.marks if known < at)]
        for name, change in self.differ.items():
            mark ^= self._backend.digest(name, change.plus) ^ self._backend.digest(name, change.minus)
        self._marks[at] = mark

    # ---------------------------------------------------------------------------------------------- the outcome

    @property
    def records(self) -> int:
        """How many records differ."""
        total = 0
        for edits in self._edits.values():
            total += sum(len(rows) for _, rows in edits.toggles)
            total += sum(len(counted) for _, counted in (*edits.added, *edits.deleted))
        return total

    def timeline(self) -> Timeline:
        """The timeline of the new run."""
        chains = dict(self._chains)
        for name, edits in self._edits.items():
            start, end = (side.get(name) or self._nothing(name) for side in (self._start, self.differ))
            if start or end or edits.toggles or edits.added or edits.deleted:
                chains[name] = chains[name].edited(
                    edits.toggles, edits.added, edits.deleted, (start.plus, start.minus), (end.plus, end.minus)
                )
            for rows in (end.plus, end.minus):
                if len(rows):
                    self._inference.touched.setdefault(name, []).append(rows)
        flips = {at: {n: size for n, size in by.items() if size} for at, by in self._flips.items()}
        ends = tuple(self._ends)
        final = clock(len(ends) - 1, ends[-1])
        marks = {at: mark for at, mark in self._marks.items() if at <= final}
        flips = {at: by for at, by in flips.items() if by}
        return Timeline(chains, ends, self._last(chains), flips, marks, self._given)

    def _last(self, chains: Mapping[str, Chain]) -> dict[str, Change]:
        """What the new run changed in the last cycle that was done.

        A fact that flips there in both runs need not flip the same way: what it is after the cycle decides.
        """
        at, backend = self._line.now, self._backend
        found: dict[str, Change] = {}
        for name, chain in chains.items():
            change = self._line.last.get(name)
            toggles = [rows for when, rows in self._edits[name].toggles if when == at]
            if not toggles and name not in self.differ:
                found.update({} if change is None else {name: change})
                continue
            rows = backend.empty(name).rows() if change is None else backend.union([change.plus, change.minus])
            for toggled in toggles:
                more = backend.difference(toggled, backend.version(rows))
                rows = backend.union([more, backend.difference(rows, backend.version(toggled))])
            if len(rows):
                found[name] = Change(backend.intersection(rows, chain.now), backend.difference(rows, chain.now))
        return found
