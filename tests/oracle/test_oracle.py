"""The oracle against itself: two ways to the same sets, and rules tried by brute force."""

from __future__ import annotations

import random

import pytest

from sempre.lang import syntax as s
from sempre.lang.parser import parse
from tests.oracle import brute
from tests.oracle.clauses import clauses_of
from tests.oracle.counters import instances, iterations
from tests.oracle.naive import Facts, State, evaluate, explicit_facts, fire
from tests.oracle.values import OracleError, Row, Value, canonical, function
from tests.property.programs import Case, random_case

SEEDS = range(0, 150, 50)


def merged(case: Case) -> Facts:
    explicit = explicit_facts(case.program)
    return {n: explicit.get(n, set()) | case.facts.get(n, set()) for n in {*explicit, *case.facts}}


@pytest.mark.parametrize("start", SEEDS)
def test_rounds_that_only_add_reach_the_same_sets(start: int) -> None:
    for seed in range(start, start + 50):
        case = random_case(random.Random(seed))
        result = evaluate(case.program, case.facts)
        for name, rows in iterations(case.program, merged(case)).items():
            assert set(rows) == result[name], (seed, name)


@pytest.mark.parametrize("start", SEEDS)
def test_every_fact_has_an_instance_and_every_instance_its_fact(start: int) -> None:
    for seed in range(start, start + 50):
        case = random_case(random.Random(seed))
        result = evaluate(case.program, case.facts)
        closed = clauses_of(case.program).schema.equivalences
        for name, rows in instances(case.program, merged(case), result).items():
            assert set(rows) == result[name]
            assert name in closed or all(sum(counts) > 0 for counts in rows.values()), (seed, name)


@pytest.mark.parametrize("start", SEEDS)
def test_rules_derive_what_trying_every_assignment_finds(start: int) -> None:
    checked = 0
    for seed in range(start, start + 50):
        case = random_case(random.Random(seed))
        result = evaluate(case.program, case.facts)
        declarations = [item for item in case.program.items if not isinstance(item, s.Rule)]
        inline = clauses_of(case.program).schema.inline
        for rule in case.program.rules():
            if inline or rule.is_fact or not brute.readable(rule):
                continue
            clauses = clauses_of(s.ParsedProgram((*declarations, rule))).rules
            found = {head for clause in clauses for head, _ in fire(clause, State(dict(result)))}
            assert found == brute.heads(rule, result), (seed, rule)
            checked += 1
    assert checked > 50


# ------------------------------------------------------------------------------------------------- by hand


def run(text: str, **facts: set[Row]) -> Facts:
    return evaluate(parse(text, "test.dl"), facts)


def test_an_aggregate_ranges_over_distinct_assignments_to_all_its_variables() -> None:
    text = """
    .decl e(x: number, y: number)  .decl n(x: number, c: number)  .decl t(x: number, c: number)
    n(x, c) :- e(x, _), c = count : { e(x, _) }.
    t(x, c) :- e(x, _), c = sum z : { e(x, y), e(z, _) }.
    """
    result = run(text, e={(1, 1), (1, 2), (2, 1)})
    assert result["n"] == {(1, 2), (2, 1)}
    assert result["t"] == {(1, 8), (2, 4)}  # e(1, _) has two assignments to `_`


def test_min_of_nothing_is_false_and_count_of_nothing_is_zero() -> None:
    text = """
    .decl e(x: number)  .decl p(x: number, c: number)  .decl q(x: number)  .decl r(c: number)
    p(x, c) :- e(x), c = count : { e(y), y > x }.
    q(x) :- e(x), 0 < min y : { e(y), y > x }.
    r(sum y : { e(y), y > 9 }) :- e(1).
    """
    result = run(text, e={(1,), (2,)})
    assert (result["p"], result["q"], result["r"]) == ({(1, 1), (2, 0)}, {(1,)}, {(0,)})


def test_inlining_does_not_show_in_aggregates() -> None:
    text = """
    .decl e(x: number, y: number)  .decl f(x: number) inline  .decl n(c: number)
    f(x) :- e(x, y).
    f(x) :- e(y, x).
    n(count : { f(x) }) :- e(_, _).
    """
    assert run(text, e={(1, 2), (1, 3), (2, 3)})["n"] == {(3,)}


def test_a_negation_over_a_conjunction_has_its_own_variables() -> None:
    text = """
    .decl p(x: number)  .decl next(x: number, y: number)
    next(x, y) :- p(x), p(y), x < y, !(p(z), x < z, z < y).
    """
    assert run(text, p={(1,), (4,), (9,)})["next"] == {(1, 4), (4, 9)}


def test_records_are_built_and_taken_apart_and_nil_is_none() -> None:
    text = """
    .type L = [head: number, tail: L]
    .decl list(l: L)  .decl head(x: number)  .decl longer(l: L)
    list(nil). list([1, nil]). list([2, [1, nil]]).
    head(x) :- list([x, _]).
    longer([0, l]) :- list(l), l != nil.
    """
    result = run(text)
    assert result["head"] == {(1,), (2,)}
    assert result["longer"] == {((0, (1, None)),), ((0, (2, (1, None))),)}


def test_unsigned_float_and_number_differ_in_arithmetic() -> None:
    text = """
    .decl n(x: number)  .decl u(x: unsigned)  .decl f(x: float)
    n(-7 / 2). n(-7 % 3). u(2 ^ 63 * 1). f(7 / 2). f(1). n(1 bshl 65). n(-1 bshru 60).
    """
    result = run(text)
    assert result == {"n": {(-3,), (-1,), (2,), (15,)}, "u": {(2**63,)}, "f": {(3.5,), (1.0,)}}


@pytest.mark.parametrize("term", ["9223372036854775807 + x", "1 / (x - 1)", "x % (x - 1)", "3 ^ (x * 64)"])
def test_overflow_and_division_by_zero_are_errors(term: str) -> None:
    with pytest.raises(OracleError):
        run(f".decl p(x: number) .decl q(x: number) q({term}) :- p(x).", p={(1,)})


def test_nan_equals_itself_and_zero_has_one_sign() -> None:
    text = ".decl p(x: float) .decl q(x: float, y: float) q(x, y) :- p(x), p(y), x = y."
    rows = run(text, p={(float("nan"),), (-float("nan"),), (0.0,), (-0.0,)})["q"]
    assert len(rows) == 2
    assert str(canonical(-0.0)) == "0.0"


@pytest.mark.parametrize(
    ("functor", "kind", "args", "expected"),
    [
        ("/", "number", (-7, 2), -3),
        ("%", "number", (-7, 2), -1),
        ("^", "number", (2, -1), 0),
        ("^", "number", (-1, -3), -1),
        ("bshl", "number", (1, 63), -(2**63)),
        ("bshr", "number", (-8, 1), -4),
        ("bshr", "unsigned", (2**64 - 8, 1), 2**63 - 4),
        ("bnot", "unsigned", (0,), 2**64 - 1),
        ("lxor", "number", (3, 0), 1),
        ("/", "float", (1.0, 4.0), 0.25),
        ("substr", "symbol", ("añb", 1, 5), "ñb"),
        ("to_string", "number", (-5,), "-5"),
        ("to_number", "symbol", ("12",), 12),
        ("itou", "number", (7,), 7),
    ],
)
def test_functors(functor: str, kind: str, args: tuple[Value, ...], expected: Value) -> None:
    assert function(functor, kind)(*args) == expected


def test_shortest_distances_are_the_fixpoint_of_an_aggregate_in_the_head() -> None:
    text = """
    .decl e(x: number, y: number, w: number)  .decl d(x: number, k: number)
    d(1, 0).
    d(y, min(k + w)) :- d(x, k), e(x, y, w).
    """
    result = run(text, e={(1, 2, 5), (1, 3, 1), (3, 2, 1), (2, 1, 1), (2, 4, 1)})
    assert result["d"] == {(1, 0), (2, 2), (3, 1), (4, 3)}


def test_counters_of_the_example_in_zhao() -> None:
    text = """
    .decl new(v: symbol, o: symbol)  .decl assign(v: symbol, w: symbol)  .decl store(v: symbol, f: symbol, w: symbol)
    .decl load(v: symbol, w: symbol, f: symbol)  .decl vpt(v: symbol, o: symbol)
    vpt(v, o) :- new(v, o).
    vpt(v, o) :- assign(v, w), vpt(w, o).
    vpt(v, o) :- load(v, w, f), store(u, f, t), vpt(t, o), vpt(w, p), vpt(u, p).
    """
    program = parse(text, "zhao.dl")
    facts: Facts = {
        "new": {("a", "L1"), ("c", "L3"), ("d", "L4")},
        "assign": {("a", "b"), ("b", "a")},
        "store": {("c", "f", "a")},
        "load": {("e", "d", "f"), ("b", "c", "f")},
    }
    expected = {("a", "L1"): (1, 1), ("c", "L3"): (1, 1), ("d", "L4"): (1, 1), ("b", "L1"): (2, 2)}
    assert iterations(program, facts)["vpt"] == expected


def test_plus_joins_symbols() -> None:
    found = run(
        '.decl p(x: symbol) .decl q(x: symbol) q(x + ("-" + y)) :- p(x), p(y), x + y != "aa".', p={("a",), ("b",)}
    )
    assert found["q"] == {("a-b",), ("b-a",), ("b-b",)}


def test_relations_that_do_not_keep_all_rows_have_no_iterations() -> None:
    """Without what drops rows, distances around a cycle would go on without end."""
    program = parse(
        ".decl e(x: number, y: number) .decl d(x: number, n: number) d(0, 0). e(0, 0). "
        "d(y, n + 1) :- d(x, n), e(x, y). d(x, a) <= d(x, b) :- b < a."
    )
    assert evaluate(program, {})["d"] == {(0, 0)}
    assert "d" not in iterations(program, explicit_facts(program))
