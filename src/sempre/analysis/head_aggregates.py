"""Aggregates in heads: that the rules of a relation agree on them, and that recursion through them is sound.

In recursion a value may be used before it is final, so what is derived from an early value must be harmless: it must
be no better than what the final value gives. With `min`, values only go down as facts arrive; a rule that reads such a
value may pass it on only by an expression that never goes up when the value goes down, only into a `min`, and may test
it only against upper bounds. For `max` it is the mirror image. `count` and `sum` do not move in one direction
for this purpose: the early facts would have to be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sempre.analysis.draft import Draft
from sempre.analysis.model import (
    Call,
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
from sempre.analysis.naming import shown
from sempre.analysis.strata import component_of
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.syntax import Head, HeadAggregate

# Comparisons of a value with something fixed that stay true as the value moves, by the aggregate that moves it.
_HARMLESS = {"min": ("<", "<="), "max": (">", ">=")}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


# ----------------------------------------------------------------------------------------------- agreement


def resolve_head_aggregates(draft: Draft) -> Draft:
    """Pass: the aggregate of every relation that has one; all its rules must have the same."""
    relations = dict(draft.relations)
    first: dict[str, tuple[tuple[str, int], Span]] = {}
    diagnostics: list[Diagnostic] = []
    for rule in draft.open_rules():
        for head in rule.heads:
            diagnostics += _head_problems(head)
            if not _fits(head, relations):
                continue
            for index, term in enumerate(head.atom.args):
                if isinstance(term, HeadAggregate):
                    first.setdefault(head.atom.relation, ((term.kind, index), head.span))
    for name, (aggregate, span) in first.items():
        relations[name] = replace(relations[name], aggregate=aggregate)
        diagnostics += _disagreements(draft, name, aggregate, span)
    return replace(draft, relations=relations).report(diagnostics)


def _fits(head: Head, relations: Mapping[str, Relation]) -> bool:
    """Whether the relation is declared, with as many columns; else that has been reported."""
    relation = relations.get(head.atom.relation)
    return relation is not None and len(head.atom.args) == relation.arity


def _head_problems(head: Head) -> Iterator[Diagnostic]:
    aggregates = [term for term in head.atom.args if isinstance(term, HeadAggregate)]
    if len(aggregates) > 1:
        hint = "Give each aggregate a relation of its own and join them."
        yield Diagnostic("E411", "a head has at most one aggregate", aggregates[1].span, hint=hint)
    if aggregates and head.deletes:
        hint = "Aggregate in a relation of its own, and delete by that."
        yield Diagnostic("E411", "a head that deletes cannot aggregate", aggregates[0].span, hint=hint)


def _disagreements(draft: Draft, name: str, aggregate: tuple[str, int], span: Span) -> Iterator[Diagnostic]:
    kind, column = aggregate
    for rule in draft.open_rules():
        for head in rule.heads:
            if head.atom.relation != name or head.deletes or not _fits(head, draft.relations):
                continue
            term = head.atom.args[column]
            if isinstance(term, HeadAggregate) and term.kind == kind:
                continue
            if not isinstance(term, HeadAggregate) and rule.is_fact:
                continue
            message = f"the rules of `{name}` aggregate differently"
            hint = f"Write `{kind}(...)` as argument {column + 1} of every rule of `{name}`."
            yield Diagnostic("E410", message, head.span, hint=hint, notes=((span, f"`{kind}` here"),))


# --------------------------------------------------------------------------------------------- monotonicity


def check_monotone(draft: Draft) -> Draft:
    """Pass: report recursion through an aggregate in a head that could leave wrong facts behind."""
    if not any(relation.aggregate for relation in draft.relations.values()):
        return draft
    if draft.semantics == "active":
        return draft.report(_not_in_cycles(relation) for relation in draft.relations.values() if relation.aggregate)
    home = component_of(draft)
    return draft.report(problem for rule in draft.rules for problem in _rule_problems(rule, draft.relations, home))


def _not_in_cycles(relation: Relation) -> Diagnostic:
    kind = (relation.aggregate or ("", 0))[0]
    hint = f"Use an aggregate in a body, such as `x = {kind} y : {{ ... }}`, and delete the fact with the old value."
    message = f"`{kind}` in the head of `{relation.name}` has no meaning for rules that run in cycles"
    return Diagnostic("E430", message, relation.span, hint=hint)


def _rule_problems(
    rule: NormalRule, relations: Mapping[str, Relation], home: Mapping[str, int]
) -> Iterator[Diagnostic]:
    """What is wrong with one rule; it reads aggregated values of its own stratum, or nothing is."""
    recursive = [
        literal
        for literal in rule.body
        if isinstance(literal, Match)
        and home[literal.relation] == home[rule.relation]
        and relations[literal.relation].aggregate
    ]
    for match in recursive:
        kind, column = relations[match.relation].aggregate or ("", 0)
        if kind in ("count", "sum"):
            hint = f"Compute `{match.relation}` in a stratum of its own: what it {kind}s must not depend on it."
            message = f"`{kind}` in the head of `{match.relation}` cannot be used in recursion"
            detail = f"A {kind} that is used before it is complete would leave wrong facts behind."
            yield Diagnostic("E412", message, match.span, detail=detail, hint=hint)
            return
        problem = _Check(rule, match, kind, column, relations).problem()
        if problem:
            yield _not_monotone(match, kind, problem)
            return


def _not_monotone(match: Match, kind: str, problem: str) -> Diagnostic:
    change = "smaller" if kind == "min" else "larger"
    message = f"recursion through `{kind}` in `{match.relation}` is not monotone: {problem}"
    detail = f"The value may be replaced by a {change} one later; what was derived from it must still hold then."
    allowed = "`<` and `<=`" if kind == "min" else "`>` and `>=`"
    hint = (
        f"Pass the value on only into `{kind}(...)`, by +, - and the like, and test it only with {allowed} on its left."
    )
    return Diagnostic("E413", message, match.span, detail=detail, hint=hint)


class _Check:
    """One rule and one recursive atom in it whose column `column` moves as `kind` says."""

    def __init__(
        self, rule: NormalRule, match: Match, kind: str, column: int, relations: Mapping[str, Relation]
    ) -> None:
        self.rule = rule
        self.match = match
        self.kind = kind
        self.column = column
        self.relation = relations[rule.relation]
        self.definitions: set[int] = set()

    def problem(self) -> str:
        """Why the rule is not monotone in the value; empty if it is."""
        value = self.match.args[self.column]
        if isinstance(value, Const):
            return "its value is compared with a constant"
        moving = {value.name}
        if self.occurrences(value.name) > 1:
            return f"`{shown(value.name) or 'the value'}` is joined with another atom"
        problem = self.follow(moving) or self.body_problem(moving)
        return problem or self.head_problem(moving)

    def occurrences(self, name: str) -> int:
        return sum(arg == Var(name) for literal in self.rule.body if isinstance(literal, Match) for arg in literal.args)

    def follow(self, moving: set[str]) -> str:
        """Add the variables that `=` computes from moving ones; why one of them is not monotone, if so."""
        bound = _bound_elsewhere(self.rule.body)
        found = True
        while found:
            found = False
            for literal in self.rule.body:
                definition = None if id(literal) in self.definitions else _definition(literal, moving, bound | moving)
                if definition is None:
                    continue
                target, expr = definition
                if not is_monotone(expr, moving):
                    return f"`{shown(target) or 'an argument'}` does not grow with it"
                self.definitions.add(id(literal))
                moving.add(target)
                found = True
        return ""

    def body_problem(self, moving: set[str]) -> str:
        for literal in self.rule.body:
            if literal is self.match or not literal_names(literal) & moving:
                continue
            match literal:
                case Match():
                    return f"it is joined with `{literal.relation}`"
                case Not():
                    return "it is used inside a negation"
                case Fold():
                    return "it is used inside an aggregate"
                case Unpack():
                    return "it is used inside a record"
                case Compare():
                    problem = self.compare_problem(literal, moving)
                    if problem:
                        return problem
        return ""

    def compare_problem(self, literal: Compare, moving: set[str]) -> str:
        left, right = names_in(literal.left) & moving, names_in(literal.right) & moving
        if id(literal) in self.definitions:
            return ""
        if left and right:
            return f"`{literal.op}` compares it with itself"
        op = literal.op if left else _MIRROR.get(literal.op, literal.op)
        expr = literal.left if left else literal.right
        if op not in _HARMLESS[self.kind]:
            return f"`{literal.op}` may stop being true"
        return "" if is_monotone(expr, moving) else f"the operand of `{literal.op}` does not grow with it"

    def head_problem(self, moving: set[str]) -> str:
        aggregate = self.relation.aggregate
        for index, expr in enumerate(self.rule.args):
            if not names_in(expr) & moving:
                continue
            column = self.relation.columns[index]
            if aggregate is None or aggregate[1] != index:
                return f"column `{column}` of `{self.relation.name}` would keep its earlier values"
            if aggregate[0] != self.kind:
                return f"it goes into `{aggregate[0]}` of `{self.relation.name}`"
            if not is_monotone(expr, moving):
                return f"the term under `{self.kind}` does not grow with it"
        return ""


def _bound_elsewhere(body: Iterable[Literal]) -> set[str]:
    """Variables that atoms, records and aggregates bind; `=` then tests them."""
    names: set[str] = set()
    for literal in body:
        if isinstance(literal, Match):
            names |= {arg.name for arg in literal.args if isinstance(arg, Var)}
        elif isinstance(literal, Unpack):
            names |= {arg.name for arg in literal.fields if isinstance(arg, Var)}
        elif isinstance(literal, Fold):
            names.add(literal.result.name)
    return names


def _definition(literal: Literal, moving: set[str], bound: set[str]) -> tuple[str, Expr] | None:
    """The variable that an equation computes from moving ones, and how; None for any other literal."""
    if not isinstance(literal, Compare) or literal.op != "=":
        return None
    for target, expr in ((literal.left, literal.right), (literal.right, literal.left)):
        names = names_in(expr)
        if isinstance(target, Var) and target.name not in bound | names and names & moving:
            return target.name, expr
    return None


def names_in(expr: Expr | None) -> set[str]:
    """The variables of an expression."""
    if isinstance(expr, Var):
        return {expr.name}
    return {name for arg in expr.args for name in names_in(arg)} if isinstance(expr, Call) else set()


def literal_names(literal: Literal) -> set[str]:
    """The variables of a literal, those inside negations and aggregates included."""
    match literal:
        case Match(args=args):
            return {arg.name for arg in args if isinstance(arg, Var)}
        case Compare(left=left, right=right):
            return names_in(left) | names_in(right)
        case Unpack(record=record, fields=fields):
            return {record.name} | {arg.name for arg in fields if isinstance(arg, Var)}
        case Not(body=body):
            return {name for inner in body for name in literal_names(inner)}
        case Fold(result=result, expr=expr, body=body):
            return {result.name} | names_in(expr) | {name for inner in body for name in literal_names(inner)}


def is_monotone(expr: Expr, moving: set[str]) -> bool:
    """Whether an expression never goes down when the moving variables in it go up."""
    if isinstance(expr, Var | Const) or not names_in(expr) & moving:
        return True
    match expr.op, expr.args:
        case (("+" | "min" | "max"), args):
            return all(is_monotone(arg, moving) for arg in args)
        case "-", (left, right):
            return is_monotone(left, moving) and not names_in(right) & moving
        case "*", args:
            # Unsigned factors are never negative, so there any product grows with each of them.
            positive = expr.kind is Kind.UNSIGNED or _factors_positive(args, moving)
            return positive and all(is_monotone(arg, moving) for arg in args)
        case "/", (left, Const(value=divisor)):
            return isinstance(divisor, int | float) and divisor > 0 and is_monotone(left, moving)
    return False


def _factors_positive(args: tuple[Expr, ...], moving: set[str]) -> bool:
    """Whether a product has one moving factor, and the others are constants that are not negative."""
    others = [arg for arg in args if not names_in(arg) & moving]
    values = [arg.value for arg in others if isinstance(arg, Const)]
    return len(values) == len(args) - 1 and all(isinstance(value, int | float) and value >= 0 for value in values)
