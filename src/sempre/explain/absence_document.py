"""Why a fact is absent, as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sempre.data import dataclass
from sempre.explain.document import FORMAT, ExplainedRule, ProofDocument, plain_json, rule_json
from sempre.explain.tree import proof_tree

HOLDS, MISSING, BLOCKED, FAILS, OPEN = "holds", "missing", "blocked", "fails", "open"


@dataclass(frozen=True, slots=True)
class TriedLiteral:
    """One literal of an instance that does not hold, with the values that the rest of the instance gives it.

    `state` is `holds`; `missing`: an atom that is absent; `blocked`: a negation with `blockers`, which are there;
    `fails`: a test; `open`: what cannot be said before something missing is there, or blockers are gone. `near` are
    facts that differ from a missing one in one column; `free` names the variable of each of its `values` that is not
    known, `blocking` are the blockers. `answer` says why a missing fact is absent, `proofs` why blockers are there. A
    `pattern` is what a record in another literal is taken apart into, which trees leave out.
    """

    text: str
    state: str
    near: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    relation: str = ""
    values: tuple[Any, ...] = ()
    free: tuple[str, ...] = ()
    blocking: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    answer: int = -1
    proofs: tuple[int, ...] = ()
    pattern: bool = False

    @property
    def blocked_by(self) -> str:
        """The blockers in words; without those of an `open` literal, other facts may block it."""
        told = ", ".join(self.blockers)
        return f"by {told}" if self.state != OPEN else f"blocked by {told}; without that, others may block it"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rule that could give the fact, and its nearest instance; there are `instances` that lack as much."""

    rule: int
    bindings: dict[str, Any]
    literals: tuple[TriedLiteral, ...]
    instances: int


@dataclass(frozen=True, slots=True)
class AbsentFact:
    """A fact that is absent, with an attempt for each rule that could give it; `note` is what else there is to say."""

    relation: str
    values: tuple[Any, ...]
    text: str
    attempts: tuple[Attempt, ...]
    note: str = ""
    near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AbsenceDocument:
    """Why a fact is absent: `answers[0]` is about it, further ones about what it lacks; `proofs` are of blockers."""

    answers: tuple[AbsentFact, ...]
    rules: dict[int, ExplainedRule]
    proofs: tuple[ProofDocument, ...] = ()
    epoch: int = 0

    def to_json(self) -> dict[str, Any]:
        """The document as JSON has it."""
        return {
            "format": FORMAT,
            "kind": "why-not",
            "fact": self.answers[0].text,
            "epoch": self.epoch,
            "rules": {str(number): rule_json(rule) for number, rule in self.rules.items()},
            "answers": [_answer_json(answer) for answer in self.answers],
            "proofs": [proof.to_json() for proof in self.proofs],
        }


def _answer_json(answer: AbsentFact) -> dict[str, Any]:
    return {
        "relation": answer.relation,
        "values": plain_json(answer.values),
        "text": answer.text,
        "note": answer.note,
        "near": list(answer.near),
        "attempts": [
            {
                "rule": attempt.rule,
                "bindings": {name: plain_json(value) for name, value in attempt.bindings.items()},
                "instances": attempt.instances,
                "literals": [_literal_json(literal) for literal in attempt.literals],
            }
            for attempt in answer.attempts
        ],
    }


def _literal_json(literal: TriedLiteral) -> dict[str, Any]:
    found: dict[str, Any] = {"text": literal.text, "state": literal.state}
    for name in ("near", "blockers", "proofs"):
        if getattr(literal, name):
            found[name] = list(getattr(literal, name))
    if literal.state == MISSING:
        found["relation"], found["values"] = literal.relation, plain_json(literal.values)
        found["free"] = list(literal.free)
    if literal.answer >= 0:
        found["answer"] = literal.answer
    if literal.pattern:
        found["pattern"] = True
    return found


def absence_tree(document: AbsenceDocument) -> str:
    """What is missing, then how each rule comes near, as lines."""
    return "\n".join(_answer_lines(document, 0, "", set()))


def _answer_lines(document: AbsenceDocument, at: int, indent: str, told: set[int]) -> Iterator[str]:
    answer = document.answers[at]
    if at in told:
        yield f"{indent}{answer.text} is absent  (above)"
        return
    told.add(at)
    yield f"{indent}{answer.text} is absent" + (f": {answer.note}" if answer.note else "")
    if answer.near:
        yield f"{indent}  there is {', '.join(answer.near)}"
    for attempt in answer.attempts:
        rule = document.rules[attempt.rule]
        yield f"{indent}by {rule.place}: {rule.text}"
        if attempt.instances > 1:
            yield f"{indent}  the nearest of {attempt.instances:,} instances that lack as much:"
        for literal in (each for each in attempt.literals if not each.pattern):
            yield from _literal_lines(document, literal, indent + "  ", told)


def _literal_lines(document: AbsenceDocument, literal: TriedLiteral, indent: str, told: set[int]) -> Iterator[str]:
    signs = {HOLDS: "holds  ", MISSING: "MISSING", BLOCKED: "BLOCKED", FAILS: "FAILS  ", OPEN: "open   "}
    yield f"{indent}{signs[literal.state]}  {literal.text}"
    if literal.near:
        yield f"{indent}         there is {', '.join(literal.near)}"
    if literal.blockers:
        yield f"{indent}         {literal.blocked_by}"
    for at in literal.proofs:
        yield from (f"{indent}         {line}" for line in proof_tree(document.proofs[at]).splitlines())
    if literal.answer >= 0:
        yield from _answer_lines(document, literal.answer, indent + "         ", told)
