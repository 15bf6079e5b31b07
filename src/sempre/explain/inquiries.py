"""Rules that are made for a question, and what one state answers to them.

An `Inquiry` is a rule of its own: it gives the values of chosen variables for which a body holds, for rows of some of
these variables that are given. Evidence is found by nothing else: the instances of a rule that derive given facts, the
group of an aggregate, what blocks a negation, the bindings of a query.

`EvidenceState` is one state of a database in this process, and `Bench` evaluates inquiries there. Values that come into
being on the way are numbered on a branch and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

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
    Stratum,
    Type,
    Unpack,
    Var,
)
from sempre.backends.bindings import Bindings, compute
from sempre.backends.local import LocalBackend
from sempre.data import dataclass
from sempre.explain.generating import numbers_of_codes, without_generators
from sempre.limits import Limits
from sempre.maintain.planning import Plans
from sempre.plan.backend import sealed
from sempre.plan.ops import Pivot, Read, relations_of

if TYPE_CHECKING:
    from sempre.kernel.layout import Column, Field
    from sempre.kernel.trace import RowSet, Trace
    from sempre.kernel.values import Values

Codes = tuple[int, ...]
CodedFact = tuple[str, Codes]
GIVEN, FOUND = "#given", "#found"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """`found(variables) :- given, body`; `given` has the variables whose values are handed in, row by row."""

    rule: NormalRule
    variables: tuple[str, ...]
    given: tuple[str, ...]

    @property
    def given_relation(self) -> str:
        return GIVEN + self.rule.relation[len(FOUND) :]


def inquiry(
    number: int,
    source: NormalRule,
    body: Sequence[Literal],
    given: Sequence[str] = (),
    variables: Sequence[str] | None = None,
    kinds: Mapping[str, Kind] | None = None,
    records: Mapping[str, str] | None = None,
) -> Inquiry:
    """The inquiry for what makes a body true; `source` is the rule that the body is of, for kinds and places.

    Without `variables`, those that the body binds outside of scopes. `number` is one that no rule has.
    """
    names = tuple(given) + tuple(name for name in variables_of(body) if name not in given)
    chosen = names if variables is None else tuple(variables)
    literals = tuple(body)
    if given:
        literals = (Match(f"{GIVEN}-{number}", tuple(map(Var, given)), source.span), *literals)
    rule = replace(
        source,
        number=number,
        relation=f"{FOUND}-{number}",
        args=tuple(map(Var, chosen)),
        body=literals,
        kinds={**source.kinds, **(kinds or {})},
        records={**source.records, **(records or {})},
        deletes=False,
    )
    return Inquiry(rule, chosen, tuple(given))


def variables_of(body: Iterable[Literal]) -> tuple[str, ...]:
    """The variables of a body outside of its negations and aggregates, in order of appearance."""
    found: dict[str, None] = {}
    for literal in body:
        for name in literal_variables(literal):
            found.setdefault(name)
    return tuple(found)


def literal_variables(literal: Literal) -> tuple[str, ...]:
    """The variables that a literal shares with its body, or binds there."""
    match literal:
        case Match(_, args):
            exprs: tuple[Expr, ...] = args
        case Compare(_, left, right):
            exprs = (left, right)
        case Unpack(record, fields):
            exprs = (record, *fields)
        case Not():
            exprs = literal.shared
        case Fold():
            exprs = (*literal.shared, literal.result)
    return tuple(name for expr in exprs for name in expr_variables(expr))


def expr_variables(expr: Expr) -> tuple[str, ...]:
    """The variables of an expression, in order of appearance."""
    if isinstance(expr, Var):
        return (expr.name,)
    if isinstance(expr, Call):
        return tuple(name for arg in expr.args for name in expr_variables(arg))
    return ()


def head_literals(
    rule: NormalRule, relation: Relation, ignored: int | None = None
) -> tuple[list[str], list[Literal], dict[str, Kind]]:
    """What says that the head of a rule is a given fact: a variable per column, and the literals that relate it.

    Column `ignored`, where an aggregate is, has a variable that nothing relates. What it counts may be of another kind.
    """
    given: list[str] = []
    literals: list[Literal] = []
    kinds: dict[str, Kind] = {}
    for column, arg in enumerate(rule.args):
        if isinstance(arg, Var) and column != ignored and arg.name not in given:
            given.append(arg.name)
            continue
        name = f"#head{column}"
        given.append(name)
        kinds[name] = rule.kinds[arg.name] if isinstance(arg, Var) else arg.kind
        if column == ignored:
            kinds[name] = relation.kinds[column]
            continue
        if isinstance(arg, Call) and arg.op == "record" and all(isinstance(part, Var | Const) for part in arg.args):
            fields = tuple(part for part in arg.args if isinstance(part, Var | Const))
            literals.append(Unpack(Var(name), fields, arg.span))
        else:
            literals.append(Compare("=", Var(name), arg, kinds[name], rule.span))
    return given, literals, kinds


class EvidenceState:
    """One state of a database: its relations and its explicit facts, in this process.

    `program` has the rules as they are explained, and `evaluated` as they are evaluated. `version_of` and `explicit_of`
    give a relation, in this process.
    """

    def __init__(
        self,
        program: CheckedProgram,
        backend: LocalBackend,
        version_of: Callable[[str], Trace],
        explicit_of: Callable[[str], Trace],
        values: Values,
        evaluated: CheckedProgram | None = None,
    ) -> None:
        self.program = program
        self.evaluated = evaluated or program
        self.values = values
        self.limits: Limits = backend.limits
        self.fields: Mapping[str, tuple[Field, ...]] = backend.fields
        self._version_of, self._explicit_of = version_of, explicit_of
        self._versions: dict[str, Trace] = {}
        self._explicit: dict[str, Trace] = {}

    def version(self, name: str) -> Trace:
        """A relation, with the indexes that were asked for so far."""
        if name not in self._versions:
            self._versions[name] = self._version_of(name)
        return self._versions[name]

    def indexed(self, name: str, orders: Iterable[tuple[int, ...]]) -> Trace:
        """A relation with these indexes, which it keeps."""
        version = self._versions[name] = self.version(name).indexed(orders)
        return version

    def explicit(self, name: str) -> Trace:
        """The explicit facts of a relation."""
        if name not in self._explicit:
            self._explicit[name] = self._explicit_of(name)
        return self._explicit[name]


class Bench:
    """Evaluates inquiries in one state. A bench is made for some inquiries, and knows no others."""

    def __init__(self, state: EvidenceState, inquiries: Sequence[Inquiry]) -> None:
        self.state = state
        generated = without_generators(_extended(state.program, inquiries), state.evaluated)
        self.program, self.asks = generated.program, generated.asks
        self._rules = {rule.number: rule for rule in self.program.rules[len(state.program.rules) :]}
        self.backend = LocalBackend(self.program, None, state.limits)
        self.backend.values = state.values
        self.backend.restore(state.fields)
        self.plans = Plans(self.program, sealed(self.backend))

    def close(self) -> None:
        """Give back the threads."""
        self.backend.close()

    def rows(self, relation: str, facts: Sequence[Codes]) -> RowSet:
        """Distinct rows of a relation, or of what is given to an inquiry, from codes."""
        arity = len(self.program.relations[relation].columns)
        table = np.array(facts, np.int64).reshape(len(facts), arity)
        columns = [np.ascontiguousarray(table[:, at]) for at in range(arity)]
        return self.backend.rows(relation, columns, len(facts))

    def present(self, relation: str, facts: Sequence[Codes], explicit: bool = False) -> set[Codes]:
        """Which of these facts are there, or are explicit."""
        version = self.state.explicit(relation) if explicit else self.state.version(relation)
        found = self.backend.intersection(self.rows(relation, facts), version)
        return set(tuples_of(found.columns(), len(found)))

    def ask(self, question: Inquiry, given: Sequence[Codes] | RowSet | None = None) -> list[Codes]:
        """Every row of variables that makes the body of an inquiry true, for the rows that are given."""
        found = self.ask_rows(question, given)
        return tuples_of(found.columns(), len(found))

    def ask_rows(self, question: Inquiry, given: Sequence[Codes] | RowSet | None = None) -> RowSet:
        """The same as rows."""
        rule, name = self._rules[question.rule.number], question.given_relation
        if not question.given:
            return self._found(rule, None, {})
        rows = self.rows(name, given) if isinstance(given, list | tuple) else given
        return self._found(rule, Pivot(0), {name: self.backend.version(rows)})  # type: ignore[arg-type]

    def version(self, name: str) -> Any:
        """A relation as it is, or all numbers of a `range` that the state has bounds for."""
        return self._numbers(name, {}) if name in self.asks else self.backend.fitted(name, self.state.version(name))

    def _found(self, rule: NormalRule, pivot: Pivot | None, made: dict[str, Any]) -> RowSet:
        """What a rule finds; `made` has relations that are not of the state."""
        for read in sorted(relations_of(rule.body)):
            if read in self.asks and read not in made:
                made[read] = self._numbers(read, made)
        sizes: dict[str, Any] = {read: self.state.version(read) for read in relations_of(rule.body) if read not in made}
        sizes |= made
        views: dict[tuple[str, Read], Any] = {}
        plan = self.plans.full(rule, sizes) if pivot is None else self.plans.delta(rule, pivot, sizes)
        for (read, how), orders in self.plans.needed_orders([(rule, pivot)]).items():
            if read in made:
                views[read, how] = self.backend.view(made[read].indexed(orders))
            else:
                views[read, how] = self.backend.view(self._fitted(read, orders))
        found: RowSet = self.backend.derive(rule.relation, [plan], views, self.backend.empty(rule.relation))  # type: ignore[list-item]
        return found

    def _numbers(self, name: str, made: dict[str, Any]) -> Any:
        """The numbers of a `range` between all bounds that its rule has."""
        bounds = self._found(self.asks[name], None, made)
        columns = numbers_of_codes(self.program.relations[name].kinds[-1], list(bounds.columns()))
        return self.backend.version(self.backend.rows(name, columns, columns[0].size))

    def _fitted(self, name: str, orders: Iterable[tuple[int, ...]]) -> Trace:
        return self.backend.fitted(name, self.state.indexed(name, orders))


def tuples_of(columns: Sequence[Column], size: int) -> list[Codes]:
    """Rows as tuples of codes."""
    return list(zip(*(column.tolist() for column in columns), strict=True)) if columns else [()] * min(size, 1)


def code_of(constant: Const, state: EvidenceState) -> int:
    """The code of a constant."""
    return int(compute(state.values, constant, Bindings.unit(counted=False))[0])


def type_of(name: str, rule: NormalRule, program: CheckedProgram) -> Type:
    """The type that the values of a variable are read by."""
    kind = rule.kinds[name]
    if kind is Kind.RECORD:
        return program.types.get(rule.records.get(name, ""), Type(kind.value, kind))
    return Type(kind.value, kind)


def _extended(program: CheckedProgram, inquiries: Sequence[Inquiry]) -> CheckedProgram:
    """A program with the relations and the rules of inquiries."""
    relations, rules = dict(program.relations), list(program.rules)
    strata = list(program.strata)
    for each in inquiries:
        rule = each.rule
        pairs = [(rule.relation, each.variables), (each.given_relation, each.given)]
        for name, variables in pairs:
            relations[name] = Relation(name, variables, tuple(type_of(v, rule, program) for v in variables))
        rules.append(rule)
        strata.append(Stratum(len(strata), (rule.relation,), (rule,), ()))
        strata.append(Stratum(len(strata), (each.given_relation,), (), ()))
    return replace(program, relations=relations, rules=tuple(rules), strata=tuple(strata))
