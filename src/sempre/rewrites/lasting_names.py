"""Relations that rewrites number get names by what their rules say, so that another text of a program has the same.

A store finds the facts of a relation by its name. `range#1` is the first range in the text, and another one once the
rules stand in another order; `range#4f0c12d9` is what these rules derive, wherever they stand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sempre.analysis.model import CheckedProgram, Fold, Literal, Match, NormalRule, Not, Stratum
from sempre.analysis.rule_forms import normal_rule

_NUMBERED = re.compile(r"(ask|part|range|fields)#[0-9]+")
_DIGITS = 8


def with_lasting_names(program: CheckedProgram) -> CheckedProgram:
    """The program with relations named by their rules where a rewrite has numbered them."""
    numbered = [name for name in program.relations if _NUMBERED.fullmatch(name)]
    return _renamed(program, _lasting(program, numbered)) if numbered else program


def _lasting(program: CheckedProgram, numbered: list[str]) -> dict[str, str]:
    """New names. Relations with the same rules have the same facts: which of them is the second does not matter."""
    defining: dict[str, list[NormalRule]] = {name: [] for name in numbered}
    for rule in program.rules:
        if rule.relation in defining:
            defining[rule.relation].append(rule)
    labels = {name: name.partition("#")[0] for name in numbered}
    while True:
        # Rules read relations that have names by their rules themselves: what tells these apart, tells those apart.
        finer = {name: f"{name.partition('#')[0]}#{_digest(rules, labels)}" for name, rules in defining.items()}
        settled = len({*finer.values()}) == len({*labels.values()})
        labels = finer
        if settled:
            break
    found: dict[str, str] = {}
    taken: dict[str, int] = {}
    for name, label in labels.items():
        taken[label] = taken.get(label, 0) + 1
        found[name] = label if taken[label] == 1 else f"{label}.{taken[label]}"
    return found


def _digest(rules: list[NormalRule], names: Mapping[str, str]) -> str:
    forms = sorted(normal_rule(_rule(rule, names)) for rule in rules)
    return hashlib.sha256(repr(forms).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _renamed(program: CheckedProgram, names: Mapping[str, str]) -> CheckedProgram:
    rules = {rule.number: _rule(rule, names) for rule in program.rules}

    def of(stratum: Stratum) -> Stratum:
        return replace(
            stratum,
            relations=tuple(names.get(name, name) for name in stratum.relations),
            nonrecursive=tuple(rules[rule.number] for rule in stratum.nonrecursive),
            recursive=tuple(rules[rule.number] for rule in stratum.recursive),
        )

    relations = {
        names.get(name, name): replace(relation, name=names.get(name, name))
        for name, relation in program.relations.items()
    }
    strata = tuple(map(of, program.strata))
    return replace(program, relations=relations, rules=tuple(rules.values()), strata=strata)


def _rule(rule: NormalRule, names: Mapping[str, str]) -> NormalRule:
    return replace(rule, relation=names.get(rule.relation, rule.relation), body=tuple(_body(rule.body, names)))


def _body(body: tuple[Literal, ...], names: Mapping[str, str]) -> Iterator[Literal]:
    for literal in body:
        match literal:
            case Match(relation=relation):
                yield replace(literal, relation=names[relation]) if relation in names else literal
            case Not(body=inner) | Fold(body=inner):
                yield replace(literal, body=tuple(_body(inner, names)))
            case _:
                yield literal
