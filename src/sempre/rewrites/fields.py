"""Records that a recursive rule takes apart, with what they hold in columns, to be found by it.

In

    val(x, a + b) :- e(x), x = $Add(l, r), val(l, a), val(r, b).

a new row of `val` says what `l` is, and nothing leads from there to `x`: each new row would meet every row of `e`. So
the rule reads a relation that has them side by side, which has an index like any other:

    fields#1(x, l, r) :- e(x), x = $Add(l, r).
    val(x, a + b)     :- fields#1(x, l, r), val(l, a), val(r, b).

A record says what its fields are, so the rule keeps its instances one for one. The relation costs a row for each row
that is taken apart. That is worth it only where recursion comes from the other side: where an atom of the rule's own
stratum shares a variable with the fields, and none with the atom that has the record. If that atom is of the same
stratum, it stays as it is, since rows would go through one more round. So do active rules, which would fire a cycle
later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TypeAlias

from sempre.analysis.head_aggregates import literal_names, names_in
from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Expr,
    Kind,
    Literal,
    Match,
    NormalRule,
    Relation,
    Type,
    Unpack,
    Var,
)
from sempre.analysis.strata import arranged
from sempre.data import dataclass

PREFIX = "fields#"
# What takes a record apart: `x = [a, b]`, in either of its normal forms.
Taking: TypeAlias = Unpack | Compare


def with_fields(program: CheckedProgram) -> CheckedProgram:
    """The program with relations of records and their fields, for the rules that look for records by what they hold."""
    if program.semantics == "active":
        return program
    homes = {name: stratum.index for stratum in program.strata for name in stratum.relations}
    beside = _Beside(program, homes)
    rules = [beside.rule(rule) for rule in program.rules]
    if not beside.rules:
        return program
    relations = {**program.relations, **beside.relations}
    return replace(
        program,
        rules=(*rules, *beside.rules),
        relations=relations,
        strata=arranged(relations, (*rules, *beside.rules)),
    )


@dataclass(slots=True)
class _Beside:
    """What is added to a program, rule by rule; rules that take the same records apart share a relation."""

    program: CheckedProgram
    homes: Mapping[str, int]
    rules: list[NormalRule] = field(default_factory=list)
    relations: dict[str, Relation] = field(default_factory=dict)
    known: dict[tuple[tuple[Match | Unpack, ...], tuple[Var, ...]], str] = field(default_factory=dict)

    def rule(self, rule: NormalRule) -> NormalRule:
        """The rule, reading records with their fields where it is recursive in what they hold."""
        home = self.homes[rule.relation]
        recursive = [lit for lit in rule.body if isinstance(lit, Match) and self.homes[lit.relation] == home]
        if not recursive:
            return rule
        for atom in rule.body:
            if isinstance(atom, Match) and self.homes[atom.relation] != home:
                own = literal_names(atom)
                taken = _taken_apart(own, rule.body)
                inside = {name for literal in taken for name in literal_names(literal)} - own
                if any(not own & literal_names(each) and inside & literal_names(each) for each in recursive):
                    rule = self._reading(rule, atom, taken)
        return rule

    def _reading(self, rule: NormalRule, atom: Match, taken: list[Taking]) -> NormalRule:
        body = [literal for literal in rule.body if all(literal is not other for other in taken)]
        read = {name for arg in rule.args for name in names_in(arg)}
        read = read.union(*(literal_names(literal) for literal in body if literal is not atom))
        own = dict.fromkeys(_in_order(atom))
        held = dict.fromkeys(name for literal in taken for name in _in_order(literal) if name in read)
        columns = tuple(map(Var, {**own, **held}))
        match = Match(self._relation(rule, atom, taken, columns), columns, atom.span)
        return replace(rule, body=tuple(match if literal is atom else literal for literal in body))

    def _relation(self, rule: NormalRule, atom: Match, taken: list[Taking], columns: tuple[Var, ...]) -> str:
        """The name of the relation that has these columns; made if no rule has asked for it."""
        opened = _Opened(self.program, dict(rule.kinds), dict(rule.records))
        asked: list[Match | Unpack] = [atom]
        for literal in taken:
            asked += [literal] if isinstance(literal, Unpack) else opened.unpacks(*_built(literal))
        names: dict[str, Var] = {}
        for name in (*(var.name for var in columns), *(name for each in asked for name in _in_order(each))):
            names.setdefault(name, Var(f"v{len(names)}"))
        body = tuple(_renamed(literal, names) for literal in asked)
        head = tuple(names[var.name] for var in columns)
        if (body, head) not in self.known:
            name = self.known[body, head] = f"{PREFIX}{len(self.known) + 1}"
            types = tuple(opened.type(var.name) for var in columns)
            self.relations[name] = Relation(name, tuple(f"c{at}" for at in range(len(columns))), types)
            kinds = {new.name: opened.kinds[old] for old, new in names.items()}
            records = {new.name: opened.records[old] for old, new in names.items() if old in opened.records}
            number = len(self.program.rules) + len(self.rules)
            self.rules.append(NormalRule(number, name, head, body, kinds, False, rule.text, rule.span, records))
        return self.known[body, head]


@dataclass(slots=True)
class _Opened:
    """The variables of a rule, and those that records within records get."""

    program: CheckedProgram
    kinds: dict[str, Kind]
    records: dict[str, str]

    def type(self, name: str) -> Type:
        kind, record = self.kinds[name], self.records.get(name, "")
        return self.program.types.get(record) or Type(record or kind.value, kind)

    def unpacks(self, record: Var, call: Call) -> list[Unpack]:
        """What `record = call` says, record by record."""
        fields: list[Var | Const] = []
        inner: list[Unpack] = []
        for at, arg in enumerate(call.args):
            if isinstance(arg, Call):
                var = Var(f"{record.name}#{at}")
                self.kinds[var.name] = Kind.RECORD
                self.records[var.name] = self._held(self.type(record.name), at, call.args[0])
                inner += self.unpacks(var, arg)
                fields.append(var)
            else:
                fields.append(arg)
        return [Unpack(record, tuple(fields), call.span), *inner]

    def _held(self, type_: Type, at: int, first: Expr) -> str:
        """The type of a field; `first` says of which branch a record is."""
        if type_.branches and isinstance(first, Const):
            return next(name for number, (_, name) in enumerate(type_.branches) if number == first.value)
        return type_.fields[at][1]


def _taken_apart(names: Iterable[str], body: Iterable[Literal]) -> list[Taking]:
    """The literals that take records apart which are among `names`, or inside of one that is."""
    known = set(names)
    waiting = [lit for lit in body if isinstance(lit, Unpack) or (isinstance(lit, Compare) and _is_taking(lit))]
    found: list[Taking] = []
    while ready := [literal for literal in waiting if _record(literal).name in known]:
        found += ready
        known = known.union(*map(literal_names, ready))
        waiting = [literal for literal in waiting if all(literal is not other for other in ready)]
    return found


def _record(literal: Taking) -> Var:
    return literal.record if isinstance(literal, Unpack) else _built(literal)[0]


def _built(literal: Compare) -> tuple[Var, Call]:
    """The variable, and the record that it equals."""
    var, call = (literal.left, literal.right) if isinstance(literal.left, Var) else (literal.right, literal.left)
    assert isinstance(var, Var)
    assert isinstance(call, Call)
    return var, call


def _is_taking(literal: Compare) -> bool:
    sides = (literal.left, literal.right)
    return literal.op == "=" and any(isinstance(side, Var) for side in sides) and any(map(_is_pattern, sides))


def _is_pattern(expr: Expr) -> bool:
    """Whether an expression is a record of variables, constants and such records."""
    return (
        isinstance(expr, Call)
        and expr.op == "record"
        and all(not isinstance(a, Call) or _is_pattern(a) for a in expr.args)
    )


def _in_order(literal: Match | Taking) -> list[str]:
    match literal:
        case Match(args=args):
            return [arg.name for arg in args if isinstance(arg, Var)]
        case Unpack(record, fields):
            return [arg.name for arg in (record, *fields) if isinstance(arg, Var)]
        case Compare():
            var, call = _built(literal)
            return [var.name, *_leaves(call)]


def _leaves(expr: Expr) -> list[str]:
    if isinstance(expr, Call):
        return [name for arg in expr.args for name in _leaves(arg)]
    return [expr.name] if isinstance(expr, Var) else []


def _renamed(literal: Match | Unpack, names: Mapping[str, Var]) -> Match | Unpack:
    if isinstance(literal, Match):
        args = tuple(names[arg.name] if isinstance(arg, Var) else arg for arg in literal.args)
        return replace(literal, args=args)
    inside = tuple(names[arg.name] if isinstance(arg, Var) else arg for arg in literal.fields)
    return replace(literal, record=names[literal.record.name], fields=inside)
