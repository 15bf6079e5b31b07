"""Formulas to alternatives: `;` is multiplied out, `true` and `false` disappear, negation moves to conjunctions."""

from __future__ import annotations

from dataclasses import replace

from sempre.analysis.functor_signatures import OPPOSITE
from sempre.analysis.lifting import RANGE
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
    conjunction,
)
from sempre.lang.walk import descend, map_children

Alternative = tuple[Formula, ...]

# Beyond this a rule is a mistake, or wants a relation of its own.
MOST_ALTERNATIVES = 4096


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
            return [(map_children(formula, flatten_aggregates),)]


def flatten_aggregates(term: Term) -> Term:
    """`term` with the body of every aggregate in it as one conjunction."""
    if not isinstance(term, Aggregate):
        return map_children(term, flatten_aggregates)
    found = alternatives(term.body)
    if len(found) > 1:
        hint = "Make a relation with a rule for each alternative, and aggregate over that."
        raise AlternativesFailure(Diagnostic("E403", "an aggregate cannot have alternatives", term.span, hint=hint))
    body = conjunction(list(found[0]), term.body.span) if found else Truth(False, term.body.span)
    inner = None if term.term is None else flatten_aggregates(term.term)
    return replace(term, term=inner, body=body)


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
