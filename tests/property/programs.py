"""Random programs with facts and updates, valid by construction.

    cases()            a Hypothesis strategy of `Case`
    random_case(rng)   the same from a `random.Random`, for thousands of cases

A program has base relations (facts only) and groups of derived relations. A group is a stratum: its one or two
relations may read each other, negations and aggregates read lower groups. Every relation but the inline ones may have
explicit facts, in the program or in `Case.facts`. Values come from small domains, so that joins meet.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from hypothesis import strategies as st

from sempre.lang import syntax as s
from tests.oracle.naive import Facts
from tests.property.bodies import Body, Relation
from tests.property.dice import RECORD, Dice, literal

ARITIES = (2, 2, 2, 2, 2, 1, 1, 1, 3, 3, 4, 0)
Update = tuple[Facts, Facts]


@dataclass(frozen=True)
class Case:
    """A program, the facts it starts with beyond its own, and epochs of (insert, delete); deletions come first."""

    program: s.ParsedProgram
    facts: Facts
    updates: list[Update] = field(default_factory=list)


def random_case(rng: random.Random) -> Case:
    return Maker(Dice(rng.randrange)).case()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Maker(Dice(lambda bound: draw(_below(bound)) if bound > 1 else 0)).case()


@lru_cache(maxsize=256)
def _below(bound: int) -> st.SearchStrategy[int]:
    return st.integers(0, bound - 1)


class Maker:
    """Makes a case from dice. With `bounded`, no rule makes values without end, whatever it reads."""

    bounded = False

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.size = dice.between(3, 5)
        self.kinds = self._kinds()
        self.relations: list[Relation] = []
        self.rules: list[s.Rule] = []
        self.types = {kind: kind for kind in self.kinds}

    def _kinds(self) -> list[str]:
        """The kinds of columns; the first one is the common one."""
        main = self.dice.choose(("number", "number", "number", "symbol"))
        extra = [kind for kind in ("number", "symbol") if kind != main and self.dice.chance(40)]
        return [main, *extra, *(kind for kind in ("unsigned", "float", RECORD) if self.dice.chance(10))]

    def case(self) -> Case:
        for number in range(self.dice.between(1, 2)):
            self.relations.append(Relation(f"e{number}", self._columns(), 0, "base"))
        for group in range(1, 2 + self.dice.below(3)):
            self._add_group(group)
        facts = self._facts()
        updates = list(self._updates(facts))
        stated = self._state_some(facts)
        return Case(s.ParsedProgram((*self._declarations(), *stated, *self.rules)), facts, updates)

    def _columns(self, arity: int | None = None) -> tuple[str, ...]:
        arity = self.dice.choose(ARITIES) if arity is None else arity
        return tuple(self.kinds[0] if not self.dice.chance(20) else self.dice.choose(self.kinds) for _ in range(arity))

    # -------------------------------------------------------------------------------------------- groups

    def _add_group(self, group: int) -> None:
        roll = self.dice.below(20)
        if roll == 17:
            self._add_inline(group)
        elif roll == 18:
            self._add_equivalence(group)
        elif roll == 19:
            self._add_fold(group)
        else:
            count = 2 if self.dice.chance(35) else 1
            columns = self._columns()
            members = [Relation(f"p{group}a", columns, group)]
            if count == 2:
                columns = columns if self.dice.chance(60) else self._columns()
                members.append(Relation(f"p{group}b", columns, group))
            self._add_rules(members)

    def _add_rules(self, members: list[Relation]) -> None:
        lower = list(self.relations)
        self.relations += members
        for relation in members:
            self.rules.append(self._rule(relation, lower, []))
        recursive = self.dice.chance(85)
        for relation in members:
            for _ in range(self.dice.below(2) + (recursive and len(members) > 1)):
                self.rules.append(self._rule(relation, lower, members))
        if recursive and len(members) == 1:
            self.rules.append(self._rule(members[0], lower, members))
        if self.dice.chance(5):
            self.rules.append(self.rules[-1])  # the same rule twice: its instances count twice

    def _add_inline(self, group: int) -> None:
        relation = Relation(f"inl{group}", self._columns(), group, "inline")
        for _ in range(self.dice.between(1, 2)):
            self.rules.append(self._rule(relation, self.relations, []))
        self.relations.append(relation)

    def _add_equivalence(self, group: int) -> None:
        relation = Relation(f"eq{group}", (self.kinds[0], self.kinds[0]), group, "eqrel")
        lower = list(self.relations)
        self.relations.append(relation)
        self.rules.append(self._rule(relation, lower, []))
        if self.dice.chance(40):
            self.rules.append(self._rule(relation, lower, [relation]))

    def _add_fold(self, group: int) -> None:
        """`dist(y, min(d + w))`: shortest distances over a base relation, or an aggregate that is not recursive."""
        edges = [r for r in self.relations if r.role == "base" and len(r.kinds) > 1 and r.kinds[0] == r.kinds[1]]
        if edges and self.dice.chance(60):
            self._add_distances(group, self.dice.choose(edges))
            return
        relation = Relation(f"agg{group}", (*self._columns(1), "number"), group, "fold")
        kind = self.dice.choose(("min", "max", "sum", "count"))
        for _ in range(self.dice.between(1, 2)):
            body = self._body(self.relations, [], relation)
            head = (body.known(relation.kinds[0]), s.HeadAggregate(kind, body.known("number")))
            self.rules.append(_rule((s.Atom(relation.name, head),), body))
        self.relations.append(relation)

    def _add_distances(self, group: int, edges: Relation) -> None:
        relation = Relation(f"dist{group}", (edges.kinds[0], "number"), group, "fold")
        source, target, far = s.Variable("x"), s.Variable("y"), s.Variable("d")
        rest: list[s.Term] = [s.Wildcard() for _ in edges.kinds[2:]]
        weight: s.Term = s.Number(1)
        if "number" in edges.kinds[2:]:
            weight = s.Variable("w")
            rest[edges.kinds[2:].index("number")] = weight
        step = s.Atom(edges.name, (source, target, *rest))
        total = s.HeadAggregate("min", s.Apply("+", (far, weight)))
        first = s.Atom(edges.name, (source, *[s.Wildcard() for _ in edges.kinds[1:]]))
        start = s.HeadAggregate("min", s.Number(self.dice.below(2)))
        self.rules.append(s.Rule((s.Head(s.Atom(relation.name, (source, start))),), first))
        reached = s.Atom(relation.name, (source, far))
        body = s.conjunction([reached, step])
        self.rules.append(s.Rule((s.Head(s.Atom(relation.name, (target, total))),), body))
        self.relations.append(relation)

    # --------------------------------------------------------------------------------------------- rules

    def _rule(self, relation: Relation, lower: list[Relation], members: list[Relation]) -> s.Rule:
        """A rule for `relation`; it reads `members`, its own stratum, if there are any."""
        if not members and self.dice.chance(4):
            return self._unconditional(relation, lower)
        if members and self.dice.chance(60):
            like = [m for m in members if m.kinds == relation.kinds]
            step = self._step(relation, like[-1] if relation == like[0] else like[0], lower + self._narrow(members))
            if step is not None:
                return step
        body = self._body(lower, members, relation)
        heads = [self._head(relation, body, bool(members))]
        if len(members) == 2 and self.dice.chance(10):
            heads.append(self._head(next(m for m in members if m != relation), body, True))
        return _rule(tuple(heads), body)

    def _narrow(self, members: list[Relation]) -> list[Relation]:
        """Without wide relations: joined with themselves, they grow too large."""
        return [member for member in members if len(member.kinds) < 4]

    def _step(self, relation: Relation, source: Relation, readable: list[Relation]) -> s.Rule | None:
        """`p(.. z ..) :- q(.. y ..), e(.. y .. z ..)`: one step from fact to fact, with little in its way.

        `source` is q: p itself, or another relation of its stratum with the same columns.
        """
        steps = [(r, i, j) for r in readable for i, j in _links(r) if r.kinds[i] in relation.kinds]
        if not steps:
            return None
        link, start, end = self.dice.choose(steps)
        column = relation.kinds.index(link.kinds[start])
        body = Body(self.dice, [r for r in readable if r.group < relation.group], self.size, recursive=True)
        known = [s.Variable(body.fresh(kind)) for kind in relation.kinds]
        target = s.Variable(body.fresh(link.kinds[end]))
        args: list[s.Term] = [s.Wildcard() for _ in link.kinds]
        args[start], args[end] = known[column], target
        body.parts += [s.Atom(source.name, tuple(known)), s.Atom(link.name, tuple(args))]
        if self.dice.chance(50):
            body.parts.reverse()
        for variable, kind in zip((*known, target), (*relation.kinds, link.kinds[end]), strict=True):
            body.bind(kind, variable.name)
        if self.dice.chance(25):
            body.add_negation(self.dice.below(2))
        head = (*known[:column], target, *known[column + 1 :])
        return _rule((s.Atom(relation.name, head),), body)

    def _unconditional(self, relation: Relation, lower: list[Relation]) -> s.Rule:
        """A rule without a positive atom."""
        body = Body(self.dice, lower, self.size)
        body.add_comparison()
        if lower:
            body.add_negation()
        return _rule((s.Atom(relation.name, tuple(body.constant(kind) for kind in relation.kinds)),), body)

    def _body(self, lower: list[Relation], members: list[Relation], head: Relation) -> Body:
        body = Body(self.dice, lower, self.size, recursive=bool(members) or self.bounded)
        count = self.dice.choose((1, 2, 2, 2, 3))
        recursive_at = self.dice.below(count) if members else -1
        narrow = self._narrow(members)
        others = [member for member in members if member != head]
        own = others if others and self.dice.chance(70) else members
        for position in range(count):
            source = own if position == recursive_at else narrow if narrow and self.dice.chance(20) else lower
            body.parts.append(body.atom(self.dice.choose(source)))
        for kind in head.kinds:
            sources = [r for r in lower if kind in r.kinds]
            if not body.bound.get(kind) and sources and not self.dice.chance(30):
                body.parts.append(body.atom(self.dice.choose(sources)))
        self._decorate(body, lower + narrow)
        return body

    def _decorate(self, body: Body, readable: list[Relation]) -> None:
        if len(body.parts) < 3 and self.dice.chance(20):
            body.add_disjunction(readable)
        if self.dice.chance(22):
            body.add_arithmetic()
        if self.dice.chance(12):
            body.add_aggregate()
        if self.dice.chance(30):
            body.add_negation(self.dice.below(3))
        if self.dice.chance(20):
            body.add_comparison()

    def _head(self, relation: Relation, body: Body, recursive: bool) -> s.Atom:
        return s.Atom(relation.name, tuple(self._head_term(kind, body, recursive) for kind in relation.kinds))

    def _head_term(self, kind: str, body: Body, recursive: bool) -> s.Term:
        if kind == RECORD and body.bound.get("number") and self.dice.chance(60):
            return s.Record((body.known("number"), body.known("number")))
        if kind == "number" and not (recursive or self.bounded) and body.bound.get(kind) and self.dice.chance(5):
            return body.expression(kind, s.Variable(self.dice.choose(body.bound[kind])))
        return body.known(kind)

    # ------------------------------------------------------------------------------------ facts and items

    def _row(self, relation: Relation) -> tuple[object, ...]:
        return tuple(self.dice.value(kind, self.size) for kind in relation.kinds)

    def _facts(self) -> Facts:
        """Many facts for base relations, a few for some of the others."""
        facts: Facts = {}
        for relation in self.relations:
            if relation.role == "base":
                count = self.dice.between(2, 4 + 3 * len(relation.kinds))
            else:
                count = self.dice.between(1, 2) if self.dice.chance(25) and self._may_have_facts(relation) else 0
            rows = {self._row(relation) for _ in range(count)}
            if rows:
                facts[relation.name] = rows
        return facts

    def _may_have_facts(self, relation: Relation) -> bool:
        return relation.role != "inline" and not relation.name.startswith("agg")

    def _state_some(self, facts: Facts) -> list[s.Rule]:
        """Moves some facts into the program."""
        stated: list[s.Rule] = []
        for relation in self.relations:
            if relation.name in facts and self.dice.chance(20):
                for row in self.dice.some(sorted(facts[relation.name], key=repr), 3):
                    args = tuple(map(literal, row, relation.kinds))
                    stated.append(s.Rule((s.Head(s.Atom(relation.name, args)),)))
                    facts[relation.name].discard(row)
        return stated

    def _updates(self, facts: Facts) -> Iterator[Update]:
        """Epochs that mostly delete facts that are there and insert others, and sometimes do neither."""
        present = {name: set(rows) for name, rows in facts.items()}
        for _ in range(self.dice.between(1, 4)):
            insert: Facts = {}
            delete: Facts = {}
            for relation in self.relations:
                likely = 75 if relation.role == "base" else 15
                if not self._may_have_facts(relation) or not self.dice.chance(likely):
                    continue
                there = sorted(present.get(relation.name, ()), key=repr)
                delete[relation.name] = set(self.dice.some(there, 3))
                if self.dice.chance(10):
                    delete[relation.name].add(self._row(relation))
                insert[relation.name] = {self._row(relation) for _ in range(self.dice.below(3))}
                present[relation.name] = set(there) - delete[relation.name] | insert[relation.name]
            yield {n: rows for n, rows in insert.items() if rows}, {n: rows for n, rows in delete.items() if rows}

    def _declarations(self) -> Iterator[s.Item]:
        if RECORD in self.kinds:
            fields = (s.Attribute("first", "number"), s.Attribute("second", "number"))
            yield s.TypeDecl(RECORD, s.RecordType(fields))
        for relation in self.relations:
            attributes = tuple(s.Attribute(f"c{i}", kind) for i, kind in enumerate(relation.kinds))
            qualifiers = (relation.role,) if relation.role in ("inline", "eqrel") else ()
            yield s.RelationDecl(relation.name, attributes, qualifiers)
            if relation.role != "inline" and self.dice.chance(20):
                yield s.Directive("output", (relation.name,))


def _links(relation: Relation) -> list[tuple[int, int]]:
    """Pairs of columns of one kind."""
    columns = range(len(relation.kinds))
    return [(i, j) for i in columns for j in columns if i != j and relation.kinds[i] == relation.kinds[j]]


def _rule(heads: tuple[s.Atom, ...] | list[s.Atom], body: Body) -> s.Rule:
    return s.Rule(tuple(map(s.Head, heads)), body.formula())
