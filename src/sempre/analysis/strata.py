"""Strata: what depends on what, the order of evaluation, and dependencies that no order can satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from sempre.analysis.draft import Draft
from sempre.analysis.model import Fold, Literal, Match, NormalRule, Not, Stratum
from sempre.analysis.name_graphs import arrange, components, shortest_path
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.syntax import Aggregate, Atom, Negation, Rule
from sempre.lang.walk import children

NEGATION, AGGREGATION = "negation", "aggregation"


@dataclass(frozen=True, slots=True)
class Dependency:
    """`head` needs `body`; `through` says whether a negation or an aggregate lies between them, "" if neither."""

    head: str
    body: str
    through: str
    span: Span


# ------------------------------------------------------------------------------------------------- checking


def check_strata(draft: Draft) -> Draft:
    """Pass: report negation and aggregation through a cycle. Active rules run in cycles, not in strata."""
    if draft.semantics == "active":
        return draft
    return draft.report(cycle_problems(list(draft.relations), _known_dependencies(draft)))


def _known_dependencies(draft: Draft) -> list[Dependency]:
    """The dependencies between declared relations, as the rules are written."""
    return [
        dependency
        for rule in draft.open_rules()
        for dependency in dependencies(rule)
        if dependency.head in draft.relations and dependency.body in draft.relations
    ]


def component_of(draft: Draft) -> dict[str, int]:
    """For every relation, the number of its strongly connected component, in no particular order."""
    graph = _graph(draft.relations, _known_dependencies(draft))
    return {name: number for number, component in enumerate(components(graph)) for name in component}


def dependencies(rule: Rule) -> Iterator[Dependency]:
    """What the heads of a rule need, as it is written."""
    terms = tuple(arg for head in rule.heads for arg in head.atom.args)
    reads = list(_reads((terms, rule.body), ""))
    for head in rule.heads:
        for atom, through in reads:
            yield Dependency(head.atom.relation, atom.relation, through, atom.span)


def _reads(node: object, through: str) -> Iterator[tuple[Atom, str]]:
    if isinstance(node, Atom):
        yield node, through
    elif isinstance(node, Negation):
        through = through or NEGATION
    elif isinstance(node, Aggregate):
        through = through or AGGREGATION
    for child in children(node):
        yield from _reads(child, through)


def cycle_problems(names: Sequence[str], found: Sequence[Dependency]) -> Iterator[Diagnostic]:
    """A diagnostic for every negation or aggregate between two relations that depend on each other."""
    graph = _graph(names, found)
    home = {name: number for number, component in enumerate(components(graph)) for name in component}
    members: dict[int, list[str]] = {}
    for name, number in home.items():
        members.setdefault(number, []).append(name)
    for dependency in dict.fromkeys(found):
        if dependency.through and home[dependency.head] == home[dependency.body]:
            path = shortest_path(graph, dependency.body, dependency.head, members[home[dependency.head]])
            yield _cycle_problem(dependency, path, found)


def _cycle_problem(dependency: Dependency, path: list[str], found: Sequence[Dependency]) -> Diagnostic:
    """The error for one offending dependency; `path` leads from what it needs back to its head."""
    negation = dependency.through == NEGATION
    mark = "!" if negation else "aggregate of "
    cycle = " -> ".join((dependency.head, mark + path[0], *path[1:]))
    notes = tuple(
        (next(edge.span for edge in found if (edge.head, edge.body) == step), f"`{step[0]}` needs `{step[1]}` here")
        for step in pairwise(path)
    )
    code, what = ("E401", "negation") if negation else ("E402", "aggregation")
    hint = f"Break the cycle: what is {'negated' if negation else 'aggregated'} must be complete before it is used."
    return Diagnostic(code, f"{what} through a cycle: {cycle}", dependency.span, hint=hint, notes=notes)


def _graph(names: Iterable[str], found: Iterable[Dependency]) -> dict[str, list[str]]:
    below: dict[str, dict[str, None]] = {name: {} for name in names}
    for dependency in found:
        below[dependency.head][dependency.body] = None
    return {name: list(others) for name, others in below.items()}


# ------------------------------------------------------------------------------------------------- arranging


def stratify(draft: Draft) -> Draft:
    """Pass: the strata of the normal rules, in evaluation order; ties follow the order of declaration."""
    names = [name for name in draft.relations if name not in draft.inlined]
    return replace(draft, strata=arranged(names, draft.rules))


def arranged(names: Iterable[str], rules: Sequence[NormalRule]) -> tuple[Stratum, ...]:
    """The strata of relations and their rules, in evaluation order; ties follow the order of the names."""
    graph = rule_graph(names, rules)
    by_head: dict[str, list[NormalRule]] = {name: [] for name in graph}
    for rule in rules:
        by_head[rule.relation].append(rule)
    return tuple(_stratum(index, group, by_head) for index, group in enumerate(arrange(graph)))


def rule_graph(names: Iterable[str], rules: Iterable[NormalRule]) -> dict[str, list[str]]:
    """For every relation, what its rules read, negations and aggregates included."""
    below: dict[str, dict[str, None]] = {name: {} for name in names}
    for rule in rules:
        for match in matches(rule.body):
            below[rule.relation][match.relation] = None
    return {name: list(others) for name, others in below.items()}


def matches(body: Iterable[Literal]) -> Iterator[Match]:
    """The atoms of a body and of everything nested in it."""
    for literal in body:
        if isinstance(literal, Match):
            yield literal
        elif isinstance(literal, Not | Fold):
            yield from matches(literal.body)


def _stratum(index: int, group: tuple[str, ...], by_head: dict[str, list[NormalRule]]) -> Stratum:
    rules = sorted((rule for name in group for rule in by_head[name]), key=lambda rule: rule.number)
    members = set(group)
    recursive = [rule for rule in rules if is_recursive(rule, members)]
    others = [rule for rule in rules if not is_recursive(rule, members)]
    return Stratum(index, group, tuple(others), tuple(recursive))


def is_recursive(rule: NormalRule, members: set[str]) -> bool:
    """Whether a positive atom of the body, outside negations and aggregates, is in the stratum."""
    return any(isinstance(literal, Match) and literal.relation in members for literal in rule.body)
