"""Random active programs, with updates that arrive at random cycles, for the input or for any cycle.

    random_case(rng)   a program, its facts, and a script of cycles and updates

Rules read and delete whatever they like. Values come from a finite set, so a run ends or repeats itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from sempre.lang import syntax as s
from tests.oracle.naive import Facts
from tests.property.bodies import Body, Relation
from tests.property.dice import Dice
from tests.property.programs import Maker, Update

ARITIES = (1, 1, 1, 2, 2, 2, 2, 3, 0)
# Cycles to do before the next update; None is to the end.
Wait = int | None


@dataclass(frozen=True)
class Step:
    """An update that comes after so many cycles, and is for a cycle: 0 is the input."""

    wait: Wait
    update: Update
    cycle: int


@dataclass(frozen=True)
class ActiveCase:
    """The program, the facts it starts with beyond its own, and updates."""

    program: s.ParsedProgram
    facts: Facts
    script: list[Step]


def random_case(rng: random.Random) -> ActiveCase:
    return _ActiveMaker(Dice(rng.randrange)).active_case()


class _ActiveMaker(Maker):
    bounded = True

    def active_case(self) -> ActiveCase:
        for number in range(self.dice.between(1, 2)):
            self.relations.append(Relation(f"e{number}", self._columns(self.dice.choose(ARITIES)), 0, "base"))
        base = list(self.relations)
        for number in range(self.dice.between(2, 4)):
            self.relations.append(Relation(f"p{number}", self._columns(self.dice.choose(ARITIES)), 1))
        if self.dice.chance(8):
            self.relations.append(Relation("eq", (self.kinds[0], self.kinds[0]), 1, "eqrel"))
        for relation in self.relations[len(base) :]:
            if self.dice.chance(80):
                self.rules.append(self._rule(relation, base, []))
        for _ in range(self.dice.between(3, 7)):
            self.rules.append(self._active_rule())
        facts = self._facts()
        updates = list(self._updates(facts))
        stated = self._state_some(facts)
        pragma = s.Pragma("semantics", "active")
        program = s.ParsedProgram((pragma, *self._declarations(), *stated, *self.rules))
        return ActiveCase(program, facts, [Step(self._wait(), update, self._cycle()) for update in updates])

    def _wait(self) -> Wait:
        return None if self.dice.chance(40) else self.dice.below(6)

    def _cycle(self) -> int:
        """Mostly a cycle of the past, if the run is not very short; now and then one that is still to come."""
        return 0 if self.dice.chance(40) else self.dice.between(1, 7)

    def _active_rule(self) -> s.Rule:
        """A rule for any relation; a third of them delete, base facts more often than they are added."""
        deletes = self.dice.chance(40)
        base = [relation for relation in self.relations if relation.role == "base"]
        others = [relation for relation in self.relations if relation.role != "base"]
        head = self.dice.choose(base if self.dice.chance(40 if deletes else 10) else others)
        if deletes and self.dice.chance(60):
            return self._removal(head)
        # Reading other relations than its own in negations keeps many programs from going back and forth.
        lower = self.relations if self.dice.chance(40) else [r for r in self.relations if r != head]
        members = [head, *(r for r in self.dice.some(self.relations, 2) if r != head)]
        rule = self._rule(head, lower, members)
        if not deletes and self.dice.chance(25):
            return replace(rule, body=s.conjunction([rule.body, s.Negation(rule.heads[0].atom)]))
        return replace(rule, heads=tuple(replace(one, deletes=deletes) for one in rule.heads))

    def _removal(self, head: Relation) -> s.Rule:
        """`-p(x, y) :- p(x, y), ...`: takes away facts that are there."""
        body = Body(self.dice, self.relations, self.size, recursive=True)
        known = [s.Variable(body.fresh(kind)) for kind in head.kinds]
        for variable, kind in zip(known, head.kinds, strict=True):
            body.bind(kind, variable.name)
        atom = s.Atom(head.name, tuple(known))
        body.parts.append(atom)
        if self.dice.chance(70):
            body.parts.append(body.atom(self.dice.choose(self.relations)))
        if self.dice.chance(30):
            body.add_negation(self.dice.below(2))
        return s.Rule((s.Head(atom, deletes=True),), body.formula())
