"""`range` as relations: for each use, one that has the numbers between bounds that are asked for.

`x = range(a, b, s)` becomes `range#1(a, b, s, x)`, and these are the rules of that relation:

    ask#1(a, b, s)        :- what the body says about a, b and s.
    part#1(a, b, s, 0, n) :- ask#1(a, b, s), n is how many numbers there are.
    part#1(a, b, s, l, m), part#1(a, b, s, l + m, n - m) :- part#1(a, b, s, l, n), n > 1, m = n / 2.
    range#1(a, b, s, a + l * s) :- part#1(a, b, s, l, 1).

So a range of n numbers takes about log n rounds, and every strategy and place has it. Floats are added up one by one,
as Soufflé does, since that is not the same as a multiple. A step of zero gives the first number alone, if the bounds
differ. Without a step it is 1, or -1 where the second bound is less; unsigned numbers have no -1, so there is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

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
    Type,
    Unpack,
    Var,
)
from sempre.analysis.strata import arranged
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, ProgramError

RANGE = "range"


def with_ranges(program: CheckedProgram) -> CheckedProgram:
    """The program with a relation for every `range`."""
    if not any(_ranges(rule.body) for rule in program.rules):
        return program
    made = _Made(program, len(program.rules))
    rules = [made.rule(rule) for rule in program.rules]
    rules += made.rules
    relations = {**program.relations, **made.relations}
    strata = arranged(relations, rules)
    for name, rule in made.nested:
        home = next(stratum for stratum in strata if rule.relation in stratum.relations)
        if name in home.relations:
            hint = "Give the numbers a relation of their own, and read that."
            message = "a `range` in a negation or an aggregate depends on what the rule derives"
            raise ProgramError([Diagnostic("E160", message, rule.span, hint=hint)], program.sources)
    return replace(program, rules=tuple(rules), relations=relations, strata=strata)


@dataclass(frozen=True, slots=True)
class AskedRanges:
    """Rules with an atom in place of every `range`, and what nobody has made yet: the rows of these atoms.

    `asks` has, by the relation of such an atom, the rule that gives the bounds of the numbers in it.
    """

    rules: tuple[NormalRule, ...]
    asks: dict[str, NormalRule]
    relations: dict[str, Relation]


def asked_ranges(program: CheckedProgram, first: int) -> AskedRanges:
    """The rules with an atom for every `range`; `first` is a number for rules that no rule has."""
    made = _Made(program, first, whole=False)
    rules = tuple(made.rule(rule) for rule in program.rules)
    return AskedRanges(rules, {_made_of(rule.relation): rule for rule in made.rules}, made.relations)


def _made_of(asked: str) -> str:
    return RANGE + asked.removeprefix("ask")


def has_ranges(program: CheckedProgram) -> bool:
    """Whether a rule has a `range`."""
    return any(_ranges(rule.body) for rule in program.rules)


def _ranges(body: Iterable[Literal]) -> list[Literal]:
    found: list[Literal] = []
    for literal in body:
        if isinstance(literal, Not | Fold):
            found += _ranges(literal.body)
        elif _range_of(literal) is not None:
            found.append(literal)
    return found


def _range_of(literal: Literal) -> tuple[Var, Call] | None:
    """The variable and the call of `x = range(...)`."""
    if isinstance(literal, Compare) and literal.op == "=":
        for var, call in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(var, Var) and isinstance(call, Call) and call.op == RANGE:
                return var, call
    return None


@dataclass(slots=True)
class _Made:
    """What is added to a program, rule by rule; the rules that make the numbers only for a `whole` one."""

    program: CheckedProgram
    number: int
    whole: bool = True
    rules: list[NormalRule] = field(default_factory=list)
    relations: dict[str, Relation] = field(default_factory=dict)
    nested: list[tuple[str, NormalRule]] = field(default_factory=list)
    count: int = 0

    def rule(self, rule: NormalRule) -> NormalRule:
        """The rule with a relation in place of every range."""
        if not _ranges(rule.body):
            return rule
        kinds, records = dict(rule.kinds), dict(rule.records)
        rule = replace(rule, kinds=kinds, records=records)
        return replace(rule, body=self.body(rule, rule.body, (), frozenset(), nested=False))

    def body(
        self, rule: NormalRule, body: Sequence[Literal], outer: Sequence[Literal], given: frozenset[str], nested: bool
    ) -> tuple[Literal, ...]:
        """A body without ranges; `outer` are literals around it, and `given` the variables that these bind."""
        ready = [literal for literal in body if _range_of(literal) is None and not _is_late(literal)]
        waiting = [literal for literal in body if _range_of(literal) is not None]
        while waiting:
            done = []
            for literal in waiting:
                found = _range_of(literal)
                assert found is not None
                var, call = found
                needed = frozenset().union(*map(_names, call.args))
                asking, known = _evaluable(ready if needed else (), frozenset())
                if not needed <= known:
                    asking, known = _evaluable([*outer, *ready], given)
                    if not needed <= known:
                        continue
                    self.nested += [(f"range#{self.count + 1}", rule)] if nested else []
                match, more = self.match(rule, var, call, asking)
                ready += [*more, match]
                done.append(literal)
            assert done, "the analysis has checked that the bounds are bound"
            waiting = [literal for literal in waiting if literal not in done]
        around, bound = _evaluable([*outer, *ready], given)
        for literal in body:
            if isinstance(literal, Not | Fold) and _is_late(literal):
                if _ranges(literal.body):
                    shared = bound & frozenset(var.name for var in literal.shared)
                    literal = replace(literal, body=self.body(rule, literal.body, around, shared, nested=True))
                ready.append(literal)
        return tuple(ready)

    def match(self, rule: NormalRule, var: Var, call: Call, asking: Sequence[Literal]) -> tuple[Match, list[Literal]]:
        """The atom that stands for a range, and what gives its bounds names."""
        self.count += 1
        kind, records = call.kind, rule.records
        more: list[Literal] = []
        args: list[Var | Const] = []
        for at, arg in enumerate(call.args):
            if isinstance(arg, Call):
                name = Var(f"#range{self.count}_{at}")
                rule.kinds[name.name] = kind
                more.append(Compare("=", name, arg, kind, call.span))
                args.append(name)
            else:
                args.append(replace(arg, kind=kind) if isinstance(arg, Const) else arg)
        asked = f"ask#{self.count}"
        self.relations |= {name: _relation(name, width, kind, len(args)) for name, width in (
            (asked, 0), (f"part#{self.count}", 2), (f"range#{self.count}", 1)
        )}  # fmt: skip
        body = (*asking, *more) or (Compare("=", _number(0), _number(0), Kind.NUMBER, call.span),)
        self.rules.append(
            NormalRule(self.next(), asked, tuple(args), body, rule.kinds, False, rule.text, rule.span, records)
        )
        if self.whole:
            self.steps(kind, len(args), rule)
        return Match(f"range#{self.count}", (*args, var), call.span), more

    def next(self) -> int:
        self.number += 1
        return self.number - 1

    def steps(self, kind: Kind, arity: int, rule: NormalRule) -> None:
        """The rules that make the numbers of the present range."""
        asked, part, made = (f"{name}#{self.count}" for name in ("ask", "part", RANGE))
        bounds = tuple(Var(name) for name in ("a", "b", "s")[:arity])
        a, b = bounds[:2]
        s: Expr = bounds[2] if arity == 3 else _const(1, kind)
        kinds = {
            "a": kind,
            "b": kind,
            "s": kind,
            "x": kind,
            "y": kind,
            "n": Kind.NUMBER,
            "l": Kind.NUMBER,
            "m": Kind.NUMBER,
        }

        def add(head: str, args: tuple[Expr, ...], *body: Literal) -> None:
            self.rules.append(NormalRule(self.next(), head, args, body, kinds, False, rule.text, rule.span))

        def compare(op: str, left: Expr, right: Expr, of: Kind = kind) -> Compare:
            return Compare(op, left, right, of, rule.span)

        def call(op: str, *args: Expr, of: Kind = kind) -> Call:
            return Call(op, args, of, of, rule.span)

        ask, x, y, n, low, m = Match(asked, bounds, rule.span), Var("x"), Var("y"), Var("n"), Var("l"), Var("m")
        zero, one = _const(0, kind), _const(1, kind)
        ways: list[tuple[tuple[Literal, ...], Expr, str]] = []  # when, the step, and what a number must be to the end
        if arity == 3:
            ways.append(((compare(">", s, zero),), s, "<"))
            if kind is not Kind.UNSIGNED:
                ways.append(((compare("<", s, zero),), s, ">"))
            add(made, (*bounds, a), ask, compare("=", s, zero), compare("!=", a, b))
        else:
            ways.append(((), one, "<"))
            if kind is not Kind.UNSIGNED:
                ways.append(((), _const(-1, kind), ">"))
        for when, step, op in ways:
            if kind is Kind.FLOAT:
                add(made, (*bounds, a), ask, *when, compare(op, a, b))
                step_on = (compare("=", y, call("+", x, step)), compare(op, y, b))
                add(made, (*bounds, y), Match(made, (*bounds, x), rule.span), *when, compare(op, a, b), *step_on)
                continue
            far, size = (call("-", b, a), step) if op == "<" else (call("-", a, b), call("neg", step))
            # As many steps as begin before the end: how far it is, less one, over the size of a step, and one.
            whole = call("+", call("/", call("-", far, one), size), one)
            count = whole if kind is Kind.NUMBER else Call("utoi", (whole,), Kind.NUMBER, Kind.UNSIGNED, rule.span)
            add(part, (*bounds, _number(0), n), ask, *when, compare(op, a, b), compare("=", n, count, Kind.NUMBER))
        if kind is Kind.FLOAT:
            return
        number = Kind.NUMBER
        halves = (
            Match(part, (*bounds, low, n), rule.span),
            compare(">", n, _number(1), number),
            compare("=", m, call("/", n, _number(2), of=number), number),
        )
        add(part, (*bounds, low, m), *halves)
        add(part, (*bounds, call("+", low, m, of=number), call("-", n, m, of=number)), *halves)
        at: Expr = low if kind is number else Call("itou", (low,), kind, number, rule.span)
        last = Match(part, (*bounds, low, _number(1)), rule.span)
        if arity == 3:
            add(made, (*bounds, call("+", a, call("*", at, s))), last)
        else:
            add(made, (*bounds, call("+", a, at)), last, compare("<", a, b))
            if kind is number:
                add(made, (*bounds, call("-", a, at)), last, compare(">", a, b))


def _relation(name: str, more: int, kind: Kind, arity: int) -> Relation:
    """`arity` bounds of `kind`, and then numbers: one of `kind`, or two that count."""
    kinds = [kind] * (arity + (more == 1)) + [Kind.NUMBER] * (more if more == 2 else 0)
    columns = tuple(f"c{at}" for at in range(len(kinds)))
    return Relation(name, columns, tuple(Type(each.value, each) for each in kinds))


def _const(value: int, kind: Kind) -> Const:
    return Const(float(value) if kind is Kind.FLOAT else value, kind)


def _number(value: int) -> Const:
    return Const(value, Kind.NUMBER)


def _is_late(literal: Literal) -> bool:
    """Whether no bound depends on a literal: a negation, or an aggregate that has a range itself."""
    return isinstance(literal, Not) or (isinstance(literal, Fold) and bool(_ranges(literal.body)))


def _names(expr: Expr) -> frozenset[str]:
    if isinstance(expr, Var):
        return frozenset({expr.name})
    return frozenset().union(*map(_names, expr.args)) if isinstance(expr, Call) else frozenset()


def _evaluable(literals: Sequence[Literal], given: frozenset[str]) -> tuple[list[Literal], frozenset[str]]:
    """Those of the literals that have a value by themselves, and the variables that they bind; `given` are bound."""
    known, waiting = set(given), list(literals)
    kept: list[Literal] = []
    while waiting:
        left = [literal for literal in waiting if not _take(literal, known, kept)]
        if len(left) == len(waiting):
            break
        waiting = left
    return kept, frozenset(known)


def _take(literal: Literal, known: set[str], kept: list[Literal]) -> bool:
    binds: frozenset[str] | None = None
    match literal:
        case Match(_, args):
            binds = frozenset().union(*map(_names, args))
        case Unpack(record, fields) if record.name in known:
            binds = frozenset().union(*map(_names, fields))
        case Fold() if {var.name for var in literal.shared} <= known:
            binds = frozenset({literal.result.name})
        case Compare(op, left, right):
            sides = (_names(left), _names(right))
            if sides[0] | sides[1] <= known:
                binds = frozenset()
            elif op == "=":
                for side, other, names in ((left, sides[1], sides[0]), (right, sides[0], sides[1])):
                    if isinstance(side, Var) and other <= known:
                        binds = names
    if binds is None:
        return False
    known |= binds
    kept.append(literal)
    return True
