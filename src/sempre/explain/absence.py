"""Why a fact is absent, told: near instances become documents, with near misses, blockers and further levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sempre.analysis.model import Const, Expr, Fold, Literal, Match, NormalRule, Not, Relation, Var
from sempre.analysis.naming import shown
from sempre.explain.absence_document import (
    BLOCKED,
    FAILS,
    HOLDS,
    MISSING,
    OPEN,
    AbsenceDocument,
    AbsentFact,
    Attempt,
    TriedLiteral,
)
from sempre.explain.absent import HEAD_FITS, Absence, NearInstance
from sempre.explain.document import ExplainedRule, ProofDocument
from sempre.explain.inquiries import Bench, CodedFact, code_of, inquiry, type_of
from sempre.explain.narrate import Narrator
from sempre.explain.prover import Prover
from sempre.explain.wording import expr_text, fact_text, literal_text, value_text
from sempre.kernel.select import Selection
from sempre.plan.ops import relations_of

SHOWN_NEAR = 3
SHOWN_BLOCKERS = 3


class AbsenceNarrator:
    """Tells why facts are absent in the state of one prover."""

    def __init__(self, prover: Prover, narrator: Narrator) -> None:
        self.prover, self.state, self.narrator = prover, prover.state, narrator
        self.absence = Absence(prover)
        self._answers: list[AbsentFact | None] = []
        self._numbers: dict[CodedFact, int] = {}
        self._proofs: list[ProofDocument] = []
        self._rules: dict[int, ExplainedRule] = {}

    def close(self) -> None:
        """Give back the threads."""
        self.absence.close()

    def why_not(self, fact: CodedFact, depth: int = 1) -> AbsenceDocument:
        """Why a fact is absent, and so many levels of what it lacks."""
        self._answer(fact, depth)
        answers = tuple(answer for answer in self._answers if answer is not None)
        return AbsenceDocument(answers, dict(sorted(self._rules.items())), tuple(self._proofs), self.narrator.epoch)

    def _answer(self, fact: CodedFact, depth: int) -> int:
        if fact in self._numbers:
            return self._numbers[fact]
        number = self._numbers[fact] = len(self._answers)
        self._answers.append(None)
        relation = self.state.program.relations[fact[0]]
        values = self.narrator.values(fact[1], relation.types)
        derived = relation.name in self.prover.of_relation
        attempts = tuple(self._attempt(near, depth) for near in self.absence.nearest(fact)) if derived else ()
        note = self._note(relation, fact, derived, attempts)
        near = () if derived else self._near(relation, dict(enumerate(fact[1])))
        text = fact_text(relation.name, values)
        self._answers[number] = AbsentFact(relation.name, values, text, attempts, note, near)
        return number

    def _note(self, relation: Relation, fact: CodedFact, derived: bool, attempts: Sequence[Attempt]) -> str:
        if not derived:
            return "it is not among the explicit facts, and no rule derives this relation"
        if relation.aggregate is not None:
            kind, column = relation.aggregate
            group = tuple((at, code) for at, code in enumerate(fact[1]) if at != column)
            rows = Selection(group).of(self.state.version(relation.name).rows())
            if len(rows):
                (value,) = self.narrator.values((int(rows.columns()[column][0]),), (relation.types[column],))
                return f"the {kind} of its group is {value_text(value)}"
            return "its group has no rows"
        if any(all(literal.state == HOLDS for literal in attempt.literals) for attempt in attempts):
            return "a rule derives it, and the relation keeps another row in its place"
        return "" if attempts else "no rule can give it, whatever the facts are"

    # -------------------------------------------------------------------------------------------------- attempts

    def _attempt(self, near: NearInstance, depth: int) -> Attempt:
        deriving = self.prover.rules[near.rule]
        rule, asked = deriving.rule, deriving.question.rule
        values = {
            name: self.narrator.values((code,), (type_of(name, asked, self.state.program),))[0]
            for name, code in near.bindings.items()
        }
        shapes = self.narrator.shapes(near.rule)
        literals = tuple(self._literal(rule, at, literal, near, values, depth) for at, literal in enumerate(rule.body))
        if HEAD_FITS in near.open:
            types = self.state.program.relations[rule.relation].types
            args = zip(rule.args, types, strict=True)
            head = ", ".join(expr_text(arg, values, shapes, type_.name) for arg, type_ in args)
            literals = (*literals, TriedLiteral(f"{rule.relation}({head}) is the fact", OPEN))
        literals = _unsettled(rule, literals)
        self._rules[near.rule] = self.narrator.rule(near.rule)
        named = {shown(name): value for name, value in values.items() if shown(name)}
        return Attempt(near.rule, named, literals, near.instances)

    def _literal(
        self, rule: NormalRule, at: int, literal: Literal, near: NearInstance, values: Mapping[str, Any], depth: int
    ) -> TriedLiteral:
        shapes = self.narrator.shapes(near.rule)
        text, pattern = literal_text(literal, values, shapes), shapes.is_told_elsewhere(literal)
        if at in near.open:
            return TriedLiteral(text, OPEN, pattern=pattern)
        if at not in near.missing:
            return TriedLiteral(text, HOLDS, pattern=pattern)
        if isinstance(literal, Match):
            return self._missing(literal, near, values, text, depth)
        if isinstance(literal, Not):
            return self._blocked(rule, literal, near, text, depth)
        return TriedLiteral(text, FAILS)

    def _missing(
        self, literal: Match, near: NearInstance, values: Mapping[str, Any], text: str, depth: int
    ) -> TriedLiteral:
        relation = self.state.program.relations[literal.relation]
        codes = {at: self._code(arg, near) for at, arg in enumerate(literal.args)}
        known = {at: code for at, code in codes.items() if code is not None}
        shown_values = tuple(arg.value if isinstance(arg, Const) else values.get(arg.name) for arg in literal.args)
        answer = -1
        if depth > 1 and len(known) == relation.arity:
            answer = self._answer((relation.name, tuple(known[at] for at in range(relation.arity))), depth - 1)
        free = tuple(
            arg.name if isinstance(arg, Var) and at not in known else "" for at, arg in enumerate(literal.args)
        )
        near_facts = self._near(relation, known)
        return TriedLiteral(
            text, MISSING, near_facts, relation=relation.name, values=shown_values, free=free, answer=answer
        )

    def _code(self, arg: Expr, near: NearInstance) -> int | None:
        return code_of(arg, self.state) if isinstance(arg, Const) else near.bindings.get(arg.name)  # type: ignore[union-attr]

    def _near(self, relation: Relation, known: Mapping[int, int]) -> tuple[str, ...]:
        """Facts that differ from what is missing in one column."""
        found: dict[str, None] = {}
        version = self.state.version(relation.name)
        if len(known) < 2 or len(version) > self.state.limits.searched_near:
            return ()
        rows = version.rows()
        for column in known:
            rest = tuple((at, code) for at, code in sorted(known.items()) if at != column)
            some = Selection(rest).of(rows)
            table = list(zip(*(part[:SHOWN_NEAR].tolist() for part in some.columns()), strict=True))
            for codes in table:
                found.setdefault(fact_text(relation.name, self.narrator.values(codes, relation.types)))
        return tuple(found)[:SHOWN_NEAR]

    def _blocked(self, rule: NormalRule, literal: Not, near: NearInstance, text: str, depth: int) -> TriedLiteral:
        """A negation, with the facts that are there and must not be."""
        shared = tuple(var.name for var in literal.shared)
        question = inquiry(len(self.state.program.rules), rule, literal.body, shared)
        bench = Bench(self.state, [question])
        given = tuple(near.bindings[name] for name in shared)
        rows = sorted(bench.ask(question, [given] if given else None))
        bench.close()
        facts: dict[CodedFact, None] = {}
        needed = set(self._facts(rule.body, near.bindings))
        conflict = False
        for row in rows:
            there = self._facts(literal.body, dict(zip(question.variables, row, strict=True)))
            spare = [fact for fact in there if fact not in needed]
            conflict |= not spare
            facts.update(dict.fromkeys(spare or there))
        relations = self.state.program.relations
        blocking = tuple((n, self.narrator.values(codes, relations[n].types)) for n, codes in facts)
        texts = tuple(fact_text(*each) for each in blocking)
        proofs: list[int] = []
        for fact in list(facts)[:SHOWN_BLOCKERS] if depth > 1 else ():
            proofs.append(len(self._proofs))
            self._proofs.append(self.narrator.why(fact))
        # What blocks it is what another literal needs: then no change lets this instance through.
        return TriedLiteral(text, FAILS if conflict else BLOCKED, (), texts, blocking=blocking, proofs=tuple(proofs))

    def _facts(self, body: Sequence[Literal], coded: Mapping[str, int]) -> list[CodedFact]:
        """The facts of the atoms of a body whose variables all have values."""
        found: list[CodedFact] = []
        for literal in body:
            if isinstance(literal, Match):
                given = (coded.get(a.name) if isinstance(a, Var) else code_of(a, self.state) for a in literal.args)
                codes = tuple(code for code in given if code is not None)
                if len(codes) == len(literal.args):
                    found.append((literal.relation, codes))
        return found


def _unsettled(rule: NormalRule, literals: tuple[TriedLiteral, ...]) -> tuple[TriedLiteral, ...]:
    """The literals, where negations and aggregates that read what would have to change are open."""
    missing = {literal.relation for literal in literals if literal.state == MISSING}
    removed = {name for literal in literals for name, _ in literal.blocking}
    touched = {HOLDS: missing | removed, BLOCKED: missing}
    found = list(literals)
    for at, literal in enumerate(rule.body):
        if not isinstance(literal, Not | Fold):
            continue
        # What a negation inside of a negation denies may cease to hold with the blockers, and then others block.
        inner = tuple(each for each in literal.body if isinstance(each, Not | Fold))
        settled = found[at].state != BLOCKED or not relations_of(inner) & removed
        if not settled or relations_of((literal,)) & touched.get(found[at].state, set()):
            found[at] = replace(found[at], state=OPEN)
    return tuple(found)
