"""Formulas to alternatives: `;` is multiplied out, `true` and `false` disappear, negation moves to conjunctions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from sempre.analysis.functor_signatures import OPPOSITE
from sempre.analysis.lifting import RANGE
from sempre.analysis.scopes import direct_names
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.syntax import (
    Aggregate,
    Apply,
    Atom,
    Branch,
    Comparison,
    Conjunction,
    Counter,
    Disjunction,
    Formula,
    Negation,
    Record,
    Term,
    Truth,
    Variable,
    conjunction,
    disjunction,
)
from sempre.lang.walk import descend, direct_aggregates, map_children

N = TypeVar("N")

Alternative = tuple[Formula, ...]

# Beyond this a rule is a mistake, or wants a relation of its own.
MOST_ALTERNATIVES = 4096

# Each one more doubles the cases of `min` and `max`.
MOST_IN_AGGREGATE = 6


class AlternativesFailure(Exception):
    """A formula cannot be brought into alternatives; `diagnostic` says why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def alternatives(formula: Formula) -> list[Alternative]:
    """The conjunctions whose disjunction is `formula`, in source order; none for `false`, an empty one for `true`.

    Their literals are atoms, comparisons, and negations of one conjunction of such.
    """
    match formula:
        case Truth(value):
            return [()] if value else []
        case Disjunction(parts):
            return [alternative for part in parts for alternative in alternatives(part)]
        case Conjunction(parts):
            return _product(parts, formula.span)
        case Negation(body):
            return _negate(body, formula.span)
        case Atom() | Comparison():
            found = next((each for each in direct_aggregates(_terms_of(formula)) if _is_open_extreme(each)), None)
            if found is not None:
                return [each for case in _cases(formula, found) for each in alternatives(case)]
            return [(map_children(formula, flatten_aggregates),)]


def flatten_aggregates(term: Term) -> Term:
    """`term` with the body of every aggregate in it as one conjunction.

    What counts over alternatives is a sum: of the first, and of what each other one has that those before it have not.
    """
    if not isinstance(term, Aggregate):
        return map_children(term, flatten_aggregates)
    found = alternatives(term.body)
    if len(found) > 1:
        return _counted(term, found)
    body = conjunction(list(found[0]), term.body.span) if found else Truth(False, term.body.span)
    inner = None if term.term is None else flatten_aggregates(term.term)
    return replace(term, term=inner, body=body)


def _counted(term: Aggregate, found: list[Alternative]) -> Term:
    """The number of assignments that some alternative allows."""
    if term.kind != "count":
        message = f"`{term.kind}` cannot have alternatives here"
        hint = "Make a relation with a rule for each alternative, and aggregate over that."
        raise AlternativesFailure(Diagnostic("E403", message, term.span, hint=hint))
    if len({_own_names(alternative) for alternative in found}) > 1:
        message = "the alternatives of this `count` have different variables"
        hint = "Use the same variables in each, and no `_`; or make a relation with a rule for each alternative."
        raise AlternativesFailure(Diagnostic("E403", message, term.span, hint=hint))
    parts: list[Term] = []
    for at, alternative in enumerate(found):
        before = [_negate(conjunction(list(each), term.body.span), term.body.span) for each in found[:at]]
        if all(before):
            literals = [*alternative, *(literal for each in before for literal in each[0])]
            parts.append(replace(term, body=conjunction(literals, term.body.span)))
    total = parts[0]
    for part in parts[1:]:
        total = Apply("+", (total, part), term.span)
    return total


def _own_names(alternative: Alternative) -> frozenset[str]:
    """The variables that belong to an aggregate itself: scopes are apart, and those have names of their own."""
    return frozenset(name for name in direct_names(alternative) if "#" in name)


def _terms_of(formula: Formula) -> tuple[Term, ...]:
    return formula.args if isinstance(formula, Atom) else (formula.left, formula.right)  # type: ignore[union-attr]


def _is_open_extreme(term: Aggregate) -> bool:
    """Whether a term is the least or greatest value over alternatives."""
    return term.kind in ("min", "max") and len(alternatives(term.body)) > 1


def _cases(formula: Formula, term: Aggregate) -> Iterator[Formula]:
    """A literal with such a term by cases: the first alternative alone has values, the others alone, or both do."""
    first, *others = (conjunction(list(each), term.body.span) for each in alternatives(term.body))
    if len(others) >= MOST_IN_AGGREGATE:
        message = f"this `{term.kind}` has more than {MOST_IN_AGGREGATE} alternatives"
        hint = "Make a relation with a rule for each alternative, and aggregate over that."
        raise AlternativesFailure(Diagnostic("E403", message, term.span, hint=hint))
    rest = disjunction(others, term.body.span)
    one, other = replace(term, body=first), replace(term, body=rest)
    both = Apply(term.kind, (one, other), term.span)
    for value, absent in ((one, rest), (other, first), (both, None)):
        literal = _replaced(formula, term, value)
        if absent is None:
            yield literal
        else:
            yield conjunction([literal, Negation(_apart(absent, len(others)), term.span)], formula.span)


def _replaced(node: N, old: Term, new: Term) -> N:
    """`node` with another term in the place of one that is in it."""
    return map_children(node, lambda child: new if child is old else _replaced(child, old, new))


def _apart(node: N, number: int) -> N:
    """A copy of what stands in an aggregate, as a scope of its own."""
    if isinstance(node, Variable) and "#" in node.name:
        return replace(node, name=f"{node.name}#or{number}")
    return map_children(node, lambda child: _apart(child, number))


def _product(parts: tuple[Formula, ...], span: Span) -> list[Alternative]:
    found: list[Alternative] = [()]
    for part in parts:
        choices = alternatives(part)
        if len(found) * len(choices) > MOST_ALTERNATIVES:
            hint = "Give some of its alternatives a relation of their own."
            message = f"this body has more than {MOST_ALTERNATIVES} alternatives"
            raise AlternativesFailure(Diagnostic("E110", message, span, hint=hint))
        found = [(*one, *other) for one in found for other in choices]
    return found


def _negate(body: Formula, span: Span) -> list[Alternative]:
    """Not any of the alternatives of `body`: a conjunction of negations."""
    literals: list[Formula] = []
    for alternative in alternatives(body):
        if not alternative:
            return []
        if len(alternative) == 1 and _is_plain(alternative[0]):
            literals.append(opposite(alternative[0]))
        else:
            literals.append(Negation(conjunction(list(alternative), body.span), span))
    return [tuple(literals)]


def _is_plain(literal: Formula) -> bool:
    """Whether a literal is a comparison that is defined for all values, so that its opposite is its negation.

    A record may be a pattern, `min` over nothing has no value, and `range` has many: those keep their negation.
    """
    if not isinstance(literal, Comparison):
        return False
    return not any(
        isinstance(node, Aggregate | Record | Branch | Counter) or (isinstance(node, Apply) and node.functor == RANGE)
        for node in descend(literal)
    )


def opposite(literal: Formula) -> Comparison:
    """The comparison that holds exactly when `literal` does not."""
    assert isinstance(literal, Comparison)
    return replace(literal, op=OPPOSITE[literal.op])


def literals_of(formula: Formula) -> tuple[Formula, ...]:
    """The literals of a conjunction as `alternatives` leaves them."""
    match formula:
        case Conjunction(parts):
            return parts
        case Truth(True):
            return ()
        case _:
            return (formula,)
