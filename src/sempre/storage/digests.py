"""What a store was made by, in normal form: programs that mean the same have the same digest.

Variables have no names; literals, rules, facts and declarations have no order. Names of files, outputs, comments and
places in the text are not there. So nothing depends on how a program is written.

- `program_digest`: the facts of every relation are a function of the explicit facts and of what this covers. Rules with
  counters have an order, which the numbers depend on. A rule
  that is there twice derives nothing more, so it counts once, unless what it derives is added up in a head or its rules
  are active.
- `memory_digest`: what a strategy remembers of a stratum is a function of the facts and of what this covers. Counters
  count the instances of rules, so here a rule that is there twice counts twice, and rules that a module owns are apart.
  The order of strata is not in it: one that can come before or after another reads nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sempre.active.active_engine import ActiveEngine
from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Expr,
    Fact,
    Fold,
    Literal,
    NormalRule,
    Not,
    Relation,
    Stratum,
    Type,
)  # fmt: skip
from sempre.analysis.rule_forms import Normal, normal_rule, shape_of
from sempre.engine import Engine
from sempre.rewrites.guarding import AUTOINC
from sempre.storage.disk import checksum

# Qualifiers that no fact depends on.
_HINTS = frozenset(
    ("btree", "btree_delete", "brie", "magic", "no_magic", "input", "output", "printsize")
)  # fmt: skip
# What a store keeps the state of.
KeptEngine = Engine | ActiveEngine


def program_digest(program: CheckedProgram) -> str:
    """What decides whether two programs are the same for a store."""
    return _digest({what: sorted(parts.items()) for what, parts in program_parts(program).items()})


def memory_digest(engine: KeptEngine, stratum: Stratum) -> str:
    """What decides whether what was remembered of a stratum can be used."""
    program, modules = engine.program, engine.modules.get(stratum.index, ())
    rules = {rule.number: normal_rule(rule) for rule in (*stratum.nonrecursive, *stratum.recursive)}
    return _digest(
        {
            "strategy": engine.strategy_name(stratum),
            "relations": sorted(normal_relation(program, program.relations[name]) for name in stratum.relations),
            "nonrecursive": sorted(rules[rule.number] for rule in stratum.nonrecursive),
            "recursive": sorted(rules[rule.number] for rule in stratum.recursive),
            "modules": sorted((m.kind, sorted(m.heads), sorted(rules[number] for number in m.rules)) for m in modules),
        }
    )


def stratum_key(stratum: Stratum) -> str:
    """The name of a stratum, however its relations are arranged."""
    return ",".join(sorted(stratum.relations))


def program_parts(program: CheckedProgram) -> dict[str, Counter[Normal]]:
    """What a program consists of, and how often, as far as its facts depend on it."""
    relations = program.relations
    forms = [(rule, normal_rule(rule)) for rule in program.rules]
    rules = Counter(form for _, form in forms)
    is_active = program.semantics == "active"  # their chains count instances
    summing = {form for rule, form in forms if relations[rule.relation].aggregate is not None}
    return {
        "relation": Counter(normal_relation(program, relation) for relation in relations.values()),
        "rule": Counter({rule: count if rule in summing or is_active else 1 for rule, count in rules.items()}),
        "fact": Counter({normal_fact(fact): 1 for fact in program.facts}),
        "semantics": Counter([program.semantics, *counter_order(program)]),
    }


def counter_order(program: CheckedProgram) -> dict[Normal, str]:
    """Which rule has which counter, with the words for it: `autoinc()` gives numbers by the order of such rules."""
    counting = [rule for rule in program.rules if any(call.op == AUTOINC for call in _calls_of(rule))]
    if len(counting) < 2:
        return {}
    return {
        repr((AUTOINC, at, normal_rule(rule))): f"counter {at} in {rule.text}" for at, rule in enumerate(counting, 1)
    }


def observes_codes(program: CheckedProgram) -> bool:
    """Whether numbers can be derived from the codes of symbols."""
    return any(call.op == "ord" for expr in _expressions(program) for call in _calls(expr))


# ------------------------------------------------------------------------------------------------------- parts


def normal_relation(program: CheckedProgram, relation: Relation) -> Normal:
    """A declaration without inputs, outputs and advice, with all types that its values consist of."""
    return repr(
        (
            relation.name,
            columns_of(program, relation),
            sorted(relation.qualifiers - _HINTS),
            relation.location,
            relation.aggregate,
            *_guard(program, relation.name),
        )
    )


def _guard(program: CheckedProgram, name: str) -> Iterator[Normal]:
    """What says which rows stay, if anything does."""
    guard = program.guards.get(name)
    if guard is not None:
        yield repr((sorted(guard.keys), guard.limit, guard.numbered, sorted(map(normal_rule, guard.dominance))))


def columns_of(program: CheckedProgram, relation: Relation) -> Normal:
    """The columns with their types, and the types of the fields of records, and of theirs."""
    found: dict[str, Type] = {}
    waiting = list(relation.types)
    while waiting:
        type_ = waiting.pop()
        if type_.name not in found:
            found[type_.name] = type_
            waiting += [program.types[name] for _, name in (*type_.fields, *type_.branches)]
    records = sorted(
        (name, type_.kind.value, type_.fields, *filter(None, [type_.branches])) for name, type_ in found.items()
    )
    return repr((relation.columns, [type_.name for type_ in relation.types], records))


def normal_fact(fact: Fact) -> Normal:
    # There may be very many of them.
    if all(isinstance(arg, Const) for arg in fact.args):
        return repr((fact.relation, [(arg.kind.name, arg.value) for arg in fact.args if isinstance(arg, Const)]))
    return repr((fact.relation, shape_of(fact.args, {})))


def _digest(parts: Mapping[str, Any]) -> str:
    return checksum(repr(sorted(parts.items())).encode("utf-8", "surrogatepass"))


# ------------------------------------------------------------------------------------------------------- codes


def _calls_of(rule: NormalRule) -> Iterator[Call]:
    for expr in (*rule.args, *_expressions_of(rule.body)):
        yield from _calls(expr)


def _expressions(program: CheckedProgram) -> Iterable[Expr]:
    for fact in program.facts:
        yield from fact.args
    for rule in program.rules:
        yield from rule.args
        yield from _expressions_of(rule.body)


def _expressions_of(body: Iterable[Literal]) -> Iterable[Expr]:
    for literal in body:
        match literal:
            case Compare(_, left, right):
                yield from (left, right)
            case Not(inner):
                yield from _expressions_of(inner)
            case Fold(_, _, expr, inner):
                yield from () if expr is None else (expr,)
                yield from _expressions_of(inner)


def _calls(expr: Expr) -> Iterable[Call]:
    if isinstance(expr, Call):
        yield expr
        for arg in expr.args:
            yield from _calls(arg)
