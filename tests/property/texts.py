"""Other texts of the same program: what a store must not mind."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from sempre.lang import syntax as s
from sempre.lang.walk import map_children


def other_text(program: s.ParsedProgram, rng: random.Random) -> s.ParsedProgram:
    """The same program in another order, with other names of variables, other outputs, other copies of its rules."""
    items: list[s.Item] = [item for item in program.items if not isinstance(item, s.Directive)]
    items = [_renamed(item, rng) if isinstance(item, s.Rule) else item for item in _copied(items, rng)]
    rng.shuffle(items)
    for item in [item for item in items if isinstance(item, s.RelationDecl) and "inline" not in item.qualifiers]:
        if rng.random() < 0.3:
            items.insert(rng.randint(items.index(item) + 1, len(items)), s.Directive("output", (item.name,)))
    return replace(program, items=tuple(items))


def _copied(items: list[s.Item], rng: random.Random) -> list[s.Item]:
    """Rules that were there several times are there once, and some are there twice.

    Not those with an aggregate in the head, which would have its instances once more, nor those of inline relations,
    of which those that read them would be others.
    """
    inline = {item.name for item in items if isinstance(item, s.RelationDecl) and "inline" in item.qualifiers}

    def is_free(item: s.Item) -> bool:
        heads = [head.atom for head in item.heads] if isinstance(item, s.Rule) else []
        adds_up = any(isinstance(arg, s.HeadAggregate) for head in heads for arg in head.args)
        return bool(heads) and not adds_up and not inline & {head.relation for head in heads}

    once = [item for number, item in enumerate(items) if item not in items[:number] or not is_free(item)]
    return once + [item for item in once if is_free(item) and rng.random() < 0.1]


def _renamed(rule: s.Rule, rng: random.Random) -> s.Rule:
    """The rule with other variables; what was a wildcard stays one."""
    names: dict[str, str] = {}
    numbers = rng.sample(range(1000), 200)

    def renamed(node: Any) -> Any:
        if isinstance(node, s.Variable):
            return replace(node, name=names.setdefault(node.name, f"v{numbers[len(names)]}"))
        return map_children(node, renamed)

    return rule if rng.random() < 0.3 else renamed(rule)
