"""Other texts of a program: what a person may change in a file without meaning another program."""

from __future__ import annotations

import random
from typing import Any

from sempre.lang import syntax as s
from sempre.lang.walk import map_children


def another_text(program: s.Program, rng: random.Random) -> s.Program:
    """The same program with its items in another order, other names of variables and other outputs."""
    items = [item for item in program.items if not isinstance(item, s.Directive)]
    if rng.random() < 0.7:
        rng.shuffle(items)
    if rng.random() < 0.5:
        items = [_renamed(item, rng) if isinstance(item, s.Rule) else item for item in items]
    return s.Program((*items, *_outputs(program, rng)))


def a_rule_more_or_less(program: s.Program, rng: random.Random) -> s.Program:
    """The same consequences with a rule stated once more, or once less where it was stated twice."""
    rules = [item for item in program.items if isinstance(item, s.Rule) and not isinstance(item.body, s.Truth)]
    if not rules:
        return program
    rule = rng.choice(rules)
    if rules.count(rule) < 2:
        return s.Program((*program.items, rule))
    at = program.items.index(rule)
    return s.Program((*program.items[:at], *program.items[at + 1 :]))


def _outputs(program: s.Program, rng: random.Random) -> list[s.Directive]:
    names = [
        item.name for item in program.items if isinstance(item, s.RelationDecl) and "inline" not in item.qualifiers
    ]
    share = rng.choice((0.0, 0.3, 1.0))
    return [s.Directive("output", (name,)) for name in names if rng.random() < share]


def _renamed(rule: s.Rule, rng: random.Random) -> s.Rule:
    """The rule with every variable called something else; different ones stay different."""
    prefix = rng.choice(("v", "other_", "zz"))

    def renamed(node: Any) -> Any:
        return s.Variable(prefix + node.name) if isinstance(node, s.Variable) else map_children(node, renamed)

    changed: s.Rule = renamed(rule)
    return changed
