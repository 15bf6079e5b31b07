"""What single rules look like to somebody who looks for modules: pure rules of one relation, and chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sempre.analysis.model import Match, NormalRule, Var
from sempre.data import dataclass

Pair = tuple[str, str]
Word = tuple[str, ...]
# Longer rules are not examined: what they imply takes time exponential in their length.
LONGEST_PURE_BODY = 6


@dataclass(frozen=True, slots=True)
class PureRule:
    """`r(head) :- r(..), r(..).`: variables and one relation, nothing else."""

    rule: int
    head: Pair
    body: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class ChainRule:
    """`head(x0, xn) :- w1(x0, x1), .., wn(xn-1, xn).` with distinct variables, in any order of its literals."""

    rule: int
    head: str
    word: Word


def pure(rule: NormalRule) -> PureRule | None:
    """The rule as a pure one, if it is."""
    edges = _edges(rule)
    if edges is None or len(edges) > LONGEST_PURE_BODY or any(relation != rule.relation for relation, _ in edges):
        return None
    head = _pair(rule.args)
    body = tuple(pair for _, pair in edges)
    if head is None or not {*head} <= {name for pair in body for name in pair}:
        return None
    return PureRule(rule.number, head, body)


def chain(rule: NormalRule) -> ChainRule | None:
    """The rule as a chain, if it is."""
    edges, head = _edges(rule), _pair(rule.args)
    if not edges or head is None:
        return None
    leaving = {pair[0]: (relation, pair[1]) for relation, pair in edges}
    word: list[str] = []
    seen = {head[0]}
    at = head[0]
    while at in leaving:
        relation, at = leaving[at]
        if at in seen:
            return None
        seen.add(at)
        word.append(relation)
    # Every atom was met: none is beside the path, and no two leave one variable.
    return ChainRule(rule.number, rule.relation, tuple(word)) if at == head[1] and len(word) == len(edges) else None


def _edges(rule: NormalRule) -> list[tuple[str, Pair]] | None:
    if rule.deletes:
        return None
    edges = []
    for literal in rule.body:
        pair = _pair(literal.args) if isinstance(literal, Match) else None
        if pair is None or not isinstance(literal, Match):
            return None
        edges.append((literal.relation, pair))
    return edges


def _pair(args: Sequence[object]) -> Pair | None:
    if len(args) != 2 or not isinstance(args[0], Var) or not isinstance(args[1], Var):
        return None
    return args[0].name, args[1].name


# --------------------------------------------------------------------------------------- what pure rules imply


def are_transitive(rules: Iterable[PureRule]) -> bool:
    """Whether the rules make their relation transitive."""
    return ("x", "z") in _consequences(tuple(rules), {("x", "y"), ("y", "z")})


def are_symmetric(rules: Iterable[PureRule]) -> bool:
    """Whether the rules make their relation symmetric."""
    return ("y", "x") in _consequences(tuple(rules), {("x", "y")})


def holds_in_closure(rule: PureRule) -> bool:
    """Whether every transitive relation obeys the rule: a path leads from its first head variable to its second."""
    return rule.head[1] in _reachable(rule.head[0], rule.body)


def holds_in_equivalence(rule: PureRule) -> bool:
    """Whether every symmetric and transitive relation obeys the rule: its head variables are connected."""
    both_ways = (*rule.body, *((second, first) for first, second in rule.body))
    return rule.head[1] in _reachable(rule.head[0], both_ways)


def _reachable(origin: str, edges: Iterable[Pair]) -> set[str]:
    """What a nonempty path leads to."""
    edges = tuple(edges)
    found: set[str] = set()
    pending = [origin]
    while pending:
        at = pending.pop()
        more = {second for first, second in edges if first == at} - found
        found |= more
        pending += more
    return found


def _consequences(rules: Sequence[PureRule], facts: set[Pair]) -> set[Pair]:
    """The least set with these facts that is closed under the rules.

    A rule follows from others exactly when they derive its head from its body with variables taken for constants; so
    this decides, for any spelling, whether rules amount to transitivity or symmetry.
    """
    facts = set(facts)
    while True:
        more = {pair for rule in rules for pair in _heads(rule, facts)} - facts
        if not more:
            return facts
        facts |= more


def _heads(rule: PureRule, facts: set[Pair]) -> set[Pair]:
    bindings: list[dict[str, str]] = [{}]
    for first, second in rule.body:
        bindings = [
            {**binding, first: a, second: b}
            for binding in bindings
            for a, b in facts
            if binding.get(first, a) == a and binding.get(second, b) == b and (first != second or a == b)
        ]
    return {(binding[rule.head[0]], binding[rule.head[1]]) for binding in bindings}
