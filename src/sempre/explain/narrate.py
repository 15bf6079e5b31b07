"""Proofs as documents: codes become values, literals become text, and aggregates show the row that decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sempre.analysis.model import Fold, Match, NormalRule, Not, Type, Var
from sempre.analysis.naming import shown
from sempre.backends.bindings import Bindings, compute
from sempre.data import dataclass
from sempre.explain.document import (
    ABSENT,
    AGGREGATE,
    DERIVED,
    EXPLICIT,
    FACT,
    PATTERN,
    TEST,
    ExplainedRule,
    Premise,
    ProofDocument,
    ToldFact,
)
from sempre.explain.inquiries import Bench, CodedFact, Codes, Inquiry, code_of, inquiry, type_of
from sempre.explain.prover import ProofStep, Prover
from sempre.explain.wording import (
    Shapes,
    body_text,
    fact_text,
    filled,
    fold_text,
    literal_text,
    sentence_of,
    value_text,
)
from sempre.results import Decoder

# Rows of a group that are told where all of them decide.
SHOWN_ROWS = 10


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of an aggregate for some values outside: how many, and the facts of those that decided."""

    size: int
    facts: tuple[CodedFact, ...]


class Narrator:
    """Tells the proofs of one prover."""

    def __init__(self, prover: Prover, epoch: int = 0) -> None:
        self.prover, self.state, self.epoch = prover, prover.state, epoch
        self.decoder = Decoder(self.state.values, self.state.program.types, remembering=True)
        self.steps: dict[CodedFact, ProofStep] = {}
        self._groups: dict[tuple[int, int], tuple[Inquiry, Bench]] = {}
        self._known: dict[tuple[int, int, Codes], Group] = {}
        self._shapes: dict[int, Shapes] = {}

    def close(self) -> None:
        """Give back the threads."""
        for _, bench in self._groups.values():
            bench.close()

    # ------------------------------------------------------------------------------------------------ documents

    def why(self, fact: CodedFact, depth: int | None = None, further: int = 0) -> ProofDocument:
        """Why a fact that is there holds: down to `depth` levels, with so many further ways to derive it."""
        roots = [fact]
        self._prove(roots)
        others, instances = self._others(fact, further)
        self._prove([premise for step in others for premise in step.premises])
        order, numbers = self._order(fact, others, depth)
        sizes = self._sizes(order)
        nodes = [self._node(self.steps[each], numbers, sizes[each]) for each in order]
        nodes += [self._node(step, numbers, sizes[step.fact]) for step in others]
        used = {node.rule for node in nodes if node.rule >= 0}
        base = tuple(at for at, node in enumerate(nodes) if node.kind == EXPLICIT)
        further_nodes = tuple(range(len(order), len(nodes)))
        return ProofDocument(
            tuple(nodes), 0, {at: self.rule(at) for at in sorted(used)}, base, further_nodes, instances, self.epoch
        )

    def _prove(self, facts: Iterable[CodedFact]) -> None:
        """Steps for these facts, and for what decides their aggregates."""
        waiting = [fact for fact in facts if fact not in self.steps]
        while waiting:
            found = self.prover.prove(waiting)
            self.steps.update(found)
            needed = {fact for step in found.values() for fact in self._decisive(step)}
            waiting = [fact for fact in needed if fact not in self.steps]

    def _others(self, fact: CodedFact, further: int) -> tuple[list[ProofStep], int]:
        """Further instances that derive a fact, and how many there are with the one that is told."""
        explicit, steps = self.prover.instances([fact])
        told = self.steps[fact]
        count = len(steps) + len(explicit)
        others = [step for step in steps if (step.rule, step.binding) != (told.rule, told.binding)][:further]
        return others, count

    def _order(
        self, fact: CodedFact, others: Sequence[ProofStep], depth: int | None
    ) -> tuple[list[CodedFact], dict[CodedFact, int]]:
        """The facts to tell, from the root on, level by level."""
        numbers: dict[CodedFact, int] = {fact: 0}
        order, frontier, level = [fact], [fact], 0
        extra = [premise for step in others for premise in (*step.premises, *self._decisive(step))]
        while frontier and (depth is None or level < depth):
            level += 1
            coming: list[CodedFact] = []
            below = [p for each in frontier for p in (*self.steps[each].premises, *self._decisive(self.steps[each]))]
            for premise in (*below, *extra):
                if premise not in numbers:
                    numbers[premise] = len(order)
                    order.append(premise)
                    coming.append(premise)
            frontier, extra = coming, []
        return order, numbers

    def shapes(self, at: int) -> Shapes:
        """What records in a rule are taken apart into."""
        if at not in self._shapes:
            self._shapes[at] = Shapes.of(self.prover.rules[at].rule, self.state.program)
        return self._shapes[at]

    def rule(self, at: int) -> ExplainedRule:
        rule = self.prover.rules[at].rule
        return ExplainedRule(at, rule.text, str(rule.span), sentence_of(rule, self.state.program))

    # ---------------------------------------------------------------------------------------------------- nodes

    def _sizes(self, facts: Iterable[CodedFact]) -> Counter[CodedFact]:
        """How many instances add up to each of the facts that are totals."""
        relations = self.state.program.relations
        totals = [fact for fact in facts if (relations[fact[0]].aggregate or ("",))[0] in ("sum", "count")]
        return Counter(step.fact for step in self.prover.instances(totals)[1])

    def _node(self, step: ProofStep, numbers: dict[CodedFact, int], size: int) -> ToldFact:
        relation = self.state.program.relations[step.fact[0]]
        values = self.values(step.fact[1], relation.types)
        text = fact_text(relation.name, values)
        if step.rule < 0:
            return ToldFact(relation.name, values, text, EXPLICIT, step.height)
        rule = self.prover.rules[step.rule].rule
        bindings = self._bindings(step)
        named = {shown(name): value for name, value in bindings.items() if shown(name)}
        premises = tuple(self._premises(step, rule, bindings, numbers))
        sentence = filled(sentence_of(rule, self.state.program), named)
        return ToldFact(
            relation.name, values, text, DERIVED, step.height, step.rule, named, premises, sentence, size
        )  # fmt: skip

    def _bindings(self, step: ProofStep) -> dict[str, Any]:
        rule = self.prover.rules[step.rule]
        names = rule.question.variables
        types = tuple(type_of(name, rule.question.rule, self.state.program) for name in names)
        return dict(zip(names, self.values(step.binding, types), strict=True))

    def values(self, codes: Codes, types: Sequence[Type]) -> tuple[Any, ...]:
        return tuple(self.decoder.python(np.array([code]), type_)[0] for code, type_ in zip(codes, types, strict=True))

    def _premises(
        self, step: ProofStep, rule: NormalRule, bindings: dict[str, Any], numbers: dict[CodedFact, int]
    ) -> Iterable[Premise]:
        facts, shapes = iter(step.premises), self.shapes(step.rule)
        for at, literal in enumerate(rule.body):
            if isinstance(literal, Match):
                yield Premise(FACT, literal_text(literal, bindings, shapes), numbers.get(next(facts), -1))
            elif isinstance(literal, Not):
                yield Premise(ABSENT, body_text(literal.body, bindings, shapes))
            elif isinstance(literal, Fold):
                group = self._group(step, rule, at, literal)
                nodes = tuple(numbers[fact] for fact in group.facts if fact in numbers)
                text = f"{value_text(bindings[literal.result.name])} = {fold_text(literal, bindings, shapes)}"
                yield Premise(AGGREGATE, text, -1, group.size, nodes)
            else:
                kind = PATTERN if shapes.is_told_elsewhere(literal) else TEST
                yield Premise(kind, literal_text(literal, bindings, shapes))

    # ----------------------------------------------------------------------------------------------- aggregates

    def _decisive(self, step: ProofStep) -> list[CodedFact]:
        """The facts of the rows that decide the aggregates of a step."""
        if step.rule < 0:
            return []
        rule = self.prover.rules[step.rule].rule
        folds = [(at, literal) for at, literal in enumerate(rule.body) if isinstance(literal, Fold)]
        return [fact for at, literal in folds for fact in self._group(step, rule, at, literal).facts]

    def _group(self, step: ProofStep, rule: NormalRule, at: int, literal: Fold) -> Group:
        names = self.prover.rules[step.rule].question.variables
        coded = dict(zip(names, step.binding, strict=True))
        given = tuple(coded[var.name] for var in literal.shared)
        key = (step.rule, at, given)
        if key not in self._known:
            self._known[key] = self._grouped(step.rule, at, rule, literal, given, coded[literal.result.name])
        return self._known[key]

    def _grouped(self, number: int, at: int, rule: NormalRule, literal: Fold, given: Codes, result: int) -> Group:
        if (number, at) not in self._groups:
            shared = tuple(var.name for var in literal.shared)
            question = inquiry(len(self.state.program.rules), rule, literal.body, shared)
            self._groups[number, at] = question, Bench(self.state, [question])
        question, bench = self._groups[number, at]
        rows = bench.ask_rows(question, [given] if given else None)
        columns = dict(zip(question.variables, rows.columns(), strict=True))
        chosen = list(range(min(len(rows), SHOWN_ROWS)))
        if literal.expr is not None and literal.kind in ("min", "max") and len(rows):
            values = compute(self.state.values, literal.expr, Bindings(len(rows), columns, {}))
            chosen = [int(np.flatnonzero(values == result)[0])]
        facts: dict[CodedFact, None] = {}
        for row in chosen:
            coded = {name: int(column[row]) for name, column in columns.items()}
            for inner in literal.body:
                if isinstance(inner, Match):
                    args = (coded[a.name] if isinstance(a, Var) else code_of(a, self.state) for a in inner.args)
                    facts.setdefault((inner.relation, tuple(args)))
        return Group(len(rows), tuple(facts))
