"""What a store was made by, in normal form: programs that mean the same have the same digest.

Variables are numbered in the order in which a rule has them; rules, facts and declarations are sorted. Names of files,
outputs, comments and places in the text are not there. So nothing depends on how a program is written, except for the
order of the literals of a rule: another one is another rule.

- `program_digest`: the facts of every relation are a function of the explicit facts and of what this covers. A rule
  that is there twice derives nothing more, so it counts once, unless what it derives is added up in a head.
- `memory_digest`: what a strategy remembers of a stratum is a function of the facts and of what this covers. Counters
  count the instances of rules, so here a rule that is there twice counts twice, and rules that a module owns are apart.
  The order of strata is not in it: one that can come before or after another reads nothing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Expr,
    Fact,
    Fold,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Stratum,
    Type,
    Unpack,
    Var,
)  # fmt: skip
from sempre.engine import Engine
from sempre.storage.disk import checksum

# Text that is the same for the same thing.
Normal = str


def program_digest(program: CheckedProgram) -> str:
    """What decides whether two programs are the same for a store."""
    return _digest({what: sorted(parts.items()) for what, parts in program_parts(program).items()})


def memory_digest(engine: Engine, stratum: Stratum) -> str:
    """What decides whether what was remembered of a stratum can be used."""
    program, modules = engine.program, engine.modules.get(stratum.index, ())
    rules = {rule.number: normal_rule(rule) for rule in (*stratum.nonrecursive, *stratum.recursive)}
    return _digest(
        {
            "strategy": engine.strategy_of(stratum).name,
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
    rules = Counter(normal_rule(rule) for rule in program.rules)
    summing = {normal_rule(r) for r in program.rules if (relation := relations.get(r.relation)) and relation.aggregate}
    return {
        "relation": Counter(normal_relation(program, relation) for relation in relations.values()),
        "rule": Counter({rule: count if rule in summing else 1 for rule, count in rules.items()}),
        "fact": Counter({normal_fact(fact): 1 for fact in program.facts}),
        "semantics": Counter([program.pragmas.get("semantics", "stratified")]),
    }


def observes_codes(program: CheckedProgram) -> bool:
    """Whether numbers can be derived from the codes of symbols, or symbols from numbers."""
    return any(_observes(call) for expr in _expressions(program) for call in _calls(expr))


# ------------------------------------------------------------------------------------------------------- parts


def normal_relation(program: CheckedProgram, relation: Relation) -> Normal:
    """A declaration without inputs and outputs, with all types that its values consist of."""
    return repr(
        (
            relation.name,
            columns_of(program, relation),
            sorted(relation.qualifiers),
            relation.location,
            relation.aggregate,
            relation.limit,
        )
    )


def columns_of(program: CheckedProgram, relation: Relation) -> Normal:
    """The columns with their types, and the types of the fields of records, and of theirs."""
    found: dict[str, Type] = {}
    waiting = list(relation.types)
    while waiting:
        type_ = waiting.pop()
        if type_.name not in found:
            found[type_.name] = type_
            waiting += [program.types[name] for _, name in type_.fields]
    records = sorted((name, type_.kind.value, type_.fields) for name, type_ in found.items())
    return repr((relation.columns, [type_.name for type_ in relation.types], records))


def normal_rule(rule: NormalRule) -> Normal:
    """A rule without the names of its variables."""
    naming = _Naming()
    head = [naming.term(arg) for arg in rule.args]
    body = [naming.literal(literal) for literal in rule.body]
    kinds = [(rule.kinds[name].value, rule.records.get(name)) for name in naming.numbers if name in rule.kinds]
    return repr((rule.relation, rule.deletes, head, body, kinds))


def normal_fact(fact: Fact) -> Normal:
    naming = _Naming()
    return repr((fact.relation, [naming.term(arg) for arg in fact.args]))


@dataclass(slots=True)
class _Naming:
    """Variables as numbers, in the order in which they are met."""

    numbers: dict[str, int] = field(default_factory=dict)

    def term(self, expr: Expr | None) -> Any:
        match expr:
            case Var(name):
                return self.numbers.setdefault(name, len(self.numbers))
            case Const(value, kind):
                return (kind.value, repr(value))
            case Call(op, args, kind, operand):
                return (op, kind.value, operand.value, self.terms(args))
        return None

    def terms(self, exprs: Iterable[Expr]) -> list[Any]:
        return [self.term(expr) for expr in exprs]

    def literal(self, literal: Literal) -> Any:
        match literal:
            case Match(relation, args):
                return ("match", relation, self.terms(args))
            case Compare(op, left, right, kind):
                return ("compare", op, kind.value, self.term(left), self.term(right))
            case Unpack(record, fields):
                return ("unpack", self.term(record), self.terms(fields))
            case Not(body, shared):
                return ("not", [self.literal(each) for each in body], sorted(self.terms(shared)))
            case Fold(result, kind, expr, body, shared, operand):
                inner = [self.literal(each) for each in body]
                ends = (self.term(result), self.term(expr))
                return ("fold", kind, operand.value, ends, inner, sorted(self.terms(shared)))


def _digest(parts: Mapping[str, Any]) -> str:
    return checksum(repr(sorted(parts.items())).encode("utf-8", "surrogatepass"))


# ------------------------------------------------------------------------------------------------------- codes


def _observes(call: Call) -> bool:
    return call.op == "ord" or (call.op == "as" and (call.kind is Kind.SYMBOL) != (call.operand is Kind.SYMBOL))


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
