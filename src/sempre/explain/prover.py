"""Proofs of least height.

The *height* of a fact is the round in which naive evaluation of its stratum finds it: 1 if it is explicit or if a rule
derives it from strata below alone, else one more than the highest premise from its own stratum in the best instance.

`Prover` looks for instances backward, level by level, from the facts in question: after L levels every proof of a
height up to L is within what was looked at, so a height that is found and is at most L is the least. Where too many
facts can take part, the stratum is evaluated again from the bottom, and its rounds are the heights. A premise from a
stratum below is a question of its own, for that stratum.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

from sempre.analysis.model import CheckedProgram, Const, Match, NormalRule, Stratum, Var
from sempre.data import dataclass
from sempre.explain.inquiries import Bench, CodedFact, Codes, EvidenceState, Inquiry, code_of, head_literals, inquiry
from sempre.explain.rounds import StratumRounds
from sempre.explain.witness import Witness, closure_of


@dataclass(frozen=True, slots=True)
class ProofStep:
    """How one fact is derived: by a rule with values of its variables, or not at all, since it is explicit (-1).

    `premises` are the facts of the positive atoms of the body, in order.
    """

    fact: CodedFact
    height: int
    rule: int = -1
    binding: Codes = ()
    premises: tuple[CodedFact, ...] = ()


@dataclass(frozen=True, slots=True)
class DerivingRule:
    """A rule of the program, what finds its instances for given facts, and where its premises are in what is found."""

    rule: NormalRule
    question: Inquiry
    atoms: tuple[tuple[str, tuple[tuple[bool, int], ...]], ...]  # relation; per argument: (constant?, code or place)
    head: tuple[int, ...]  # where the given columns are in what is found


class TooMany(Exception):
    """Too many facts can take part in a proof to look for it backward."""


@dataclass(slots=True)
class _Trace:
    """What is known of one stratum while proofs are looked for in it."""

    best: dict[CodedFact, int] = field(default_factory=dict)
    steps: dict[CodedFact, ProofStep] = field(default_factory=dict)
    uses: dict[CodedFact, list[ProofStep]] = field(default_factory=dict)

    def offer(self, step: ProofStep, own: Collection[str]) -> None:
        """Take note of an instance, and of all heights that follow."""
        needed = [premise for premise in step.premises if premise[0] in own]
        for premise in needed:
            self.uses.setdefault(premise, []).append(step)
        self._settle([self._lifted(step, needed)])

    def _lifted(self, step: ProofStep, needed: Iterable[CodedFact]) -> tuple[int, ProofStep]:
        return 1 + max((self.best.get(premise, 1 << 60) for premise in needed), default=0), step

    def _settle(self, offers: list[tuple[int, ProofStep]]) -> None:
        queue = [(height, n, step) for n, (height, step) in enumerate(offers) if height < 1 << 60]
        count = len(queue)
        while queue:
            height, _, step = heapq.heappop(queue)
            if height >= self.best.get(step.fact, 1 << 60):
                continue
            self.best[step.fact] = height
            self.steps[step.fact] = ProofStep(step.fact, height, step.rule, step.binding, step.premises)
            for user in self.uses.get(step.fact, ()):
                own = [premise for premise in user.premises if premise in self.uses]
                lifted, _ = self._lifted(user, own)
                if lifted < self.best.get(user.fact, 1 << 60):
                    count += 1
                    heapq.heappush(queue, (lifted, count, user))


class Prover:
    """Finds proofs in one state."""

    def __init__(self, state: EvidenceState) -> None:
        self.state = state
        self.program = state.program
        self.strata = {name: stratum for stratum in self.program.strata for name in stratum.relations}
        self.rules = _deriving_rules(state)
        self.of_relation: dict[str, list[int]] = {}
        for at, each in enumerate(self.rules):
            self.of_relation.setdefault(each.rule.relation, []).append(at)
        self.bench = Bench(state, [each.question for each in self.rules])
        self._rounds: dict[int, StratumRounds] = {}
        self._witnesses: dict[int, Witness | None] = {}

    def close(self) -> None:
        """Give back the threads."""
        self.bench.close()

    def prove(self, facts: Iterable[CodedFact]) -> dict[CodedFact, ProofStep]:
        """A step for every one of these facts, and for every fact that the steps rest on."""
        found: dict[CodedFact, ProofStep] = {}
        waiting: dict[int, set[CodedFact]] = {}
        for fact in facts:
            waiting.setdefault(self.strata[fact[0]].index, set()).add(fact)
        while waiting:
            index = max(waiting)
            asked = sorted(fact for fact in waiting.pop(index) if fact not in found)
            stratum = self.strata[asked[0][0]] if asked else None
            if stratum is None:
                continue
            for fact, step in self._in_stratum(stratum, asked).items():
                found[fact] = step
                for premise in step.premises:
                    below = self.strata[premise[0]].index
                    if below != index:
                        waiting.setdefault(below, set()).add(premise)
        return found

    def instances(self, facts: Sequence[CodedFact]) -> tuple[set[CodedFact], list[ProofStep]]:
        """Which of these facts of one stratum are explicit, and every instance that derives one of them."""
        explicit: set[CodedFact] = set()
        steps: list[ProofStep] = []
        by_relation: dict[str, list[Codes]] = {}
        for name, codes in facts:
            by_relation.setdefault(name, []).append(codes)
        for name, rows in by_relation.items():
            explicit |= {(name, codes) for codes in self.bench.present(name, rows, explicit=True)}
            for at in self.of_relation.get(name, ()):
                steps += self._steps(at, name, self.bench.ask(self.rules[at].question, rows))
        return explicit, steps

    def _steps(self, at: int, name: str, bindings: Iterable[Codes]) -> Iterable[ProofStep]:
        each = self.rules[at]
        for binding in bindings:
            fact = (name, tuple(binding[place] for place in each.head))
            premises = tuple(
                (relation, tuple(value if constant else binding[value] for constant, value in args))
                for relation, args in each.atoms
            )
            if fact not in premises:
                yield ProofStep(fact, 0, at, binding, premises)

    # ---------------------------------------------------------------------------------------------- one stratum

    def _in_stratum(self, stratum: Stratum, asked: Sequence[CodedFact]) -> dict[CodedFact, ProofStep]:
        if stratum.index in self._rounds:
            return self._by_rounds(stratum, asked)
        large = max(len(self.state.version(name)) for name in stratum.relations) > self.state.limits.traced_facts
        witness = self._witness(stratum) if large else None
        if witness is not None and witness.is_least:
            return witness.steps(self, asked)
        try:
            return self._backward(stratum, asked)
        except TooMany:
            witness = self._witness(stratum)
            if witness is not None:
                return witness.steps(self, asked)
            self._rounds[stratum.index] = StratumRounds.of(self.bench, stratum)
            return self._by_rounds(stratum, asked)

    def _witness(self, stratum: Stratum) -> Witness | None:
        if stratum.index not in self._witnesses:
            self._witnesses[stratum.index] = closure_of(self, stratum)
        return self._witnesses[stratum.index]

    def _backward(self, stratum: Stratum, asked: Sequence[CodedFact]) -> dict[CodedFact, ProofStep]:
        own, limits = frozenset(stratum.relations), self.state.limits
        trace, seen, level, instances = _Trace(), set(asked), 0, 0
        frontier = list(asked)
        while frontier and not all(trace.best.get(fact, 1 << 60) <= level for fact in asked):
            level += 1
            explicit, steps = self.instances(frontier)
            instances += len(steps)
            if len(seen) > limits.traced_facts or instances > limits.traced_instances:
                raise TooMany
            coming: dict[CodedFact, None] = {}
            for fact in explicit:
                trace.offer(ProofStep(fact, 1), own)
            for step in steps:
                if step.fact in explicit:
                    continue
                trace.offer(step, own)
                coming.update(dict.fromkeys(p for p in step.premises if p[0] in own and p not in seen))
            seen.update(coming)
            frontier = list(coming)
        return _reached(asked, trace.steps, own)

    def _by_rounds(self, stratum: Stratum, asked: Sequence[CodedFact]) -> dict[CodedFact, ProofStep]:
        """Level by level from the facts in question, each time the instance of lowest premises."""
        rounds, own = self._rounds[stratum.index], frozenset(stratum.relations)
        found: dict[CodedFact, ProofStep] = {}
        frontier = list(asked)
        while frontier:
            explicit, steps = self.instances(frontier)
            for fact in explicit:
                found[fact] = ProofStep(fact, 1)
            heights = rounds.heights(self.bench, {p for step in steps for p in step.premises if p[0] in own})
            for step in steps:
                height = 1 + max((heights[p] for p in step.premises if p[0] in own), default=0)
                if step.fact not in found or height < found[step.fact].height:
                    found[step.fact] = ProofStep(step.fact, height, step.rule, step.binding, step.premises)
            frontier = list(
                dict.fromkeys(p for f in frontier for p in found[f].premises if p[0] in own and p not in found)
            )
        return found


def _reached(
    asked: Iterable[CodedFact], steps: Mapping[CodedFact, ProofStep], own: Collection[str]
) -> dict[CodedFact, ProofStep]:
    """The steps that proofs of the facts in question consist of."""
    found: dict[CodedFact, ProofStep] = {}
    stack = [fact for fact in asked if fact in steps]
    while stack:
        fact = stack.pop()
        if fact not in found:
            found[fact] = steps[fact]
            stack += [premise for premise in steps[fact].premises if premise[0] in own]
    return found


def _deriving_rules(state: EvidenceState) -> list[DerivingRule]:
    program = state.program
    return [deriving_rule(program, rule, len(program.rules) + at, state) for at, rule in enumerate(program.rules)]


def deriving_rule(program: CheckedProgram, rule: NormalRule, number: int, state: EvidenceState) -> DerivingRule:
    """What finds the instances of a rule for given facts."""
    relation = program.relations[rule.relation]
    given, literals, kinds = head_literals(
        rule, relation, None if relation.aggregate is None else ignored_column(relation.aggregate)
    )
    records = {g: t.name for g, t in zip(given, relation.types, strict=True) if g in kinds and t.fields}
    question = inquiry(number, rule, (*rule.body, *literals), given, kinds=kinds, records=records)
    places = {name: at for at, name in enumerate(question.variables)}
    atoms = tuple(
        (literal.relation, tuple(_argument(arg, places, state) for arg in literal.args))
        for literal in rule.body
        if isinstance(literal, Match)
    )
    return DerivingRule(rule, question, atoms, tuple(places[name] for name in given))


def ignored_column(aggregate: tuple[str, int]) -> int | None:
    """The column of a head aggregate that an instance need not have itself: a total is of many."""
    kind, column = aggregate
    return column if kind in ("sum", "count") else None


def _argument(arg: Var | Const, places: Mapping[str, int], state: EvidenceState) -> tuple[bool, int]:
    return (False, places[arg.name]) if isinstance(arg, Var) else (True, code_of(arg, state))
