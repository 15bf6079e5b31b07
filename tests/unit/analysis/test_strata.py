"""Strata: order, recursion, ties, and head aggregates inside recursion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.analysis.name_graphs import arrange, components, find_cycle
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse

DECLS = """
.decl edge(x: symbol, y: symbol, w: number)
.decl dist(x: symbol, d: number)
.decl other(x: symbol, d: number)
"""


def checked(text: str) -> CheckedProgram:
    return check(parse(text), {})


def codes(text: str) -> list[str]:
    with pytest.raises(ProgramError) as caught:
        checked(text)
    return [found.code for found in caught.value.diagnostics]


def test_strata_follow_dependencies_and_then_declarations() -> None:
    program = checked(
        ".decl d(x: number) .decl b(x: number) .decl c(x: number) .decl a(x: number) .decl lone(x: number)"
        "d(x) :- b(x), !a(x). b(x) :- c(x). c(x) :- b(x). c(x) :- a(x)."
    )
    assert [stratum.relations for stratum in program.strata] == [("a",), ("b", "c"), ("d",), ("lone",)]
    assert [stratum.index for stratum in program.strata] == [0, 1, 2, 3]
    both = program.strata[1]
    assert [rule.number for rule in both.nonrecursive] == [3]
    assert [rule.number for rule in both.recursive] == [1, 2]


def test_negation_of_the_same_stratum_shows_the_cycle() -> None:
    text = ".decl a(x: number) .decl b(x: number) .decl c(x: number) a(x) :- c(x), !b(x). b(x) :- c(x). c(x) :- a(x)."
    with pytest.raises(ProgramError, match="negation through a cycle: a -> !b -> c -> a"):
        checked(text)


def test_inlined_relations_are_part_of_cycles() -> None:
    text = ".decl a(x: number) .decl b(x: number) inline .decl q(x: number) a(x) :- q(x), !b(x). b(x) :- a(x)."
    assert codes(text) == ["E401"]


def test_active_rules_have_no_strata_to_respect() -> None:
    text = '.pragma "semantics" "active"\n.decl a(x: number) .decl q(x: number) a(x) :- q(x), !a(x).'
    assert len(checked(text).strata) == 2


# ------------------------------------------------------------------------------------------- head aggregates


@pytest.mark.parametrize(
    "rule",
    [
        "dist(y, min(d + w)) :- dist(x, d), edge(x, y, w).",
        "dist(y, min(e)) :- dist(x, d), edge(x, y, w), e = d + w.",
        "dist(y, min(d - w)) :- dist(x, d), edge(x, y, w), d <= 100, w > 0.",
        "dist(y, min(max(d, w))) :- dist(x, d), edge(x, y, w), 100 > d.",
        "dist(y, min(2 * d + d / 3)) :- dist(x, d), edge(x, y, _).",
        "dist(y, min(d + e)) :- dist(x, d), dist(y, e), edge(x, y, _).",
        "other(x, 1) :- dist(x, _). dist(y, min(w)) :- other(x, _), edge(x, y, w).",
        "other(x, min(d)) :- dist(x, d). dist(y, min(d)) :- other(y, d).",
        "dist(y, min(d)) :- dist(x, d), edge(x, y, w), !edge(y, x, w).",
    ],
)
def test_monotone_recursion(rule: str) -> None:
    program = checked(DECLS + "dist(x, min(w)) :- edge(x, _, w)." + rule)
    assert program.relations["dist"].aggregate == ("min", 1)


@pytest.mark.parametrize(
    "rule",
    [
        "dist(y, min(w - d)) :- dist(x, d), edge(x, y, w).",
        "dist(y, min(w * d)) :- dist(x, d), edge(x, y, w).",
        "dist(y, min(-2 * d)) :- dist(x, d), edge(x, y, _).",
        "dist(y, min(d % 3)) :- dist(x, d), edge(x, y, _).",
        "dist(y, min(d)) :- dist(x, d), edge(x, y, d).",
        "dist(y, min(d)) :- dist(x, d), edge(x, y, w), d > w.",
        "dist(y, min(d)) :- dist(x, d), edge(x, y, w), d = w.",
        "dist(y, min(d)) :- dist(x, d), dist(y, d), edge(x, y, _).",
        "dist(y, min(d)) :- dist(x, d), dist(y, e), edge(x, y, _), d < e.",
        "dist(y, min(e)) :- dist(x, d), edge(x, y, _), e = d + 1, e = d * 2.",
        "dist(y, min(w)) :- dist(x, 3), edge(x, y, w).",
        "dist(y, min(w)) :- dist(x, d), edge(x, y, w), !edge(y, x, d).",
        "dist(y, min(w)) :- dist(x, d), edge(x, y, w), d = count : { edge(_, _, _) }.",
        "other(x, d) :- dist(x, d). dist(y, min(d)) :- other(y, d).",
        "other(x, max(d)) :- dist(x, d). dist(y, min(d)) :- other(y, d).",
        'dist(to_string(d), min(w)) :- dist(x, d), edge(x, "b", w).',
    ],
)
def test_recursion_that_is_not_monotone(rule: str) -> None:
    assert set(codes(DECLS + "dist(x, min(w)) :- edge(x, _, w)." + rule)) == {"E413"}


def test_max_is_the_mirror_image() -> None:
    base = DECLS + "dist(x, max(w)) :- edge(x, _, w)."
    checked(base + "dist(y, max(d)) :- dist(x, d), edge(x, y, _), d > 3.")
    assert codes(base + "dist(y, max(d)) :- dist(x, d), edge(x, y, _), d < 3.") == ["E413"]


@pytest.mark.parametrize("kind", ["count", "sum", "min", "max"])
def test_any_aggregate_outside_recursion(kind: str) -> None:
    program = checked(DECLS + f"dist(x, {kind}(w)) :- edge(x, _, w). other(x, d) :- dist(x, d), d = 3.")
    assert program.relations["dist"].aggregate == (kind, 1)


def test_count_takes_any_kind_and_gives_a_number() -> None:
    checked(DECLS + "dist(x, count(y)) :- edge(x, y, _).")
    assert set(codes(DECLS + "dist(x, sum(y)) :- edge(x, y, _).")) == {"E301"}
    assert codes(".decl e(x: symbol) .decl c(n: symbol) c(count(x)) :- e(x).") == ["E301"]


# ----------------------------------------------------------------------------------------------------- graphs

graphs = st.integers(1, 7).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size)
)


def named(edges: list[list[int]]) -> dict[str, list[str]]:
    return {f"n{number}": [f"n{other}" for other in others] for number, others in enumerate(edges)}


def reachable(graph: dict[str, list[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = list(graph[start])
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += graph[node]
    return found


@given(graphs)
def test_components_and_order_against_reachability(edges: list[list[int]]) -> None:
    graph = named(edges)
    reach = {name: reachable(graph, name) for name in graph}
    order = arrange(graph)
    assert sorted(name for component in order for name in component) == sorted(graph)
    assert {frozenset(component) for component in order} == {frozenset(component) for component in components(graph)}
    place = {name: number for number, component in enumerate(order) for name in component}
    for name in graph:
        for other in graph:
            together = name == other or (other in reach[name] and name in reach[other])
            assert together == (place[name] == place[other])
            if other in reach[name] and not together:
                assert place[other] < place[name]


@given(graphs)
def test_cycles_are_cycles(edges: list[list[int]]) -> None:
    graph = named(edges)
    cycle = find_cycle(graph)
    assert bool(cycle) == any(name in reachable(graph, name) for name in graph)
    for one, other in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        assert other in graph[one]
