"""The node that knows on which base facts every fact rests: all sets of them at once, as one diagram.

Every fact that a node believes carries its condition: in which sets of base facts it holds. A node tells the owner of a
head the condition under which its own rule instances derive it, and again when that grows; the owner takes what it was
told together. Conditions grow until they are the least solution of the rules, around cycles too: a fact that only holds
itself up has the condition that is never true.

A base fact that goes takes itself out of all conditions: whoever told somebody of it says that it is gone. Nothing is
derived again, whatever the cycles. A base fact that comes back is another one, with a higher stamp, so that news of its
end and of its return may cross. A stamp is even while the fact is there, and odd after that.

So conditions only grow by messages and only shrink by the end of base facts; both are the same in any order, and
messages may be repeated. In a settled state every condition is what the rules give from those of the bodies, and is
true of the base facts that there are exactly where they derive the fact.

Reference: [LiuEtAl09], absorption provenance; [Nigam11] has the derivation sets in place of which conditions stand.
Differs: ends of base facts follow those who were told of them; the paper sends them along all links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.functors import Fault
from sempre.network.diagrams import ALWAYS, NEVER, Diagram, Diagrams, facts_of
from sempre.network.node import Address, Fact, Message, same_address
from sempre.network.node_program import NodeProgram, RelationPlan
from sempre.network.node_tables import Row

HOLDS, GONE = 1, -1
BASE, TOLD = -1, -2
# Operations that are remembered before all are forgotten at once.
MOST_KNOWN = 500_000


class SupportNode:
    """One node; see the module. `most` is how many questions its diagrams may have."""

    tolerates_duplicates = True

    def __init__(self, program: NodeProgram, address: Address, most: int) -> None:
        self.program = program
        self.address = address
        self.most = most
        self.tables = program.code.tables()
        self.functions = program.code.bind(self.tables)
        self.diagrams = Diagrams()
        self.stamps: dict[Fact, int] = {}
        # Of every head, the condition by whom it comes from: a rule instance, another node, or that it is a base fact.
        self.claims: list[dict[Row, dict[Any, Diagram]]] = [{} for _ in program.relations]
        self.told: list[dict[Row, Diagram]] = [{} for _ in program.relations]
        self.dirty: list[dict[Row, None]] = [{} for _ in program.relations]
        # To whom which base facts were named, and what must be said of their end.
        self.named: dict[Address, set[Fact]] = {}
        self.ended: dict[Fact, int] = {}
        self.sent: dict[Address, int] = {}
        self.newest: dict[Address, dict[Fact, int]] = {}

    # ------------------------------------------------------------------------------------------------ events

    def change(self, insert: Iterable[Fact], delete: Iterable[Fact]) -> list[Message]:
        """See `Node.change`."""
        ends: dict[Fact, int] = {}
        for fact in delete:
            if self.stamps.get(fact, 1) % 2 == 0:
                ends[fact] = self.stamps[fact] + 1
        self._end(ends)
        for name, row in insert:
            fact = (name, row)
            if self.stamps.get(fact, 1) % 2:
                self.stamps[fact] = self.stamps.get(fact, 1) + 1
                plan = self.program.relations[self.program.numbers[name]]
                self._claim(plan, row, BASE, self.diagrams.there(fact))
        return self._settle()

    def receive(self, messages: Sequence[Message]) -> list[Message]:
        """See `Node.receive`."""
        ends: dict[Fact, int] = {}
        for message in messages:
            for sign, name, row, written, stamps in message.updates:
                for fact, stamp in (((name, row), stamps[0]),) if sign == GONE else ():
                    ends[fact] = max(stamp, ends.get(fact, 0))
                for fact, stamp, _, _ in written:
                    ends[fact] = max(stamp, ends.get(fact, 0))
        self._end(ends)
        for source, _, number, updates in messages:
            newest = self.newest.setdefault(source, {})
            for sign, name, row, written, _ in updates:
                if sign == GONE or newest.get((name, row), 0) >= number:
                    continue
                newest[name, row] = number
                gone = [fact for fact, stamp, _, _ in written if stamp < self.stamps[fact]]
                plan = self.program.relations[self.program.numbers[name]]
                self._claim(plan, row, (TOLD, source), self.diagrams.read(written, gone))
        return self._settle()

    def facts(self, relation: str) -> Iterable[Row]:
        """See `Node.facts`."""
        return self.tables[self.program.numbers[relation]].rows

    def waiting(self) -> int:
        """Nothing ever waits: conditions are taken in when they come."""
        return 0

    # ---------------------------------------------------------------------------------------------- shrinking

    def _end(self, stamps: dict[Fact, int]) -> None:
        """Take in what is known of base facts; those that are gone, or have come back since, leave all conditions."""
        levels: set[int] = set()
        for fact, stamp in stamps.items():
            known = self.stamps.get(fact, 0)
            if stamp <= known:
                continue
            self.stamps[fact] = stamp
            if known and known % 2 == 0:
                self.ended[fact] = known + 1
                levels |= {self.diagrams.levels[fact]} if fact in self.diagrams.levels else set()
        if not levels:
            return
        left = self.diagrams.without(levels)
        for claims, told, table in zip(self.claims, self.told, self.tables, strict=True):
            for row in list(claims):
                found = {by: rest for by, one in claims[row].items() if (rest := left(one)) is not NEVER}
                if found:
                    claims[row] = found
                else:
                    del claims[row]
            for row, one in list(table.rows.items()):
                if (rest := left(one)) is NEVER:
                    table.remove(row)
                else:
                    table.rows[row] = rest
            for row, one in list(told.items()):
                if (rest := left(one)) is NEVER:
                    del told[row]
                else:
                    told[row] = rest
        self.diagrams.forget()

    # ------------------------------------------------------------------------------------------------ growing

    def _claim(self, plan: RelationPlan, row: Row, by: Any, condition: Diagram) -> None:
        if condition is NEVER:
            return
        claims = self.claims[plan.number].setdefault(row, {})
        if claims.get(by) is not condition:
            claims[by] = condition
            self.dirty[plan.number][row] = None

    def _settle(self) -> list[Message]:
        """Follow the consequences here until nothing grows; then tell the others."""
        remote: list[dict[Row, None]] = [{} for _ in self.dirty]
        order, at = self.program.order, 0
        while at < len(order):
            plan = order[at]
            dirty = self.dirty[plan.number]
            if not dirty:
                at += 1
                continue
            self.dirty[plan.number] = {}
            for row in dirty:
                if same_address(row[plan.location], self.address):
                    self._grow(plan, row)
                else:
                    remote[plan.number][row] = None
            at = plan.restart
        return self._tell(remote)

    def _condition(self, plan: RelationPlan, row: Row) -> Diagram:
        found = NEVER
        for condition in self.claims[plan.number].get(row, {}).values():
            found = self.diagrams.either(found, condition)
        return found

    def _grow(self, plan: RelationPlan, row: Row) -> None:
        """Bring the condition of a fact in line with what is claimed of it, and derive with it."""
        table, condition = self.tables[plan.number], self._condition(plan, row)
        if condition is NEVER or table.rows.get(row) is condition:
            return
        table.add(row, condition)
        for step in plan.steps:
            try:
                found = self.functions[step.full](row)
            except Fault as fault:
                raise self.program.fault(step.rule, str(fault)) from None
            atoms = self.program.atoms[step.rule]
            for head, rows in found:
                together = ALWAYS
                for relation, used in zip(atoms, rows, strict=True):
                    together = self.diagrams.both(together, self.tables[relation].rows[used])
                self._claim(step.head, head, (step.rule, rows), together)
        self._check_size(plan)

    def _check_size(self, plan: RelationPlan) -> None:
        diagrams = self.diagrams
        if len(diagrams) <= self.most and diagrams.remembered() <= MOST_KNOWN:
            return
        diagrams.forget()
        if len(diagrams) <= self.most:
            return
        message = f"the conditions of node `{self.address}` have more than {self.most:,} questions"
        detail = (
            f"It keeps all the sets of base facts that its facts rest on, as diagrams over {len(diagrams.facts):,} "
            f"base facts; those of `{plan.name}` grew last. In a network with many ways around, they grow with every "
            "link, in the worst case twofold."
        )
        hint = "Use `--algorithm proofs`, which keeps one set per fact."
        raise DataError(Diagnostic("E533", message, detail=detail, hint=hint))

    # ------------------------------------------------------------------------------------------------ telling

    def _tell(self, remote: list[dict[Row, None]]) -> list[Message]:
        """Messages with the conditions that have grown, and with the ends of base facts to whom these were named."""
        outbox: dict[Address, list[tuple[Any, ...]]] = {}
        for fact, stamp in self.ended.items():
            for target, named in self.named.items():
                if fact in named:
                    named.discard(fact)
                    outbox.setdefault(target, []).append((GONE, *fact, (), (stamp,)))
        self.ended = {}
        for plan in self.program.order:
            told = self.told[plan.number]
            for row in remote[plan.number]:
                condition, target = self._condition(plan, row), row[plan.location]
                if condition is NEVER or told.get(row) is condition:
                    continue
                told[row] = condition
                written = self.diagrams.written(condition, self.stamps)
                self.named.setdefault(target, set()).update(facts_of(written))
                outbox.setdefault(target, []).append((HOLDS, plan.name, row, written, ()))
        messages = []
        for target, updates in outbox.items():
            number = self.sent[target] = self.sent.get(target, 0) + 1
            messages.append(Message(self.address, target, number, tuple(updates)))
        return messages
