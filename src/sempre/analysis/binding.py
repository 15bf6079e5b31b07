"""Groundedness: every variable gets its value from somewhere before it is used.

A variable is bound by a positive atom, by `=` with a term whose variables are bound, by taking apart a bound record,
or as the result of an aggregate. `bind` finds the least set of variables that this closes under.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from sempre.analysis.alternatives import literals_of
from sempre.analysis.draft import Clause, Draft
from sempre.analysis.naming import shown
from sempre.analysis.scopes import Names, aggregates_of, clause_scope, deep_names, direct_names
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import (
    Aggregate,
    Atom,
    Branch,
    Cast,
    Comparison,
    Formula,
    Negation,
    Record,
    Term,
    Truth,
    Variable,
)
from sempre.lang.walk import descend, direct_aggregates, direct_variables, variables


@dataclass(frozen=True, slots=True)
class BoundNames:
    """What a body binds; `patterns` has the ids of the record terms that `=` takes apart."""

    names: Names
    patterns: frozenset[int]


def check_binding(draft: Draft) -> Draft:
    """Pass: report variables that nothing binds."""
    return draft.report_clauses((clause, list(clause_problems(clause))) for clause in draft.clauses)


# ------------------------------------------------------------------------------------------------- binding


def bind(body: Iterable[Formula], given: Names, scope: Names) -> BoundNames:
    """The variables of `scope` that `body` binds once those in `given` are, and how it takes records apart."""
    literals = tuple(body)
    names = set(given)
    patterns: set[int] = set()
    for literal in literals:
        if isinstance(literal, Atom):
            names |= {name for arg in literal.args for name in pattern_names(arg)}
    equalities = [literal for literal in literals if isinstance(literal, Comparison) and literal.op == "="]
    while equalities:
        waiting = [literal for literal in equalities if not _bind_equality(literal, names, scope, patterns)]
        if len(waiting) == len(equalities):
            break
        equalities = waiting
    return BoundNames(frozenset(names), frozenset(patterns))


def _bind_equality(literal: Comparison, names: set[str], scope: Names, patterns: set[int]) -> bool:
    """Bind one side of `=` by the other where that is possible; whether it was."""
    for pattern, value in ((literal.left, literal.right), (literal.right, literal.left)):
        if not is_evaluable(value, names, scope):
            continue
        inner = strip_casts(pattern)
        if isinstance(inner, Record | Branch):
            patterns.add(id(inner))
        if isinstance(inner, Record | Branch | Variable):
            names |= pattern_names(inner)
            return True
    return False


def strip_casts(term: Term) -> Term:
    while isinstance(term, Cast):
        term = term.term
    return term


def pattern_names(term: Term) -> Names:
    """The variables that matching `term` against a known value binds."""
    inner = strip_casts(term)
    if isinstance(inner, Variable):
        return frozenset({inner.name})
    if isinstance(inner, Record | Branch):
        return frozenset(name for arg in inner.args for name in pattern_names(arg))
    return frozenset()


def is_evaluable(term: Term, names: set[str] | Names, scope: Names) -> bool:
    """Whether a term has a value once `names` are bound; an aggregate needs what it shares with `scope`."""
    needed = {variable.name for variable in direct_variables(term)}
    for aggregate in direct_aggregates((term,)):
        needed |= deep_names(aggregate) & scope
    return needed <= names


# -------------------------------------------------------------------------------------------------- checks


def clause_problems(clause: Clause) -> Iterator[Diagnostic]:
    """The unbound variables of a clause, each at its first place."""
    head = clause.head.atom
    scope = clause_scope((head, clause.body))
    context = _ClauseContext(clause, scope, bind(clause.body, frozenset(), scope))
    missing = unbound(clause.body, frozenset(), scope)
    for variable in _first_places((head, clause.body), missing):
        yield context.unbound(variable)
    yield from _inner_problems(clause.body, head.args, scope, context)


def unbound(body: tuple[Formula, ...], given: Names, scope: Names) -> Names:
    """The variables of `scope` to complain about: those whose binding would bind the rest."""
    equalities = [literal for literal in body if isinstance(literal, Comparison) and literal.op == "="]
    defined = frozenset().union(*(pattern_names(literal.left) | pattern_names(literal.right) for literal in equalities))
    blamed: set[str] = set()
    while missing := scope - bind(body, given | blamed, scope).names:
        blamed |= (missing - defined) or {min(missing)}
    return frozenset(blamed)


def _first_places(node: object, names: Names) -> list[Variable]:
    """The first occurrence of each of `names`."""
    if not names:
        return []
    found: dict[str, Variable] = {}
    for variable in variables(node):
        if variable.name in names:
            found.setdefault(variable.name, variable)
    return list(found.values())


def _inner_problems(
    body: Iterable[Formula], terms: tuple[Term, ...], scope: Names, context: _ClauseContext
) -> Iterator[Diagnostic]:
    """The unbound variables of the scopes nested in a body; what belongs to an outer scope counts as bound."""
    literals = tuple(body)
    for literal in literals:
        if isinstance(literal, Negation):
            yield from _scope_problems(literals_of(literal.body), (), scope, context)
    for aggregate in aggregates_of(literals, terms):
        targets = () if aggregate.term is None else (aggregate.term,)
        yield from _scope_problems(literals_of(aggregate.body), targets, scope, context)


def _scope_problems(
    body: tuple[Formula, ...], terms: tuple[Term, ...], outer: Names, context: _ClauseContext
) -> Iterator[Diagnostic]:
    if any(isinstance(literal, Truth) for literal in body):
        return
    own = direct_names((terms, body)) - outer
    scope = own | outer
    for variable in _first_places((terms, body), unbound(body, outer, scope)):
        yield context.unbound_inside(variable)
    yield from _inner_problems(body, terms, scope, context)


@dataclass(frozen=True, slots=True)
class _ClauseContext:
    """What messages about one clause draw on."""

    clause: Clause
    scope: Names
    bound: BoundNames

    def unbound(self, variable: Variable) -> Diagnostic:
        name = shown(variable.name)
        if name == "_":
            return _stray(variable)
        if variable.name not in direct_names((self.clause.head.atom, self.clause.body)):
            message = f"`{name}` occurs in several negations or aggregates, and nothing outside binds it"
            hint = f"Bind `{name}` outside, or use different names where different values are meant."
            return Diagnostic("E213", message, variable.span, hint=hint)
        aggregate = self.witness(variable.name)
        if aggregate is not None:
            hint = f"Bind `{name}` outside: join the result of the aggregate with an atom that has `{name}`."
            message = f"`{name}` is bound inside an aggregate and used outside"
            notes = ((aggregate.span, "the aggregate is here"),)
            return Diagnostic("E205", message, variable.span, hint=hint, notes=notes)
        in_head = variable.name in direct_names(self.clause.head.atom)
        message = f"head variable `{name}` is not bound by the body" if in_head else f"variable `{name}` is not bound"
        return Diagnostic("E201", message, variable.span, detail=_DETAIL, hint=self.hint(name))

    def unbound_inside(self, variable: Variable) -> Diagnostic:
        if shown(variable.name) == "_":
            return _stray(variable)
        message = f"variable `{shown(variable.name)}` is not bound"
        return Diagnostic("E201", message, variable.span, detail=_DETAIL, hint=self.hint(shown(variable.name)))

    def witness(self, name: str) -> Aggregate | None:
        """The aggregate that binds `name` inside, if there is one, as a variable of its own or not."""
        for node in descend((self.clause.head.atom, self.clause.body)):
            if isinstance(node, Aggregate):
                inner = bind(literals_of(node.body), self.bound.names, self.scope)
                if any(shown(inside) == name for inside in inner.names - self.bound.names):
                    return node
        return None

    def hint(self, name: str) -> str:
        """A bound variable that is used nowhere else, or a near one, or where a binding may come from."""
        counts: dict[str, list[Variable]] = {}
        for variable in variables((self.clause.head.atom, self.clause.body)):
            counts.setdefault(variable.name, []).append(variable)
        bound = {key: found[0] for key, found in counts.items() if key in self.bound.names and shown(key) != "_"}
        lonely = [key for key in bound if len(counts[key]) == 1]
        near = get_close_matches(name, lonely, 1, 0.0) or get_close_matches(name, list(bound), 1)
        if not near:
            return f"Use `{name}` in a positive atom of the body."
        place = bound[near[0]].span
        state = "bound and unused" if near[0] in lonely else "bound"
        text = shown(near[0])
        return f"Variable `{text}` ({place.line}:{place.column}) is {state}. Did you mean `{text}`?"


_DETAIL = "A variable is bound by a positive atom, or by `=` with a term whose variables are bound."


def _stray(variable: Variable) -> Diagnostic:
    hint = "`_` matches any value in an atom or a record; elsewhere, name a variable that is bound."
    return Diagnostic("E212", "`_` has no value here", variable.span, hint=hint)
