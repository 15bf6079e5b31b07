"""Why a fact is absent: for each rule, the instance that comes nearest, and what is missing for it.

An instance comes near when few of its literals fail. Which few is found by leaving literals out: what remains of the
body is asked for, together with the head. Literals that cannot be decided without those left out are open conditions on
them. So what is named as missing is all that is missing: with it, and with that alone, the instance holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from sempre.analysis.model import Compare, Const, Fold, Kind, Literal, Match, Not, Unpack, Var
from sempre.data import dataclass
from sempre.explain.inquiries import (
    Bench,
    CodedFact,
    Codes,
    code_of,
    expr_variables,
    head_literals,
    inquiry,
    literal_variables,
)
from sempre.explain.prover import DerivingRule, Prover, ignored_column

# Stands in `open` for the head, where it is not known whether it is the fact in question.
HEAD_FITS = -1
ZERO = Const(0, Kind.NUMBER)
# How many literals are left out in every combination; beyond, they are taken in one by one as far as they hold.
MOST_OUT = 2
# After so many pieces of a join nobody looks for further instances.
MOST_PIECES = 8


@dataclass(frozen=True, slots=True)
class NearInstance:
    """An instance of a rule that does not hold: values of the variables that the rest of it binds, and what fails.

    `missing` are positions of literals of the body that fail; `open` those that depend on what is missing, -1 for the
    head. `instances`
    is how many there are that fail alike.
    """

    rule: int
    bindings: dict[str, int]
    missing: tuple[int, ...]
    open: tuple[int, ...]
    instances: int = 1


@dataclass(slots=True)
class _Budget:
    """Ends an inquiry that finds too much."""

    left: int = MOST_PIECES

    def look(self, rest: float | None = None) -> None:
        self.left -= 1
        if self.left < 0:
            raise Exhausted


class Exhausted(Exception):
    """An inquiry found more than anybody would look at."""


@dataclass(slots=True)
class Absence:
    """Finds the nearest instances for facts that are absent, in the state of a prover."""

    prover: Prover
    _asked: dict[tuple[int, tuple[int, ...]], Any] = field(default_factory=dict)

    def nearest(self, fact: CodedFact) -> list[NearInstance]:
        """For every rule that could give the fact, the instance that comes nearest."""
        found = []
        for at in self.prover.of_relation.get(fact[0], ()):
            near = self._nearest(at, fact)
            if near is not None:
                found.append(near)
        return sorted(found, key=lambda near: (len(near.missing), near.rule))

    def close(self) -> None:
        """Give back the threads."""
        for _, bench in self._asked.values():
            bench.close()

    def _nearest(self, at: int, fact: CodedFact) -> NearInstance | None:
        rule = self.prover.rules[at]
        count = len(rule.rule.body)
        if self._left(at, rule, fact, tuple(range(count)), circular=True) is None:
            return None  # not even the head fits
        for out in range(min(count, MOST_OUT) + 1):
            tried = (self._left(at, rule, fact, chosen) for chosen in self._choices(rule, out))
            candidates = [near for near in tried if near is not None]
            if candidates:
                return min(candidates, key=lambda near: self._distance(rule, near))
        return self._taken_in(at, rule, fact)

    def _choices(self, rule: DerivingRule, out: int) -> Iterator[tuple[int, ...]]:
        return itertools.combinations(range(len(rule.rule.body)), out)

    def _distance(self, rule: DerivingRule, near: NearInstance) -> tuple[int, ...]:
        """What is nearer: fewer open conditions, fewer tests, negations, known atoms, atoms that no rule derives."""
        literals = [rule.rule.body[n] for n in near.missing]
        unknown = sum(name not in near.bindings for literal in literals for name in literal_variables(literal))
        derived = sum(isinstance(each, Match) and each.relation in self.prover.of_relation for each in literals)
        tests = sum(not isinstance(each, Match | Not) for each in literals)
        atoms = sum(isinstance(each, Match) for each in literals)
        return (len(near.open), tests, atoms, unknown, derived, *near.missing)

    def _taken_in(self, at: int, rule: DerivingRule, fact: CodedFact) -> NearInstance | None:
        """As many literals as hold together, taken in one after the other."""
        out = tuple(range(len(rule.rule.body)))
        best = self._left(at, rule, fact, out)
        for literal in out:
            fewer = tuple(n for n in (best.missing if best else out) if n != literal)
            tried = self._left(at, rule, fact, fewer)
            best = tried if tried is not None else best
        return best

    def _left(
        self, at: int, rule: DerivingRule, fact: CodedFact, out: tuple[int, ...], circular: bool = False
    ) -> NearInstance | None:
        """An instance in which all literals hold but those left `out`, and what cannot be decided without them.

        Unless it may be `circular`: what is left out is not the fact itself.
        """
        if (at, out) not in self._asked:
            self._asked[at, out] = self._question(rule, out)
        (question, ready), bench = self._asked[at, out]
        try:
            bench.backend.watch(_Budget().look)
            rows: Sequence[Codes] = bench.ask(question, [fact[1]] if fact[1] else None)
        except Exhausted:
            return None
        missing = tuple(out)
        waiting = tuple(n for n in range(-1, len(rule.rule.body)) if n not in ready and n not in missing)
        for row in sorted(rows)[:64]:
            bindings = dict(zip(question.variables, row, strict=True))
            if circular or not self._is_circular(rule, missing, bindings, fact):
                return NearInstance(at, bindings, missing, waiting, len(rows))
        return None

    def _question(self, rule: DerivingRule, out: tuple[int, ...]) -> Any:
        program = self.prover.program
        relation = program.relations[rule.rule.relation]
        ignored = None if relation.aggregate is None else ignored_column(relation.aggregate)
        given, literals, kinds = head_literals(rule.rule, relation, ignored)
        records = {g: t.name for g, t in zip(given, relation.types, strict=True) if g in kinds and t.fields}
        numbered = [(n, literal) for n, literal in enumerate(rule.rule.body) if n not in out]
        tests = [(-2 - n, literal) for n, literal in enumerate(literals)]
        ready, body = decidable([*numbered, *tests], set(given))
        if all(n in ready for n, _ in tests):
            ready.add(HEAD_FITS)
        if not body and not given:
            body = [Compare("=", ZERO, ZERO, ZERO.kind)]
        question = inquiry(len(program.rules), rule.rule, body, given, kinds=kinds, records=records)
        return (question, ready), Bench(self.prover.state, [question])

    def _is_circular(
        self, rule: DerivingRule, missing: Sequence[int], bindings: dict[str, int], fact: CodedFact
    ) -> bool:
        """Whether what is missing is the fact itself."""
        for n in missing:
            literal = rule.rule.body[n]
            if isinstance(literal, Match) and literal.relation == fact[0]:
                codes = tuple(
                    bindings.get(arg.name) if isinstance(arg, Var) else code
                    for arg, code in zip(literal.args, self._constants(literal), strict=True)
                )
                if all(code == own for code, own in zip(codes, fact[1], strict=True)):
                    return True
        return False

    def _constants(self, literal: Match) -> list[int]:
        return [0 if isinstance(arg, Var) else code_of(arg, self.prover.state) for arg in literal.args]


def decidable(literals: Sequence[tuple[int, Literal]], bound: set[str]) -> tuple[set[int], list[Literal]]:
    """The literals that bind their variables by themselves or with the others, and can so be decided."""
    ready: set[int] = set()
    body: list[Literal] = []
    left, grew = list(literals), True
    while grew:
        grew = False
        for numbered in list(left):
            number, literal = numbered
            if _is_decidable(literal, bound):
                bound |= set(literal_variables(literal))
                ready.add(number)
                body.append(literal)
                left.remove(numbered)
                grew = True
    return ready, body


def _is_decidable(literal: Literal, bound: set[str]) -> bool:
    if isinstance(literal, Match):
        return True
    if isinstance(literal, Unpack):
        return literal.record.name in bound
    if isinstance(literal, Not | Fold):
        return all(var.name in bound for var in literal.shared)
    free = [side for side in (literal.left, literal.right) if not set(expr_variables(side)) <= bound]
    return not free or (literal.op == "=" and len(free) == 1 and isinstance(free[0], Var))
