"""The document that every explanation is told by.

A proof is a graph: facts that are used twice are told once, and refer to each other by number. Values are plain Python
values; `to_json` has them as JSON has (records as lists, floats that JSON has no word for as text).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from sempre.data import dataclass
from sempre.explain.wording import value_text
from sempre.lang.walk import DEEPEST_TERM

FORMAT = 1
EXPLICIT, DERIVED = "explicit", "rule"
FACT, TEST, ABSENT, AGGREGATE, PATTERN = "fact", "test", "absent", "aggregate", "pattern"


@dataclass(frozen=True, slots=True)
class ExplainedRule:
    """A rule of the program: its text, where it is, and the sentence that it was given."""

    number: int
    text: str
    place: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Premise:
    """What one literal of a rule's body comes to.

    `kind` is `fact` (and `node` the number of its node), `test`, `absent` (nothing was found of `text`), `pattern`
    (what a record in another premise is taken apart into, which trees leave out), or `aggregate`: then `size` is how
    many rows the group has, and `nodes` are the facts of the row that decided.
    """

    kind: str
    text: str
    node: int = -1
    size: int = 0
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ToldFact:
    """A fact, and how it is derived: `kind` is `explicit` or `rule`, `rule` then the number of the rule.

    `height` is the round of its stratum in which it is found. `bindings` are the values of the rule's variables.
    `size` is how many instances a total in the head adds up.
    """

    relation: str
    values: tuple[Any, ...]
    text: str
    kind: str
    height: int
    rule: int = -1
    bindings: dict[str, Any] = field(default_factory=dict)
    premises: tuple[Premise, ...] = ()
    sentence: str = ""
    size: int = 0

    def below(self) -> Iterator[int]:
        """The nodes that this one rests on."""
        for premise in self.premises:
            if premise.kind == FACT:
                yield premise.node
            yield from premise.nodes


@dataclass(frozen=True, slots=True)
class ProofDocument:
    """Why a fact holds: `nodes[root]` is the fact, `base` are the explicit facts that it rests on.

    `others` are further ways to derive it, as nodes beside the root; there are `instances` in all.
    """

    nodes: tuple[ToldFact, ...]
    root: int
    rules: dict[int, ExplainedRule]
    base: tuple[int, ...]
    others: tuple[int, ...] = ()
    instances: int = 0
    epoch: int = 0

    @property
    def height(self) -> int:
        return self.nodes[self.root].height

    def to_json(self) -> dict[str, Any]:
        """The document as JSON has it."""
        return {
            "format": FORMAT,
            "kind": "why",
            "fact": self.nodes[self.root].text,
            "epoch": self.epoch,
            "height": self.height,
            "root": self.root,
            "others": list(self.others),
            "instances": self.instances,
            "base": list(self.base),
            "rules": {str(number): rule_json(rule) for number, rule in self.rules.items()},
            "nodes": [_node_json(node) for node in self.nodes],
        }


def rule_json(rule: ExplainedRule) -> dict[str, Any]:
    found: dict[str, Any] = {"text": rule.text, "place": rule.place}
    return {**found, "sentence": rule.sentence} if rule.sentence else found


def _node_json(node: ToldFact) -> dict[str, Any]:
    found: dict[str, Any] = {
        "relation": node.relation,
        "values": plain_json(node.values),
        "text": node.text,
        "kind": node.kind,
        "height": node.height,
    }
    if node.kind == DERIVED:
        found["rule"] = node.rule
        found["bindings"] = {name: plain_json(value) for name, value in node.bindings.items()}
        found["premises"] = [_premise_json(premise) for premise in node.premises]
    if node.sentence:
        found["sentence"] = node.sentence
    if node.size:
        found["size"] = node.size
    return found


def _premise_json(premise: Premise) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": premise.kind, "text": premise.text}
    if premise.kind == FACT:
        found["node"] = premise.node
    if premise.kind == AGGREGATE:
        found["size"] = premise.size
        found["nodes"] = list(premise.nodes)
    return found


def plain_json(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it; of what lies deep inside of others its text, since JSON is read by recursion."""
    if isinstance(value, tuple):
        return value_text(value) if depth > DEEPEST_TERM else [plain_json(part, depth + 1) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
