"""The node that keeps one proof per fact: any order of messages, deletions, negation, aggregates.

Every fact that a node believes carries a claim: its rank, and the facts of its own recursive component that its proof
rests on. A node tells the owner of a head the best claim it can make for it, and again whenever that changes; the
owner believes the best of what it was told. A claim is never made for a fact by a proof that contains the fact, so
cycles cannot hold themselves up. `docs/network.md` has the argument that this settles, and in the right state.

A **key** is what a claim is about: a row, or the group of an aggregate. A **claim** is (potential, level, value,
proof):

- `level` is one more than the levels of the facts the last step used; `potential` is the worst aggregated value on the
  way (0 where there is none). (potential, level) is the rank: the last step always makes it worse, the least one wins.
- `value` is the aggregated value, None for plain facts.
- `proof` is a chain (relation, key, rest, bytes, version) of the keys it rests on, None for none.

When a fact gets worse or vanishes, claims that rest on what it was are on their way out, but the nodes that would turn
to them next do not know yet: they would try one outdated proof after the other. So an update says its **cause**, the
(relation, key, version) where the damage began, and a claim that rests on an older version of that key is passed over.
This only ever ignores claims that their makers are about to replace.

Facts of lower components are read as they are: their claims do not enter. Claims are replaced as a whole, and the
number of a message tells which of two is newer, so that order, delay and repetition do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.functors import Fault
from sempre.network import wire
from sempre.network.codegen import Enter, Instances
from sempre.network.node import Address, Fact, Message, same_address
from sempre.network.node_program import NodeProgram, RelationPlan, Step
from sempre.network.node_tables import Row

Key = Row
Claim = tuple[Any, int, Any, Any]
# One claim is stored bare, several as a dict; most keys have one.
Claims = tuple[Any, Claim] | dict[Any, Claim]

Cause = tuple[str, Key, int]

PLAIN: Claim = (0, 1, None, None)
BASE, TOLD = -1, -2


class ProofNode:
    """One node; see the module."""

    tolerates_duplicates = True

    def __init__(self, program: NodeProgram, address: Address) -> None:
        self.program = program
        self.address = address
        self.tables = program.code.tables()
        self.functions: list[Enter] = program.code.bind(self.tables)
        size = len(program.relations)
        self.base: set[tuple[int, Row]] = set()
        self.claims: list[dict[Key, Claims]] = [{} for _ in range(size)]
        self.shown: list[dict[Key, Row]] = [{} for _ in range(size)]
        self.told: list[dict[Key, Claim]] = [{} for _ in range(size)]
        self.heads: dict[Any, tuple[int, Key]] = {}
        self.clock = 0
        self.suspect: list[dict[Key, Cause]] = [{} for _ in range(size)]
        self.causes: list[dict[Key, Cause]] = [{} for _ in range(size)]
        self.dirty: list[dict[Key, None]] = [{} for _ in range(size)]
        self.remote: list[dict[Key, None]] = [{} for _ in range(size)]
        self.sent: dict[Address, int] = {}
        self.heard: dict[Address, _Channel] = {}

    # ------------------------------------------------------------------------------------------------ events

    def change(self, insert: Iterable[Fact], delete: Iterable[Fact]) -> list[Message]:
        """See `Node.change`."""
        for facts, present in ((delete, False), (insert, True)):
            for name, row in facts:
                plan = self.program.relations[self.program.numbers[name]]
                fact = (plan.number, row)
                if (fact in self.base) is present:
                    continue
                key, value = plan.split(row)
                if present:
                    self.base.add(fact)
                    self._put(plan, key, (BASE, row), plan.claim(value))
                else:
                    self.base.discard(fact)
                    self._drop(plan, key, (BASE, row))
        return self._settle()

    def receive(self, messages: Sequence[Message]) -> list[Message]:
        """See `Node.receive`."""
        numbers, relations = self.program.numbers, self.program.relations
        for source, _, number, updates in messages:
            channel = self.heard.get(source)
            if channel is None:
                channel = self.heard[source] = _Channel()
            newer = channel.admit(number, updates)
            if newer is None:
                continue
            origin = (TOLD, source)
            for name, key, claim, cause in newer:
                plan = relations[numbers[name]]
                if cause is not None:
                    self.causes[plan.number][key] = self.suspect[plan.number][key] = cause
                if claim is None:
                    self._drop(plan, key, origin)
                else:
                    self._put(plan, key, origin, claim)
        return self._settle()

    def facts(self, relation: str) -> Iterable[Row]:
        """See `Node.facts`."""
        return self.tables[self.program.numbers[relation]].rows

    def waiting(self) -> int:
        """Nothing ever waits: a claim is applied when it comes."""
        return 0

    # ------------------------------------------------------------------------------------------------ claims

    def _put(self, plan: RelationPlan, key: Key, origin: Any, claim: Claim) -> None:
        claims = self.claims[plan.number]
        have = claims.get(key)
        if have is None or (type(have) is tuple and have[0] == origin):
            claims[key] = (origin, claim)
        elif type(have) is dict:
            have[origin] = claim
        else:
            claims[key] = {have[0]: have[1], origin: claim}
        self._mark(plan, key)

    def _drop(self, plan: RelationPlan, key: Key, origin: Any) -> None:
        claims = self.claims[plan.number]
        have = claims.get(key)
        if type(have) is dict:
            if have.pop(origin, None) is None:
                return
            if len(have) == 1:
                claims[key] = next(iter(have.items()))
        elif have is not None and have[0] == origin:
            del claims[key]
        else:
            return
        self._mark(plan, key)

    def _mark(self, plan: RelationPlan, key: Key) -> None:
        if same_address(key[plan.place], self.address):
            self.dirty[plan.number][key] = None
        else:
            self.remote[plan.number][key] = None

    def _choose(self, plan: RelationPlan, key: Key, current: Claim | None) -> Claim | None:
        """The best claim for a key; `current` stays while nothing is better, so that ties do not send messages."""
        have = self.claims[plan.number].get(key)
        if plan.folds:
            return self._folded(plan, key, have)
        if have is None:
            return None
        cause = self.suspect[plan.number].get(key)
        if not isinstance(have, dict):
            return have[1] if cause is None or not _rests_on(have[1][3], cause) else None
        best: Claim | None = None
        for claim in have.values():
            if cause is not None and _rests_on(claim[3], cause):
                continue
            if best is None or claim[0] < best[0] or (claim[0] == best[0] and _is_closer(claim, best, current)):
                best = claim
        return best

    def _folded(self, plan: RelationPlan, key: Key, have: Claims | None) -> Claim | None:
        """The aggregate over all claims of a group that no recursion reads; for its owner, if that is another node, the
        part that is known here.
        """
        if have is None:
            return None
        assert plan.parts is not None
        values: list[Any] = []
        parts: list[Any] = []
        for origin, claim in have.items() if isinstance(have, dict) else (have,):
            (parts if origin[0] == TOLD else values).append(claim[2])
        try:
            if values:
                parts.append(plan.parts.part(values, plan.value_kind))
            whole = same_address(key[plan.place], self.address)
            return (0, 1, plan.parts.whole(parts, plan.value_kind) if whole else parts[0], None)
        except Fault as fault:
            detail = f"while evaluating the head of `{plan.name}`"
            raise DataError(Diagnostic("E510", f"{fault}", detail=detail), self.program.sources) from None

    # ---------------------------------------------------------------------------------------------- settling

    def _settle(self) -> list[Message]:
        """Follow the consequences here until nothing changes, lower components first; then tell the others."""
        order = self.program.order
        at = 0
        while at < len(order):
            plan = order[at]
            dirty = self.dirty[plan.number]
            if not dirty:
                at += 1
                continue
            self.dirty[plan.number] = {}
            for key in dirty:
                self._refresh(plan, key)
            at = plan.restart
        return self._tell()

    def _refresh(self, plan: RelationPlan, key: Key) -> None:
        """Bring what is visible of a key in line with its claims, and fire the rules that read it."""
        table = self.tables[plan.number]
        old = key if plan.aggregate is None else self.shown[plan.number].get(key)
        note = None if old is None else table.rows.get(old)
        claim = self._choose(plan, key, None if note is None else note[3])
        if note is None:
            if claim is not None:
                self._appear(plan, key, claim, None)
            return
        if claim is note[3]:
            return
        self.clock += 1
        cause = self._cause(plan, key, note, claim) if plan.recursive else None
        row = None if claim is None else plan.join(key, claim[2])
        assert old is not None
        if row == old:
            assert claim is not None
            if plan.recursive:
                table.rows[old] = self._note(plan, key, claim)
                self._fire_steps(plan.recursive_steps, old, cause)
            return
        self._vanish(plan, key, old, cause)
        if claim is not None:
            self._appear(plan, key, claim, cause)

    def _cause(self, plan: RelationPlan, key: Key, note: Any, claim: Claim | None) -> Cause | None:
        """Why a key got worse: what an update said, else the key itself. None if it did not."""
        if claim is not None and claim[:2] <= note[:2]:
            return None
        return self.causes[plan.number].get(key) or (plan.name, key, self.clock)

    def _note(self, plan: RelationPlan, key: Key, claim: Claim) -> Any:
        """What is kept with a visible row: its rank, the chain that proofs using it begin with, and its claim."""
        if not plan.recursive:
            return (0, 0, None, claim)
        rest = claim[3]
        size = wire.key_size(key) + (rest[3] if rest is not None else 0)
        return (claim[0], claim[1], (plan.name, key, rest, size, self.clock), claim)

    def _appear(self, plan: RelationPlan, key: Key, claim: Claim, cause: Cause | None) -> None:
        row = plan.join(key, claim[2])
        self.tables[plan.number].add(row, self._note(plan, key, claim))
        if plan.aggregate is not None:
            self.shown[plan.number][key] = row
        self._fire_steps(plan.steps, row, cause)
        self._trigger(plan, row)

    def _vanish(self, plan: RelationPlan, key: Key, row: Row, cause: Cause | None) -> None:
        for step in plan.steps:
            for head, rows in self._found(step, step.outer, row):
                self._retract(step, head, rows)
                if cause is not None and step.inside:
                    self._blame(step.head, head, cause)
        self.tables[plan.number].remove(row)
        if plan.aggregate is not None:
            del self.shown[plan.number][key]
        self._trigger(plan, row)

    # ------------------------------------------------------------------------------------------------- rules

    def _fire_steps(self, steps: tuple[Step, ...], row: Row, cause: Cause | None = None) -> None:
        for step in steps:
            for head, rows in self._found(step, step.full, row):
                self._derive(step, head, rows)
                if cause is not None and step.inside:
                    self._blame(step.head, head, cause)

    def _found(self, step: Step, function: int, row: Row) -> Instances:
        try:
            return self.functions[function](row)
        except Fault as fault:
            raise self.program.fault(step.rule, str(fault)) from None

    def _blame(self, plan: RelationPlan, head: Row, cause: Cause) -> None:
        """Remember why the claim for a head got worse."""
        if not head:
            return  # the head of an instance under a negation is not known when it goes
        key = plan.split(head)[0]
        self.causes[plan.number][key] = cause
        if same_address(key[plan.place], self.address):
            self.suspect[plan.number][key] = cause

    def _trigger(self, plan: RelationPlan, row: Row) -> None:
        """Look again at the instances of rules that negate or aggregate over a row that came or went."""
        for step in plan.triggers:
            for _, rows in self._found(step, step.outer, row):
                self._retract(step, (), rows)
            self._fire_steps((step,), row)

    def _retract(self, step: Step, head: Row, rows: tuple[Row, ...]) -> None:
        instance = (step.rule, rows)
        if step.nested:
            known = self.heads.pop(instance, None)
            if known is not None:
                self._drop(self.program.relations[known[0]], known[1], instance)
        else:
            self._drop(step.head, step.head.split(head)[0], instance)

    def _derive(self, step: Step, head: Row, rows: tuple[Row, ...]) -> None:
        """Make the claim of one rule instance, unless its proof contains what it proves."""
        plan = step.head
        instance = (step.rule, rows)
        if plan.aggregate is None:
            key, value = head, None
        else:
            key, value = plan.split(head)
        claim: Claim | None
        if not plan.recursive:
            claim = PLAIN if value is None else plan.claim(value)
        elif not step.inside:
            claim = plan.claim(value, 1)
        else:
            claim = self._extend(step, key, value, rows)
        if step.nested:
            self._retract(step, head, rows)
            if claim is not None:
                self.heads[instance] = (plan.number, key)
        if claim is None:
            self._drop(plan, key, instance)
        else:
            self._put(plan, key, instance, claim)

    def _extend(self, step: Step, key: Key, value: Any, rows: tuple[Row, ...]) -> Claim | None:
        """The claim of an instance that rests on its own component; None if it would go in a circle."""
        plan = step.head
        tables = self.tables
        potential, level, proof = plan.least, 0, None
        for number, relation in step.inside:
            note = tables[relation].rows[rows[number]]
            if note[0] > potential:
                potential = note[0]
            if note[1] > level:
                level = note[1]
            proof = note[2] if proof is None else _merged(proof, note[2])
        name = plan.name
        link = proof
        while link is not None:
            if link[1] == key and link[0] == name:
                return None
            link = link[2]
        if value is not None:
            own = plan.rank(value)
            if own < potential:
                raise self.program.improving(step.rule, plan)
            potential = own
        return (potential, level + 1, value, proof)

    # ----------------------------------------------------------------------------------------------- telling

    def _tell(self) -> list[Message]:
        """Messages with the claims that differ from what their targets were told."""
        outbox: dict[Address, list[tuple[Any, ...]]] = {}
        for plan in self.program.order:
            remote = self.remote[plan.number]
            if not remote:
                continue
            self.remote[plan.number] = {}
            told, place, name = self.told[plan.number], plan.place, plan.name
            for key in remote:
                before = told.get(key)
                claim = self._choose(plan, key, before)
                if claim is before or (plan.folds and claim == before):
                    continue
                if claim is None:
                    del told[key]
                else:
                    told[key] = claim
                cause = self.causes[plan.number].get(key)
                outbox.setdefault(key[place], []).append((name, key, claim, cause))
        for causes in self.causes:
            causes.clear()
        messages = []
        for target, updates in outbox.items():
            number = self.sent[target] = self.sent.get(target, 0) + 1
            messages.append(Message(self.address, target, number, tuple(updates)))
        return messages


def _is_closer(claim: Claim, best: Claim, current: Claim | None) -> bool:
    """Whether a claim of the same potential is to be taken: by its level, or because it is the present one."""
    return claim[1] < best[1] or (claim is current and claim[1] == best[1])


def _rests_on(proof: Any, cause: Cause) -> bool:
    """Whether a proof uses the key of `cause` as it was before."""
    name, key, version = cause
    while proof is not None:
        if proof[1] == key and proof[0] == name:
            return bool(proof[4] < version)
        proof = proof[2]
    return False


def _merged(one: Any, other: Any) -> Any:
    """A chain with the keys of both; the first is shared as it is."""
    have = set()
    link = one
    while link is not None:
        have.add(link[:2])
        link = link[2]
    chain, link = one, other
    while link is not None:
        if link[:2] not in have:
            chain = (link[0], link[1], chain, chain[3] + wire.key_size(link[1]), link[4])
        link = link[2]
    return chain


class _Channel:
    """What came from one other node: which of two claims for a key is newer, and which message came before.

    As long as messages come in order, only the number of the last one is kept. While some are missing, the number of
    the newest update of every key since then is kept too; the one that fills the gap removes it.
    """

    __slots__ = ("ahead", "newest", "prefix")

    def __init__(self) -> None:
        self.prefix = 0
        self.ahead: set[int] = set()
        self.newest: dict[tuple[str, Key], int] = {}

    def admit(self, number: int, updates: tuple[tuple[Any, ...], ...]) -> Iterable[tuple[Any, ...]] | None:
        """Those of the updates of message `number` that nothing newer has replaced; None if it came before."""
        if number <= self.prefix or number in self.ahead:
            return None
        if number == self.prefix + 1 and not self.ahead:
            self.prefix = number
            return updates
        self.ahead.add(number)
        fresh = [update for update in updates if self.newest.get(update[:2], 0) < number]
        for update in fresh:
            self.newest[update[:2]] = number
        while self.prefix + 1 in self.ahead:
            self.prefix += 1
            self.ahead.discard(self.prefix)
        if not self.ahead:
            self.newest.clear()
        return fresh
