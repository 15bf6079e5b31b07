"""Which rules are recognized as modules, up to names and order, and which only look like it."""

from __future__ import annotations

import pytest

from sempre.api import Program
from sempre.diagnostics import StateError
from sempre.modules.choice import ModuleChoice, chosen_modules
from sempre.modules.find import partition
from sempre.modules.spec import Module, closure
from sempre.plan.ops import Automaton
from sempre.rewrites.equivalences import close_equivalences

GRAPHS = ("e", "f", "g", "p", "q", "r", "s", "t")


def found(rules: str, kinds: str = "number", wanted: str | list[str] = "auto", extra: str = "") -> list[Module]:
    declared = "\n".join(f".decl {name}(x: {kinds}, y: {kinds})" for name in GRAPHS)
    program = close_equivalences(Program(f"{declared}\n{extra}\n{rules}").checked)
    return [module for modules in partition(program, wanted).values() for module in modules]


@pytest.mark.parametrize(
    "rule",
    [
        "r(x, z) :- r(x, y), r(y, z).",
        "r(x, z) :- r(y, z), r(x, y).",
        "r(b, a) :- r(b, c), r(c, a).",
        "r(x, z) :- r(x, y), r(y, z).\nr(x, w) :- r(x, y), r(y, z), r(z, w).",
        "r(x, z) :- r(x, y), r(y, z).\nr(x, z) :- r(x, y), r(y, z), r(x, _).",
    ],
)
def test_a_transitive_rule_is_tc(rule: str) -> None:
    (module,) = found(f"r(x, y) :- e(x, y).\n{rule}")
    assert (module.kind, module.heads) == ("tc", ("r",))
    assert module.paths == closure("r")
    assert 0 not in module.rules
    assert len(module.rules) == rule.count(":-")


@pytest.mark.parametrize(
    "rules",
    [
        "r(y, x) :- r(x, y).\nr(x, z) :- r(x, y), r(y, z).",
        "r(x, z) :- r(y, z), r(x, y).\nr(a, b) :- r(b, a).",
        "r(y, x) :- r(x, y).\nr(x, z) :- r(x, y), r(z, y).",
        "r(y, x) :- r(x, y).\nr(x, z) :- r(y, x), r(y, z).\nr(x, x) :- r(x, _).",
        "r(x, x) :- r(x, _).\nr(y, z) :- r(x, y), r(x, z).",
    ],
)
def test_symmetric_and_transitive_rules_are_stc(rules: str) -> None:
    (module,) = found(rules)
    assert (module.kind, module.heads, module.paths) == ("stc", ("r",), None)
    assert len(module.rules) == rules.count(":-")


def test_an_equivalence_relation_is_stc() -> None:
    (module,) = found("same(x, y) :- e(x, y).", extra=".decl same(x: symbol, y: symbol) eqrel", kinds="symbol")
    assert (module.kind, module.heads, module.rules) == ("stc", ("same",), frozenset((1, 2)))


def test_rules_that_components_do_not_imply_stay_generic() -> None:
    rules = (
        "r(y, x) :- r(x, y).\nr(x, z) :- r(x, y), r(y, z).\nr(x, z) :- r(x, y), e(y, z).\nr(x, v) :- r(x, _), r(_, v)."
    )
    (module,) = found(rules)
    assert (module.kind, module.rules) == ("stc", frozenset((0, 1)))


@pytest.mark.parametrize(
    ("rules", "steps"),
    [
        ("r(x, z) :- r(x, y), e(y, z).", ((0, "r", 1), (1, "e", 1))),
        ("r(x, z) :- e(y, z), r(x, y).", ((0, "r", 1), (1, "e", 1))),
        ("r(x, z) :- e(x, y), r(y, z).", ((0, "e", 0), (0, "r", 1))),
        ("r(x, z) :- e(x, y), r(y, z).\nr(x, z) :- r(x, y), f(y, z).", ((0, "e", 0), (0, "r", 1), (1, "f", 1))),
        ("r(x, z) :- r(x, y), e(y, z).\nr(x, z) :- r(x, y), f(y, z).", ((0, "r", 1), (1, "e", 1), (1, "f", 1))),
        ("r(x, z) :- r(x, y), e(y, z).\ne(x, y) :- r(x, y), r(y, x).", ((0, "r", 1), (1, "e", 1))),
    ],
)
def test_linear_rules(rules: str, steps: tuple[tuple[int, str, int], ...]) -> None:
    (module,) = found(f"r(x, y) :- g(x, y).\n{rules}")
    assert (module.kind, module.heads) == ("linear", ("r",))
    assert module.paths == Automaton(2, steps, {"r": 0}, {"r": frozenset((1,))})
    assert module.rules == {number for number, line in enumerate(rules.splitlines(), 1) if line.startswith("r")}


@pytest.mark.parametrize(
    "rule",
    [
        "r(x, z) :- r(x, y), r(y, w), e(w, z), x < z.",
        "r(x, z) :- r(x, y), r(y, z), x != z.",
        "r(z, x) :- r(x, y), r(y, z).",
        "r(x, z) :- r(x, y), r(z, y).",
        "r(x, y) :- r(y, x).",
        "r(x, x) :- r(x, y).",
        "r(x, z) :- r(x, y), r(_, z).",
        "r(x, z) :- r(x, 1), r(1, z).",
        "r(x, w) :- r(x, y), r(y, z), r(z, w).",
        "r(x, z) :- e(x, y), r(y, w), f(w, z).",
        "r(x, z) :- r(x, y), e(z, y).",
        "r(x, z) :- r(x, y), e(y, z), !f(x, z).",
        "r(x, z) :- r(x, y), e(y, z), f(x, z).",
        "r(x, z + 0) :- r(x, y), r(y, z).",
        "r(x, z) :- r(x, y), e(y, w), z = w.",
        "r(x, y) :- e(x, y), f(y, x).",
    ],
)
def test_what_only_looks_like_a_module(rule: str) -> None:
    assert found(rule) == []


@pytest.mark.parametrize(
    "extra",
    [
        ".decl m(x: number, y: symbol)\nm(x, y) :- m(x, y), m(x, y).",
        ".decl m(x: number, y: number, z: number)\nm(x, z, 1) :- m(x, y, _), m(y, z, _).",
        ".decl m(x: number, y: number)\nm(x, min(c)) :- e(x, y), m(y, c).",
        ".decl m(x: number, y: number)\n.decl k(x: number, y: symbol)\n.decl h(x: symbol, y: number)\n"
        "m(x, z) :- m(x, y), k(y, u), h(u, z).",
    ],
)
def test_relations_that_are_no_graphs(extra: str) -> None:
    assert found("", extra=extra) == []


def test_a_transitive_relation_that_is_extended_is_one_automaton() -> None:
    rules = "r(x, z) :- r(x, y), r(y, z).\nr(x, z) :- r(x, y), e(y, z)."
    (module,) = found(rules)
    assert (module.kind, module.rules) == ("rch", frozenset((0, 1)))
    assert module.paths == Automaton(2, ((0, "r", 1), (1, "e", 1), (1, "r", 1)), {"r": 0}, {"r": frozenset((1,))})
    (module,) = found(rules, wanted="tc,linear")
    assert (module.kind, module.rules) == ("tc", frozenset((0,)))
    (module,) = found(rules, wanted="linear")
    assert (module.kind, module.rules) == ("linear", frozenset((1,)))


def test_heads_of_one_stratum_share_an_automaton() -> None:
    """`s` is extended by `r`, which is closed: its paths are made of `r`'s own edges, not of closure facts."""
    rules = "r(x, z) :- r(x, y), r(y, z).\ns(x, z) :- s(x, y), r(y, z).\nr(x, y) :- s(x, y), e(x, y)."
    (module,) = found(rules)
    assert (module.kind, module.heads, module.rules) == ("rch", ("r", "s"), frozenset((0, 1)))
    assert module.paths is not None
    assert module.paths.letters == ("r", "s")
    assert module.paths.states == 2
    apart = found(rules, wanted="tc,linear")
    assert [(module.kind, module.heads) for module in apart] == [("tc", ("r",)), ("linear", ("s",))]


@pytest.mark.parametrize(
    ("rules", "steps"),
    [
        ("s(x, z) :- s(x, y), r(y, z).", ((0, "s", 1), (1, "r", 2))),
        ("s(x, z) :- r(x, y), s(y, z).", ((0, "r", 1), (0, "s", 2), (1, "s", 2))),
        ("s(x, z) :- s(x, y), r(y, z).\ns(x, z) :- s(x, y), e(y, z).", None),
    ],
)
def test_what_is_closed_below_is_followed_once(rules: str, steps: tuple[tuple[int, str, int], ...] | None) -> None:
    *_, module = found(f"r(x, z) :- r(x, y), r(y, z).\n{rules}")
    assert (module.kind, module.heads) == ("linear", ("s",))
    assert module.paths is not None
    if steps is not None:
        assert module.paths.steps == steps
    follows = {(state, to) for state, letter, to in module.paths.steps if letter == "r"}
    assert not {to for _, to in follows} & {state for state, _ in follows}


def test_two_steps_that_must_be_two_stay_two() -> None:
    *_, module = found("r(x, z) :- r(x, y), r(y, z).\ns(x, w) :- s(x, y), r(y, z), r(z, w).")
    assert module.paths is not None
    assert module.paths.steps == ((0, "s", 1), (1, "r", 2), (2, "r", 1))


def test_heads_that_extend_each_other_stay_apart() -> None:
    modules = found("r(x, z) :- r(x, y), s(y, z).\ns(x, z) :- s(x, y), r(y, z).\nt(x, z) :- t(x, y), r(y, z).")
    assert [(module.kind, module.heads) for module in modules] == [("linear", (name,)) for name in "rst"]


@pytest.mark.parametrize(
    "rules",
    [
        "p(x, z) :- e(x, y), q(y, z).\nq(x, z) :- f(x, y), p(y, z).\np(x, y) :- g(x, y).",
        "p(x, z) :- q(x, y), e(y, z).\nq(x, y) :- p(x, y).\np(x, y) :- g(x, y).",
    ],
)
def test_heads_that_recur_through_each_other_on_one_side(rules: str) -> None:
    (module,) = found(rules)
    assert (module.kind, module.heads, module.rules) == ("rch", ("p", "q"), frozenset((0, 1)))


def test_longer_words_are_chains() -> None:
    (module,) = found("r(x, w) :- r(x, y), e(y, z), f(z, w).\nr(x, z) :- r(x, y), g(y, u), r(u, z).")
    assert (module.kind, len(module.rules)) == ("rch", 2)


@pytest.mark.parametrize(("lengths", "recognized"), [((3, 5), True), ((71, 74), False)])
def test_too_many_states_stay_generic(lengths: tuple[int, ...], recognized: bool) -> None:
    rules = []
    for length in lengths:
        edges = ", ".join(f"e(x{i}, x{i + 1})" for i in range(1, length))
        rules.append(f"r(x0, x{length}) :- r(x0, x1), {edges}.")
    assert bool(found("\n".join(rules))) is recognized


STEPS = """
    p(x, z) :- s(x, y), e(y, z).
    s(x, y) :- t(x, y), x < y.
    t(x, z) :- t(x, y), p(y, z).
"""


@pytest.mark.parametrize(
    ("wanted", "heads"),
    [("rch", [("p",)]), ("rch:p", [("p",)]), ("rch,linear", [("p", "t")]), (["auto", "rch"], [("p", "t")])],
)
def test_a_chain_without_its_head_is_rch_where_that_was_asked_for(
    wanted: str | list[str], heads: list[tuple[str, ...]]
) -> None:
    modules = found(STEPS, wanted=wanted)
    assert [module.heads for module in modules] == heads
    assert (modules[0].kind, 0 in modules[0].rules) == ("rch", True)
    assert "`s e` is a `p`" in modules[0].reason


@pytest.mark.parametrize("wanted", ["auto", "linear", "tc,linear"])
def test_a_join_that_nobody_asked_for_stays_generic(wanted: str) -> None:
    assert [(module.kind, module.heads) for module in found(STEPS, wanted=wanted)] == [("linear", ("t",))]


def test_a_choice_of_kinds() -> None:
    assert chosen_modules("off") == ModuleChoice(frozenset())
    both = frozenset(("tc", "stc"))
    assert chosen_modules("tc, stc") == chosen_modules(["tc", "stc"]) == ModuleChoice(both, stated=both)
    assert found("r(x, z) :- r(x, y), r(y, z).", wanted="off") == []
    assert found("r(x, z) :- r(x, y), r(y, z).", wanted="stc,rch") == []
    with pytest.raises(StateError, match="unknown kind of module `tcc`") as error:
        chosen_modules("tc,tcc")
    assert "linear" in str(error.value)
