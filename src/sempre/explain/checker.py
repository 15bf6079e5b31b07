"""A checker of proofs that knows rules and plain values, and nothing of how proofs are found.

`check_proof` replays a document, as JSON has it, against a checked program and facts. Every derived fact must follow by
its rule from nothing but the facts that the document names as its premises; what a negation or an aggregate reads is
looked up among all facts. A solver of loops and dictionaries does that, literal by literal.

What a counter gives, and `ord`, nobody can tell from rules and values: they may be anything here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Expr,
    Fold,
    Kind,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Unpack,
    Var,
)
from sempre.explain.generating import numbers
from sempre.files.records import parse_record
from sempre.kernel.reduce import aggregate
from sempre.network.python_functors import equal_floats, function, matches
from sempre.rewrites.ranges import RANGE

ANYTHING = object()
UNTOLD = frozenset({"autoinc", "ord"})

Row = tuple[Any, ...]
Env = dict[str, Any]
Lookup = Callable[[str, Mapping[int, Any]], Iterable[Row]]


class PlainFacts(Protocol):
    """The facts of one state, as plain values."""

    def rows(self, relation: str, given: Mapping[int, Any]) -> Iterable[Row]:
        """The rows of a relation that have these values in these columns."""
        ...

    def explicit_rows(self, relation: str, given: Mapping[int, Any]) -> Iterable[Row]:
        """The explicit ones among them."""
        ...


def check_proof(document: Mapping[str, Any], program: CheckedProgram, facts: PlainFacts) -> list[str]:
    """What is wrong with a proof; nothing if it holds."""
    return _Checker(document, program, facts).complaints()


class _Checker:
    def __init__(self, document: Mapping[str, Any], program: CheckedProgram, facts: PlainFacts) -> None:
        self.document, self.program, self.facts = document, program, facts
        self.nodes: Sequence[Mapping[str, Any]] = document["nodes"]
        self.strata = {name: stratum.index for stratum in program.strata for name in stratum.relations}

    def complaints(self) -> list[str]:
        found = [] if self._is_acyclic() else ["the proof rests on itself"]
        root = self.nodes[self.document["root"]]
        if root["text"] != self.document["fact"]:
            found.append("the root of the proof is another fact")
        for node in self.nodes:
            fault = self._fault(node)
            found += [f"{node['text']}: {fault}"] if fault else []
        return found

    def _fault(self, node: Mapping[str, Any]) -> str:
        relation = self.program.relations.get(node["relation"])
        if relation is None or len(node["values"]) != relation.arity:
            return "there is no such relation"
        row = self._row(relation, node)
        if node["kind"] == "explicit":
            known = {at: value for at, value in enumerate(row) if relation.kinds[at] is not Kind.RECORD}
            types = [(type_.name, type_.kind) for type_ in relation.types]
            found = (
                tuple(self._value(value, *each) for value, each in zip(other, types, strict=True))
                for other in self.facts.explicit_rows(relation.name, known)
            )
            if not any(_same(other, row) for other in found):
                return "it is no explicit fact"
            return "" if node["height"] == 1 else "the height of an explicit fact is 1"
        rule = self._rule(relation, node)
        if rule is None:
            return "the program has no such rule for it"
        below = [premise["node"] for premise in node["premises"] if premise["kind"] == "fact"]
        if any(at < 0 for at in below):
            return "the proof is cut here"
        premises: dict[str, list[Row]] = {}
        for at in below:
            other = self.nodes[at]
            named = self.program.relations.get(other["relation"])
            if named is None:
                return "a premise is of no relation"
            premises.setdefault(named.name, []).append(self._row(named, other))
        if not self._follows(relation, rule, row, premises):
            return f"it does not follow by its rule from its premises: {rule.text}"
        own = [self.nodes[at]["height"] for at in below if self._is_own(relation, self.nodes[at])]
        wanted = 1 + max(own, default=0)
        return "" if node["height"] == wanted else f"its height is {wanted}, not {node['height']}"

    def _is_own(self, relation: Relation, node: Mapping[str, Any]) -> bool:
        return self.strata[node["relation"]] == self.strata[relation.name]

    def _row(self, relation: Relation, node: Mapping[str, Any]) -> Row:
        pairs = zip(node["values"], relation.types, strict=True)
        return tuple(self._value(value, type_.name, type_.kind) for value, type_ in pairs)

    def _value(self, value: Any, type_name: str, kind: Kind) -> Any:
        """A value of JSON as what it stands for."""
        if kind is Kind.FLOAT:
            return float(value)
        if kind is Kind.RECORD and isinstance(value, str):
            value = parse_record(value, self.program.types[type_name], self.program.types)
        if kind is Kind.RECORD and value is not None and self.program.types[type_name].branches:
            return self._branch(value, type_name)
        if kind is Kind.RECORD and value is not None:
            fields = self.program.types[type_name].fields
            types = [self.program.types[name] for _, name in fields]
            return tuple(self._value(v, t.name, t.kind) for v, t in zip(value, types, strict=True))
        return value

    def _branch(self, value: Any, type_name: str) -> Any:
        """A value of an algebraic type as rules have it: the number of its branch, and a record of what it holds."""
        branches = self.program.types[type_name].branches
        number = next(at for at, (name, _) in enumerate(branches) if name == value[0])
        held = value[1:]
        return (number, self._value(held, branches[number][1], Kind.RECORD) if held else None)

    def _looked_up(self, name: str, given: Mapping[int, Any]) -> Iterable[Row]:
        return self._as_in_rules(name, given, self.facts.rows)

    def _as_in_rules(self, name: str, given: Mapping[int, Any], rows: Lookup) -> Iterable[Row]:
        """Rows with values as rules have them; what is given of an algebraic type is compared here."""
        relation = self.program.relations[name]
        known = {at: value for at, value in given.items() if relation.kinds[at] is not Kind.RECORD}
        for row in rows(name, known):
            types = zip(row, relation.types, strict=True)
            inner = tuple(self._value(value, type_.name, type_.kind) for value, type_ in types)
            if all(_same(inner[at], value) for at, value in given.items()):
                yield inner

    def _rule(self, relation: Relation, node: Mapping[str, Any]) -> NormalRule | None:
        told = self.document["rules"][str(node["rule"])]["text"]
        rules = [rule for rule in self.program.rules if rule.relation == relation.name and rule.text == told]
        if relation.is_equivalence:
            rules += [rule for rule in _equivalence_rules(relation) if rule.text == told]
        return next((rule for rule in rules if self._is_said(rule, node)), rules[0] if rules else None)

    def _is_said(self, rule: NormalRule, node: Mapping[str, Any]) -> bool:
        """Whether a rule is the alternative that a node is about: several rules can have the text of one clause."""
        said = [premise["kind"] for premise in node["premises"]]
        atoms = sum(isinstance(literal, Match) for literal in rule.body)
        if len(said) != len(rule.body) or said.count("fact") != atoms:
            return False
        named = [self.nodes[p["node"]]["relation"] for p in node["premises"] if p["kind"] == "fact" and p["node"] >= 0]
        matched = [literal.relation for literal in rule.body if isinstance(literal, Match)]
        if named != matched:
            return False
        premises: dict[str, list[Row]] = {}
        for premise in node["premises"]:
            if premise["kind"] == "fact":
                other = self.nodes[premise["node"]]
                relation = self.program.relations[other["relation"]]
                premises.setdefault(relation.name, []).append(self._row(relation, other))
        head = self.program.relations[rule.relation]
        return self._follows(head, rule, self._row(head, node), premises)

    def _follows(self, relation: Relation, rule: NormalRule, row: Row, premises: Mapping[str, list[Row]]) -> bool:
        def among(name: str, given: Mapping[int, Any]) -> Iterator[Row]:
            return (each for each in premises.get(name, ()) if all(_same(each[at], v) for at, v in given.items()))

        total = relation.aggregate if relation.aggregate and relation.aggregate[0] in ("sum", "count") else None
        for env in solve(rule.body, {}, among, self._looked_up):
            head = [value_of(arg, env) for arg in rule.args]
            if all(_same(a, b) for at, (a, b) in enumerate(zip(head, row, strict=True)) if not total or at != total[1]):
                return total is None or self._adds_up(relation, row)
        return False

    def _adds_up(self, relation: Relation, row: Row) -> bool:
        """Whether a total is that of all instances of all rules, and of explicit facts."""
        assert relation.aggregate is not None
        kind, column = relation.aggregate
        explicit = self._as_in_rules(relation.name, _group(row, column), self.facts.explicit_rows)
        values = [each[column] for each in explicit]
        for rule in (rule for rule in self.program.rules if rule.relation == relation.name):
            for env in solve(rule.body, {}, self._looked_up, self._looked_up):
                head = [value_of(arg, env) for arg in rule.args]
                if all(_same(head[at], value) for at, value in _group(row, column).items()):
                    values.append(head[column])
        return _same(aggregate(kind, values, relation.kinds[column].value), row[column])

    def _is_acyclic(self) -> bool:
        """Whether the premises of every fact can be had before it."""
        state = [0] * len(self.nodes)
        for start in range(len(self.nodes)):
            stack = [(start, False)]
            while stack:
                at, done = stack.pop()
                if done:
                    state[at] = 2
                elif state[at] == 1:
                    return False
                elif state[at] == 0:
                    state[at] = 1
                    stack.append((at, True))
                    premises = self.nodes[at].get("premises", ())
                    below = [p["node"] for p in premises if p["kind"] == "fact" and p["node"] >= 0]
                    if any(state[other] == 1 for other in below):
                        return False
                    stack += [(other, False) for other in below if state[other] == 0]
        return True


def _group(row: Row, column: int) -> dict[int, Any]:
    return {at: value for at, value in enumerate(row) if at != column}


def _equivalence_rules(relation: Relation) -> list[NormalRule]:
    """What an equivalence follows by besides the rules that are written."""
    name, (x, y, z) = relation.name, map(Var, "xyz")
    kinds = dict.fromkeys("xyz", relation.kinds[0])
    forward, onward = Match(name, (x, y)), Match(name, (y, z))
    return [
        NormalRule(-1, name, (y, x), (forward,), kinds, text=f"{name}(y, x) :- {name}(x, y)."),
        NormalRule(-1, name, (x, z), (forward, onward), kinds, text=f"{name}(x, z) :- {name}(x, y), {name}(y, z)."),
    ]


# -------------------------------------------------------------------------------------------------- solving


def solve(body: Sequence[Literal], env: Env, lookup: Lookup, nested: Lookup) -> Iterator[Env]:
    """Every extension of `env` that makes a body true; atoms are found by `lookup`, those in scopes by `nested`."""
    if not body:
        yield env
        return
    at = next((n for n, literal in enumerate(body) if _is_ready(literal, env)), None)
    if at is None:
        at = next(n for n, literal in enumerate(body) if isinstance(literal, Match))
    rest = [literal for n, literal in enumerate(body) if n != at]
    for extended in _extended(body[at], env, lookup, nested):
        yield from solve(rest, extended, lookup, nested)


def _is_ready(literal: Literal, env: Env) -> bool:
    """Whether a literal can be decided, or binds one variable, without looking anything up."""
    match literal:
        case Compare():
            unbound = [side for side in (literal.left, literal.right) if not _is_bound(side, env)]
            return not unbound or (literal.op == "=" and len(unbound) == 1 and isinstance(unbound[0], Var))
        case Unpack():
            return literal.record.name in env
        case Not() | Fold():
            return all(var.name in env for var in literal.shared)
        case Match():
            return all(_is_bound(arg, env) for arg in literal.args)


def _is_bound(expr: Expr, env: Env) -> bool:
    if isinstance(expr, Var):
        return expr.name in env
    return all(_is_bound(arg, env) for arg in expr.args) if isinstance(expr, Call) else True


def _extended(literal: Literal, env: Env, lookup: Lookup, nested: Lookup) -> Iterator[Env]:
    if isinstance(literal, Match):
        bound = {at: value_of(arg, env) for at, arg in enumerate(literal.args) if _is_bound(arg, env)}
        given = {at: value for at, value in bound.items() if value is not ANYTHING}
        for row in lookup(literal.relation, given):
            yield from _taking(literal.args, row, env)
    elif isinstance(literal, Unpack):
        record = env[literal.record.name]
        if record is not None:
            yield from _taking(literal.fields, record, env)
    elif isinstance(literal, Not):
        if not any(True for _ in solve(literal.body, _shared(literal, env), nested, nested)):
            yield env
    elif isinstance(literal, Fold):
        result = _folded(literal, env, nested)
        if result is not None:
            yield from _taking((literal.result,), (result,), env)
    else:
        yield from _compared(literal, env)


def _compared(literal: Compare, env: Env) -> Iterator[Env]:
    for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
        if isinstance(other, Call) and other.op == RANGE:
            given = numbers(other.operand, *(value_of(arg, env) for arg in other.args))
            for number in given:
                yield from _taking((side,), (number,), env)
            return
        if isinstance(side, Var) and side.name not in env:
            yield {**env, side.name: value_of(other, env)}
            return
    if _holds(literal.op, value_of(literal.left, env), value_of(literal.right, env)):
        yield env


def _taking(args: Sequence[Expr], row: Sequence[Any], env: Env) -> Iterator[Env]:
    extended = dict(env)
    for arg, value in zip(args, row, strict=True):
        if isinstance(arg, Var) and arg.name not in extended:
            extended[arg.name] = value
        elif not _same(value_of(arg, extended), value):
            return
    yield extended


def _shared(literal: Not | Fold, env: Env) -> Env:
    return {var.name: env[var.name] for var in literal.shared}


def _folded(literal: Fold, env: Env, nested: Lookup) -> Any:
    outside = _shared(literal, env)
    values: dict[str, Any] = {}
    for inner in solve(literal.body, outside, nested, nested):
        key = repr(sorted((name, repr(value)) for name, value in inner.items()))
        values[key] = 1 if literal.expr is None else value_of(literal.expr, inner)
    return aggregate(literal.kind, list(values.values()), literal.operand.value)


def value_of(expr: Expr, env: Env) -> Any:
    """The value of an expression whose variables are bound."""
    if isinstance(expr, Var):
        return env[expr.name]
    if isinstance(expr, Const):
        return float(expr.value) if expr.kind is Kind.FLOAT and expr.value is not None else expr.value
    args = [value_of(arg, env) for arg in expr.args]
    if expr.op in UNTOLD or (expr.op != "record" and any(arg is ANYTHING for arg in args)):
        return ANYTHING
    return tuple(args) if expr.op == "record" else function(expr.op, expr.operand.value)(*args)


def _same(a: Any, b: Any) -> bool:
    if a is ANYTHING or b is ANYTHING:
        return True
    if isinstance(a, float) and isinstance(b, float):
        return equal_floats(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _holds(op: str, a: Any, b: Any) -> bool:
    if a is ANYTHING or b is ANYTHING:
        return True
    if op in ("=", "!="):
        return _same(a, b) == (op == "=")
    if op in ("match", "not_match"):
        return matches(a, b) == (op == "match")
    if op in ("contains", "not_contains"):
        return (a in b) == (op == "contains")
    if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
        return False
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])
