"""Magic sets: relations of which only the facts that somebody asks for are derived.

A relation that is asked for by its first column has a relation of demand, which guards its rules, and rules that say
what its own rules ask for in turn:

    reach(x, y) :- reach(x, z), edge(z, y).

    reach(x, y) :- demand#reach#0(x), reach(x, z), edge(z, y).
    demand#reach#0(x) :- demand#reach#0(x).                       which says nothing, and is left out

A pattern is the columns that are given: each pattern by which a relation is asked for has a relation of demand, and the
rules once more. The relation itself stays one. It holds true facts only, and among them every fact that is in demand;
so whoever reads it reads what it would read of the whole relation, negated or not, as long as it asked first.

A negation or an aggregate must be complete before it is read. Where the demand for what it reads would depend on what
the reader derives, the relation and all below it are derived in full, so that the strata stay strata.

Demand goes from left to right through atoms, comparisons and records that are taken apart. It does not go through
functors: values that nothing but a question leads to could overflow, or have no end.

Reference: [BMSU86], [BR87] for the rewriting; [BPRM91] for strata. Differs: relations are not copied for each pattern.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Fold,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Unpack,
    Var,
)
from sempre.analysis.name_graphs import components
from sempre.analysis.strata import arranged, matches, rule_graph
from sempre.data import dataclass
from sempre.plan.ops import relations_of
from sempre.rewrites.checked_text import rule_text

PREFIX = "demand#"
QUALIFIER = "demand"
# A relation that is asked for by more patterns than this is asked for by single columns from then on.
MOST_PATTERNS = 8
# The body of a rule that asks for constants, whatever the facts are: plans have a step at least.
ALWAYS = Compare("=", Const(0, Kind.NUMBER), Const(0, Kind.NUMBER), Kind.NUMBER)

# The columns of a relation that are given.
Pattern = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a program is asked for.

    `whole` are relations that are wanted in full. `asked` are patterns by which somebody outside of the program asks,
    by relation: these get relations of demand, to be filled. Relations in `on_demand` are derived as far as they are
    asked for. A goal is `lasting` when demand comes and goes: then even a relation that a rule needs in full waits
    until somebody asks for what the rule derives.
    """

    whole: frozenset[str]
    on_demand: frozenset[str]
    asked: Mapping[str, tuple[Pattern, ...]] = field(default_factory=dict)
    lasting: bool = False


def with_demand(program: CheckedProgram) -> CheckedProgram:
    """The program with its `demand` relations derived as far as they are asked for: all at once, or by one column."""
    declared = on_demand(program)
    if not declared:
        return program
    asked = {name: outside_patterns(program.relations[name]) for name in sorted(declared)}
    whole = frozenset(program.relations) - declared
    return demanded(program, Goal(whole, declared, asked, lasting=True))


def on_demand(program: CheckedProgram) -> frozenset[str]:
    """The relations that are declared to be derived on demand."""
    return frozenset(name for name, relation in program.relations.items() if QUALIFIER in relation.qualifiers)


def outside_patterns(relation: Relation) -> tuple[Pattern, ...]:
    """By what a relation on demand can be asked for from outside: nothing, or one of its columns."""
    return ((), *((column,) for column in range(relation.arity)))


def demand_name(relation: str, pattern: Pattern) -> str:
    """The relation of demand; no program can declare it."""
    return f"{PREFIX}{relation}#{'.'.join(map(str, pattern))}"


def is_demand(relation: str) -> bool:
    """Whether a relation is one of demand."""
    return relation.startswith(PREFIX)


def demanded(program: CheckedProgram, goal: Goal) -> CheckedProgram:
    """The program that derives what the goal asks for, and what that needs.

    Other relations have no rules, facts and inputs; they stay declared, so that changes may go on to name them.

    A relation in `goal.asked` that has to be derived in full anyway has no relations of demand.
    """
    reads = rule_graph(program.relations, program.rules)
    recurring = {name: frozenset(members) for members in components(reads) for name in members}
    derived = {rule.relation for rule in program.rules}
    full = {name for name in program.relations if name not in derived or not _can_wait(program.relations[name], goal)}
    while True:
        magic = _Magic(program, goal, frozenset(full), recurring)
        more = magic.whole | _below(magic.out_of_order(), reads)
        if more <= full:
            assert not more, "what is derived in full depends on no demand"
            return magic.program()
        full |= more


def _can_wait(relation: Relation, goal: Goal) -> bool:
    """Whether a relation can be derived in part: an aggregate in heads, and a closure, are derived as a whole."""
    is_whole = relation.name in goal.whole or relation.aggregate is not None or relation.is_equivalence
    return relation.name in goal.on_demand and not is_whole


def _below(names: Iterable[str], reads: Mapping[str, Sequence[str]]) -> set[str]:
    """The relations, and all that they are made of."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += reads[name]
    return found


class _Magic:
    """The rules for one goal, when the relations in `full` are derived in full.

    `recurring` has the relations that recur through each other in the program, for each of them.
    `whole` are other relations that turned out to be needed in full: then all has to be done again.
    """

    def __init__(
        self, program: CheckedProgram, goal: Goal, full: frozenset[str], recurring: Mapping[str, frozenset[str]]
    ) -> None:
        self.source = program
        self._recurring = recurring
        self.goal = goal
        self.full = full
        self.whole: set[str] = set()
        self.rules: list[NormalRule] = []
        self.demands: dict[str, Relation] = {}
        self._said: set[tuple[str, tuple[Var | Const, ...], tuple[Literal, ...]]] = set()
        self._patterns: dict[str, list[Pattern]] = {}
        rules_of: dict[str, list[NormalRule]] = {}
        for rule in program.rules:
            rules_of.setdefault(rule.relation, []).append(rule)
        # What is to be derived, in the order in which it was found: a relation in full, or for a pattern.
        self._tasks: list[tuple[str, Pattern | None]] = []
        self._found: set[tuple[str, Pattern | None]] = set()
        self._relations = ChainMap(self.demands, program.relations)
        for name in sorted(goal.whole):
            self._task(name, None)
        for name, patterns in goal.asked.items():
            for pattern in patterns:
                self._ask(name, pattern)
        for name, asked in self._tasks:  # which grows meanwhile
            for rule in rules_of.get(name, ()):
                self._derive(rule, asked)

    def _task(self, name: str, pattern: Pattern | None) -> None:
        if (name, pattern) not in self._found:
            self._found.add((name, pattern))
            self._tasks.append((name, pattern))

    def _ask(self, name: str, pattern: Pattern) -> None:
        """A relation is to be derived as far as a pattern asks for it."""
        if name in self.full:
            self._task(name, None)
            return
        source = self.source.relations[name]
        made = demand_name(name, pattern)
        columns = tuple(source.columns[column] for column in pattern)
        types = tuple(source.types[column] for column in pattern)
        self.demands[made] = Relation(made, columns, types, span=source.span)
        self._task(name, pattern)

    def _derive(self, rule: NormalRule, pattern: Pattern | None) -> None:
        """Take a rule over, for a pattern or in full, and ask for what it reads."""
        guard = None if pattern is None else _guard(rule, pattern)
        taken = rule if guard is None else _guarded(rule, guard, self.source.relations[rule.relation])
        self.rules.append(taken)
        for name in sorted(relations_of(rule.body) & self.full):
            self._task(name, None)
        first = () if guard is None else (guard.atom,)
        for asking in _askings(rule.body, first, self.full, self._recurring[rule.relation]):
            self._demand(taken, None if guard is None else guard.atom, asking)

    def _demand(self, rule: NormalRule, guard: Match | None, asking: _Asking) -> None:
        """What a rule asks for, as a rule."""
        name = asking.atom.relation
        if guard is not None and guard.relation == demand_name(name, ()):  # all of it is in demand
            return
        pattern = self._few(name, asking.pattern)
        if not pattern and (guard is None or not self.goal.lasting):
            self.whole.add(name)
            return
        self._ask(name, pattern)
        args = tuple(asking.atom.args[column] for column in pattern)
        made = demand_name(name, pattern)
        body = _relevant(asking.before, args, guard) or (ALWAYS,)
        if Match(made, args) in body or (made, args, body) in self._said:
            return
        self._said.add((made, args, body))
        new = NormalRule(0, made, args, body, rule.kinds, False, "", rule.span, rule.records)
        self.rules.append(replace(new, text=" ".join(rule_text(new, self._relations).split())))

    def _few(self, name: str, pattern: Pattern) -> Pattern:
        """The pattern, or one column of it where there are too many patterns already."""
        mine = self._patterns.setdefault(name, [])
        if pattern not in mine:
            if len(mine) >= MOST_PATTERNS:
                pattern = pattern[:1]
            if pattern not in mine:
                mine.append(pattern)
        return pattern

    def out_of_order(self) -> set[str]:
        """Relations that are not complete when a negation or an aggregate needs them."""
        graph = rule_graph((*self.source.relations, *self.demands), self.rules)
        home = {name: number for number, members in enumerate(components(graph)) for name in members}
        found = {
            atom.relation
            for rule in self.rules
            for literal in rule.body
            if isinstance(literal, Not | Fold)
            for atom in matches(literal.body)
            if home[atom.relation] == home[rule.relation]
        }
        # An aggregate in heads may recur with the relations it did recur with, which were checked, and no others.
        for name, relation in self.source.relations.items():
            if relation.aggregate is not None:
                now = {other for other in graph if home[other] == home[name]}
                found |= set() if now <= self._recurring[name] else {name}
        return found

    def program(self) -> CheckedProgram:
        """The program of these rules."""
        needed = {name for name, _ in self._found}
        # The demand of a goal that does not last is settled: nobody can ask for more.
        settled = frozenset() if self.goal.lasting else frozenset((QUALIFIER,))
        relations = {
            name: replace(
                relation,
                qualifiers=relation.qualifiers - settled,
                inputs=relation.inputs if name in needed else (),
            )
            for name, relation in self.source.relations.items()
        }
        relations |= self.demands
        rules = tuple(replace(rule, number=number) for number, rule in enumerate(self.rules))
        facts = tuple(fact for fact in self.source.facts if fact.relation in needed)
        return replace(self.source, relations=relations, facts=facts, rules=rules, strata=arranged(relations, rules))


# -------------------------------------------------------------------------------------------------------- guards


@dataclass(frozen=True, slots=True)
class _DemandGuard:
    """The atom of demand before a rule; `tests` compare its values with those that the head computes."""

    atom: Match
    tests: tuple[tuple[int, Compare], ...]


def _guard(rule: NormalRule, pattern: Pattern) -> _DemandGuard:
    args: list[Var | Const] = []
    tests = []
    for column in pattern:
        arg = rule.args[column]
        if isinstance(arg, Call):
            asked = Var(f"#d{column}")
            tests.append((column, Compare("=", asked, arg, arg.kind, arg.span)))
            args.append(asked)
        else:
            args.append(arg)
    return _DemandGuard(Match(demand_name(rule.relation, pattern), tuple(args)), tuple(tests))


def _guarded(rule: NormalRule, guard: _DemandGuard, relation: Relation) -> NormalRule:
    """The rule for the facts that are in demand."""
    kinds, records = dict(rule.kinds), dict(rule.records)
    for column, test in guard.tests:
        assert isinstance(test.left, Var)
        kinds[test.left.name] = test.kind
        if test.kind is Kind.RECORD:
            records[test.left.name] = relation.types[column].name
    body = (guard.atom, *rule.body, *(test for _, test in guard.tests))
    return replace(rule, body=body, kinds=kinds, records=records)


# ------------------------------------------------------------------------------------------------- what rules ask


@dataclass(frozen=True, slots=True)
class _Asking:
    """An atom of a body that asks for facts; `before` binds the values of the columns in its pattern."""

    atom: Match
    pattern: Pattern
    before: tuple[Literal, ...]


def _askings(
    body: Sequence[Literal], before: tuple[Literal, ...], full: frozenset[str], recurring: Collection[str]
) -> Iterator[_Asking]:
    """What a body asks for beyond the relations in `full`, after `before`; atoms with values that are known go first.

    Negations and aggregates come last and bind nothing. Each is asked for by what is outside of it, but not by atoms of
    relations that are `recurring` with the head: these need what the negation says.
    """
    left = list(body)
    known = {var for literal in before for var in _binds(literal)}
    while (chosen := _next(left, known)) is not None:
        left.remove(chosen)
        if isinstance(chosen, Match) and chosen.relation not in full:
            given = (n for n, arg in enumerate(chosen.args) if isinstance(arg, Const) or arg in known)
            yield _Asking(chosen, tuple(given), before)
        before = (*before, chosen)
        known |= _binds(chosen)
    lower = _grounded(
        literal for literal in before if not (isinstance(literal, Match) and literal.relation in recurring)
    )
    for literal in left:
        if isinstance(literal, Not | Fold):
            yield from _askings(literal.body, lower, full, recurring)


def _grounded(literals: Iterable[Literal]) -> tuple[Literal, ...]:
    """The literals that can be evaluated by themselves, in their order."""
    found: tuple[Literal, ...] = ()
    known: set[Var] = set()
    for literal in literals:
        if (
            isinstance(literal, Match)
            or (isinstance(literal, Compare) and _is_ready(literal, known))
            or (isinstance(literal, Unpack) and literal.record in known)
        ):
            found = (*found, literal)
            known |= _binds(literal)
    return found


def _next(left: Sequence[Literal], known: set[Var]) -> Literal | None:
    """What to take next of a body: a test that can be made, an atom with a known value, or the first atom."""
    for literal in left:
        if isinstance(literal, Compare) and _is_ready(literal, known):
            return literal
        if isinstance(literal, Unpack) and literal.record in known:
            return literal
    atoms = [literal for literal in left if isinstance(literal, Match)]
    tied = (atom for atom in atoms if any(isinstance(arg, Const) or arg in known for arg in atom.args))
    return next(tied, atoms[0] if atoms else None)


def _is_ready(literal: Compare, known: set[Var]) -> bool:
    """Whether a comparison can be made, or binds its one unknown variable, without computing anything."""
    if literal.op not in ("=", "!=", "<", "<=", ">", ">="):
        return False
    sides = (literal.left, literal.right)
    unknown = sum(isinstance(side, Var) and side not in known for side in sides)
    return not any(isinstance(side, Call) for side in sides) and unknown <= (literal.op == "=")


def _binds(literal: Literal) -> set[Var]:
    return {var for var in _variables(literal) if isinstance(literal, Match | Compare | Unpack)}


def _variables(literal: Literal) -> set[Var]:
    match literal:
        case Match(_, args):
            return {arg for arg in args if isinstance(arg, Var)}
        case Compare(_, left, right):
            return {side for side in (left, right) if isinstance(side, Var)}
        case Unpack(record, fields):
            return {record, *(arg for arg in fields if isinstance(arg, Var))}
        case _:
            return set()


def _relevant(before: tuple[Literal, ...], args: tuple[Var | Const, ...], guard: Match | None) -> tuple[Literal, ...]:
    """The literals that say something of the values that are asked for, and the guard: less demand than this is wrong,
    more is not.
    """
    wanted = {arg for arg in args if isinstance(arg, Var)}
    kept: set[int] = set()
    while True:
        more = {n for n, literal in enumerate(before) if n not in kept and _variables(literal) & wanted}
        if not more:
            break
        kept |= more
        wanted = wanted.union(*(_variables(before[n]) for n in more))
    return tuple(literal for n, literal in enumerate(before) if n in kept or literal is guard)
