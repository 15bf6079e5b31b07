"""The nodes of the papers: pipelined semi-naive evaluation by counting derivations.

A table holds every derivation of a fact: plain copies (basic PSN), or copies annotated with the derivation set (the
facts it rests on) and the infinite-count set (those of them that are on a cycle). An iteration picks updates, fires the
delta rules with the new tables left of the pivot and the old ones right of it, and commits. PSN picks one update at a
time, SN all that have come; by [Nigam11] section 4.3 any choice gives the same result.

A deletion of a derivation that is not there yet waits for it; `waiting` counts those. Messages must be delivered once:
each is an update (+1 or -1, relation, row, derivation set, infinite-count set).

Reference: [Nigam11] Algorithms 1 and 2, Figure 3. Differs: base facts are a set at their owner; in Figure 3 the right
sides of `fire` and `commit_I` are swapped, and the prose is followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.functors import Fault
from sempre.network.node import Address, Fact, Message
from sempre.network.node_program import NodeProgram, Step
from sempre.network.node_tables import Row

Note = tuple[frozenset[Fact], frozenset[Fact]]
Copies = Counter[Note]
Update = tuple[int, str, Row, tuple[Fact, ...], tuple[Fact, ...]]

NOTHING: frozenset[Fact] = frozenset()
BARE: Note = (NOTHING, NOTHING)
MOST_DERIVATIONS = 100_000


class CountingNode:
    """One node. `annotated` keeps derivation sets; `together` handles all updates that have come in one iteration."""

    tolerates_duplicates = False

    def __init__(
        self, program: NodeProgram, address: Address, annotated: bool, together: bool, most: int = MOST_DERIVATIONS
    ) -> None:
        self.program = program
        self.address = address
        self.annotated = annotated
        self.together = together
        self.most = most
        self.stored = 0
        self.base: set[Fact] = set()
        self.tables = program.code.tables()
        self.functions = program.code.bind(self.tables)
        self.deferred: list[Update] = []
        self.sent: dict[Address, int] = {}

    # ------------------------------------------------------------------------------------------------ events

    def change(self, insert: Iterable[Fact], delete: Iterable[Fact]) -> list[Message]:
        """See `Node.change`. Base facts are made a set here: the algorithm itself counts."""
        updates: list[Update] = []
        for facts, sign in ((delete, -1), (insert, 1)):
            for fact in facts:
                if (fact in self.base) is (sign > 0):
                    continue
                (self.base.add if sign > 0 else self.base.discard)(fact)
                updates.append((sign, *fact, (), ()))
        return self._take(updates)

    def receive(self, messages: Sequence[Message]) -> list[Message]:
        """See `Node.receive`."""
        return self._take([_update(update) for message in messages for update in message.updates])

    def facts(self, relation: str) -> Iterable[Row]:
        """See `Node.facts`."""
        return self.tables[self.program.numbers[relation]].rows

    def waiting(self) -> int:
        """How many deletions came before what they delete."""
        return len(self.deferred)

    def _take(self, updates: list[Update]) -> list[Message]:
        """Apply updates, then the deferred deletions that have become possible."""
        out: list[Update] = []
        queue = self.deferred + updates
        self.deferred = []
        if self.together:
            self._iterate(queue, out)
        else:
            for update in queue:
                self._iterate([update], out)
        progress = True
        while self.deferred and progress and not self.together:
            queue, self.deferred = self.deferred, []
            for update in queue:
                self._iterate([update], out)
            progress = len(self.deferred) < len(queue)
        return [self._message(update) for update in out]

    def _message(self, update: Update) -> Message:
        plan = self.program.relations[self.program.numbers[update[1]]]
        target = update[2][plan.location]
        number = self.sent[target] = self.sent.get(target, 0) + 1
        return Message(self.address, target, number, (update,))

    # -------------------------------------------------------------------------------------------- iterations

    def _iterate(self, updates: list[Update], out: list[Update]) -> None:
        """One complete iteration: pick what can be picked, fire, commit."""
        new: dict[Fact, Copies] = {}
        picked = self._pick(updates, new)
        for fact in new:
            table = self.tables[self.program.numbers[fact[0]]]
            if fact[1] not in table.rows:
                table.add(fact[1], Counter())
        for sign, fact, note in picked:
            for head, annotation in self._fire(fact, note, new):
                self._emit(sign, head, annotation, out)
            if len(out) > self.most:
                raise self._too_many()
        self._commit(new)

    def _pick(self, updates: list[Update], new: dict[Fact, Copies]) -> list[tuple[int, Fact, Note]]:
        """Apply updates to the new tables; deletions of what is not there are put back."""
        picked: list[tuple[int, Fact, Note]] = []
        for update in sorted(updates, key=lambda update: -update[0]):
            sign, name, row, derivation, infinite = update
            fact = (name, row)
            note = (frozenset(derivation), frozenset(infinite))
            if fact in note[0]:
                note = (note[0], note[1] | {fact})
            if fact not in new:
                new[fact] = Counter(self._old(fact))
            copies = new[fact]
            if sign < 0 and not copies[note]:
                del copies[note]
                self.deferred.append(update)
                continue
            copies[note] += sign
            if not copies[note]:
                del copies[note]
            picked.append((sign, fact, note))
        return picked

    def _old(self, fact: Fact) -> Copies:
        found: Copies | None = self.tables[self.program.numbers[fact[0]]].rows.get(fact[1])
        return Counter() if found is None else found

    def _fire(self, fact: Fact, note: Note, new: dict[Fact, Copies]) -> Iterator[tuple[Fact, Note]]:
        """The heads of all instances with one derivation of `fact` at one atom, each with its annotation."""
        plan = self.program.relations[self.program.numbers[fact[0]]]
        for step in plan.steps:
            try:
                found = self.functions[step.full](fact[1])
            except Fault as fault:
                raise self.program.fault(step.rule, str(fault)) from None
            for head, rows in found:
                body = [(name, row) for name, row in zip(self._names(step), rows, strict=True)]
                for used in self._combinations(body, step.pivot, note, new):
                    yield (step.head.name, head), self._annotation(body, used)

    def _names(self, step: Step) -> list[str]:
        return [match.relation for match in self.program.code.positives(self.program.rule(step.rule))]

    def _combinations(
        self, body: list[Fact], pivot: int, note: Note, new: dict[Fact, Copies]
    ) -> Iterator[tuple[Note, ...]]:
        """Every choice of a derivation for each atom: new ones left of the pivot, old ones right of it."""
        choices: list[tuple[Note, ...]] = [()]
        for at, fact in enumerate(body):
            if at == pivot:
                options = [note]
            else:
                copies = new[fact] if at < pivot and fact in new else self._old(fact)
                if len(choices) * copies.total() > self.most:
                    raise self._too_many()
                options = list(copies.elements())
            choices = [(*chosen, option) for chosen in choices for option in options]
        return iter(choices)

    def _annotation(self, body: list[Fact], used: tuple[Note, ...]) -> Note:
        if not self.annotated:
            return BARE
        derivation = NOTHING.union(body, *(note[0] for note in used))
        return derivation, NOTHING.union(*(note[1] for note in used))

    def _emit(self, sign: int, head: Fact, note: Note, out: list[Update]) -> None:
        """Send an update, unless it would go around a cycle that has been counted."""
        if head not in note[1]:
            out.append((sign, *head, _flat(note[0]), _flat(note[1])))

    def _commit(self, new: dict[Fact, Copies]) -> None:
        for (name, row), copies in new.items():
            table = self.tables[self.program.numbers[name]]
            self.stored += copies.total() - table.rows[row].total()
            if copies:
                table.rows[row] = copies
            else:
                table.remove(row)
        if self.stored > self.most:
            raise self._too_many()

    def _too_many(self) -> DataError:
        message = f"node `{self.address}` holds more than {self.most:,} derivations"
        detail = "Every derivation of every fact is kept, and dense networks have very many."
        hint = "Use `--algorithm proofs`, which keeps one per fact."
        if not self.annotated:
            count, name = max(((copies.total(), name) for name, copies in self._held()), default=(0, ""))
            detail = f"One fact of `{name}` has {count:,} of them. Around a cycle of facts there are infinitely many."
            hint = "Use `--algorithm sets`, which sees cycles, or `--algorithm proofs`, or let the recursion end."
        return DataError(Diagnostic("E533", message, detail=detail, hint=hint))

    def _held(self) -> Iterator[tuple[str, Copies]]:
        """The derivations of every fact, with the name of its relation."""
        for name, number in self.program.numbers.items():
            yield from ((name, copies) for copies in self.tables[number].rows.values())


def _flat(facts: frozenset[Fact]) -> tuple[Fact, ...]:
    """A set as plain data; sorted, so that a run is the same every time."""
    return tuple(sorted(facts, key=repr))


def _update(update: tuple[Any, ...]) -> Update:
    sign, name, row, derivation, infinite = update
    return sign, name, row, derivation, infinite
