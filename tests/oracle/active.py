"""Active rules by the book: in every cycle match all rules on the database, drop what is both added and deleted, apply.

    run(program, facts, limit, given)   every cycle's database and numbers, and how the run ended

Sets and dicts, everything matched again in every cycle. It shares the solver of `naive` and nothing with the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sempre.lang import syntax as s
from tests.oracle.clauses import Clauses, clauses_of
from tests.oracle.naive import Facts, State, fire, typed
from tests.oracle.values import Row

Fact = tuple[str, Row]
Database = frozenset[Fact]
Numbers = dict[Fact, tuple[int, int]]
# By cycle, the facts that somebody adds and those that somebody deletes in it: no fact is in both.
Given = Mapping[int, tuple[Facts, Facts]]


@dataclass(frozen=True)
class Run:
    """`databases[k]` is what holds after cycle k, `numbers[k]` how often facts were added and deleted in it.

    The last cycle is the first that changes nothing, after all in which something is given; or, with a `period`, the
    first after which the database is that of `period` cycles before, with nothing given since; or, if neither came, the
    one at the limit.
    """

    databases: list[Database]
    numbers: list[Numbers]
    ended: bool
    period: int = 0

    @property
    def cycles(self) -> int:
        return len(self.databases) - 1

    def database(self, cycle: int) -> Database:
        """What holds after a cycle; after the last one everything stays."""
        return self.databases[min(cycle, self.cycles)]

    def number(self, cycle: int) -> Numbers:
        return self.numbers[min(cycle, self.cycles)]


def halves(program: s.ParsedProgram) -> tuple[Clauses, Clauses]:
    """The rules that add and those that delete, the latter as if they added."""
    inline = {item.name for item in program.items if isinstance(item, s.RelationDecl) and "inline" in item.qualifiers}
    adding: list[s.Item] = []
    deleting: list[s.Item] = []
    for item in program.items:
        if not isinstance(item, s.Rule):
            adding.append(item)
            deleting.append(item)
            continue
        plus = tuple(head for head in item.heads if not head.deletes)
        minus = tuple(replace(head, deletes=False) for head in item.heads if head.deletes)
        if plus:
            adding.append(replace(item, heads=plus))
            if plus[0].atom.relation in inline:
                deleting.append(item)
        if minus:
            deleting.append(replace(item, heads=minus))
    return clauses_of(s.ParsedProgram(tuple(adding))), clauses_of(s.ParsedProgram(tuple(deleting)))


def own_facts(program: s.ParsedProgram) -> Facts:
    """The facts that the program itself states."""
    return {name: set(rows) for name, rows in halves(program)[0].facts.items()}


def put(given: Given, cycle: int, insert: Facts, delete: Facts) -> dict[int, tuple[Facts, Facts]]:
    """What is given after somebody deletes and then inserts facts in a cycle: the last word on each fact counts."""
    plus, minus = given.get(cycle, ({}, {}))
    names = {*plus, *minus, *insert, *delete}
    going = {name: (minus.get(name, set()) | delete.get(name, set())) - insert.get(name, set()) for name in names}
    coming = {name: (plus.get(name, set()) - delete.get(name, set())) | insert.get(name, set()) for name in names}
    return {**given, cycle: (coming, going)}


def run(program: s.ParsedProgram, explicit: Facts, limit: int = 200, given: Given | None = None) -> Run:
    """The run on exactly these input facts, with what is given in its cycles: an operation as if a rule had done it."""
    given = given or {}
    final = max((cycle for cycle, both in given.items() if any(any(facts.values()) for facts in both)), default=0)
    adding, deleting = halves(program)
    names = [name for name in adding.schema.columns if name not in adding.schema.inline]
    start = frozenset((name, row) for name, rows in typed(adding, explicit).items() for row in rows)
    result = Run([start], [{}], False)
    seen = {start: 0}
    while result.cycles < limit:
        before = result.databases[-1]
        relations = {name: {row for other, row in before if other == name} for name in names}
        plus, minus = given.get(result.cycles + 1, ({}, {}))
        numbers = _numbers(adding, deleting, relations, typed(adding, plus), typed(adding, minus))
        after = set(before)
        for fact, (added, deleted) in numbers.items():
            if added and not deleted:
                after.add(fact)
            elif deleted and not added:
                after.discard(fact)
        database = frozenset(after)
        result.databases.append(database)
        result.numbers.append(numbers)
        if result.cycles <= final:
            seen = {database: result.cycles}
            continue
        if database == before:
            return replace(result, ended=True)
        if database in seen:
            return replace(result, period=result.cycles - seen[database])
        seen[database] = result.cycles
    return result


def _numbers(adding: Clauses, deleting: Clauses, relations: Facts, plus: Facts, minus: Facts) -> Numbers:
    """How many instances, and who gives facts, add and delete each fact."""
    state = State(relations)
    added = Counter((rule.relation, head) for rule in adding.rules for head, _ in fire(rule, state))
    for name in adding.schema.equivalences:
        added.update(_closing(name, relations[name]))
    deleted = Counter((rule.relation, head) for rule in deleting.rules for head, _ in fire(rule, state))
    for counter, facts in ((added, plus), (deleted, minus)):
        counter.update((name, row) for name, rows in facts.items() for row in rows)
    return {fact: (added[fact], deleted[fact]) for fact in {*added, *deleted}}


def _closing(name: str, pairs: set[Row]) -> list[Fact]:
    """One step of the closure of an equivalence relation: by symmetry, and by transitivity."""
    found = [(name, (right, left)) for left, right in pairs]
    return found + [(name, (a, d)) for a, b in pairs for c, d in pairs if b == c]
