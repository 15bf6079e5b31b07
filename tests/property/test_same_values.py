"""Every functor, comparison and aggregate over every type: the oracle, `run`, nodes in disorder and nodes in processes.

Programs are made from the tables of the language, so that a functor that is added is tested. One program has them all,
each over relations of its own, and facts on the edges of the types for which they have a value; where they have none,
everybody says so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

import sempre
from sempre.analysis.check import check
from sempre.analysis.functor_signatures import AGGREGABLE, AGGREGATE_RESULT, COMPARABLE, FUNCTORS
from sempre.kernel.functors import Fault
from sempre.lang.parser import parse
from sempre.network import codegen, proofs, python_functors
from sempre.network.assembly import make_network
from sempre.network.simulate import Adversary, Burst
from tests.budget import SCALE, seeds
from tests.oracle import naive, values
from tests.oracle.values import OracleError, Row, canonical

pytestmark = pytest.mark.oracle

NUMBERS = (0, 1, -1, 2, 7, -7, 63, 64, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
UNSIGNED = (0, 1, 2, 7, 63, 64, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (
    *(0.0, -0.0, 1.0, -1.5, 2.0, 0.5, 0.1, 0.2, 1e16, 5e-324, 1e300, -1e300, 2.0**53, 2.0**63, -(2.0**63), 2.0**64),
    *(float("inf"), float("-inf"), float("nan")),
)
SYMBOLS = (
    *("", "a", "b", "B", "ab", "12", "-3", "2.5", " 7 ", "+7", "0x1F", "1_0", "1e400", "nan", "-inf", "٣", "9" * 30),
    *("ß", "é", "e\u0301", "\U0001f600", "日本", "a\tb", '"', "\\", "a.b", "["),
)
SAMPLES: dict[str, tuple[Any, ...]] = {"number": NUMBERS, "unsigned": UNSIGNED, "float": FLOATS, "symbol": SYMBOLS}
# Nodes have no `range`, lists and records have programs of their own, and codes of symbols no meaning.
APART = ("range", "ord", "f_init", "f_concat", "f_member", "f_inPath", "f_size", "f_first", "f_last")
PREFIX = ("bnot", "lnot")
WORDS = ("to_", "itof", "itou", "utoi", "utof", "ftoi", "ftou", "cat", "strlen", "substr", "min", "max")
Facts = dict[str, set[Row]]


@dataclass
class Text:
    """A program under way: declarations, rules, and the facts that it is tested with."""

    lines: list[str] = field(default_factory=list)
    facts: Facts = field(default_factory=dict)

    def relation(self, name: str, kinds: list[str], rows: Iterable[Row] = ()) -> None:
        columns = ", ".join(["@k: number", *(f"x{at}: {kind}" for at, kind in enumerate(kinds))])
        self.lines.append(f".decl {name}({columns})")
        if found := {canonical(row) for row in rows}:
            self.facts[name] = found

    def rule(self, text: str) -> None:
        self.lines.append(text)

    def __str__(self) -> str:
        return "\n".join(self.lines)


def kinds_of(op: str, kind: str) -> list[str]:
    """The kinds of the arguments of a functor whose first one is of `kind`."""
    functor = FUNCTORS[op]
    if functor.same:
        return [kind] * functor.least
    return [kind, *(min(each.value for each in functor.parameter(at)) for at in range(1, functor.least))]


def functors() -> Iterator[tuple[str, list[str], str]]:
    """Every functor with the kinds of its arguments and of its result."""
    for op, functor in FUNCTORS.items():
        for kind in sorted(each.value for each in (functor.same or functor.parameter(0))) if op not in APART else ():
            yield op, kinds_of(op, kind), kind if functor.result is None else functor.result.value


def call(op: str, args: list[str]) -> str:
    if op == "neg":
        return f"-{args[0]}"
    if op.startswith(WORDS):
        return f"{op}({', '.join(args)})"
    return f"({op} {args[0]})" if op in PREFIX else f"({args[0]} {op} {args[1]})"


def has_value(op: str, kinds: list[str], args: Row) -> bool:
    try:
        values.function(op, kinds[0])(*map(canonical, args))
    except OracleError:
        return False
    return True


def with_functors(rng: random.Random, samples: int) -> tuple[Text, list[Text]]:
    """A program with every functor, and programs with one fact for which a functor has no value."""
    whole, faults = Text(), []
    for number, (op, kinds, result) in enumerate(functors()):
        every = list(product(*(SAMPLES[kind] for kind in kinds)))
        chosen = rng.sample(every, min(samples, len(every)))
        names = [f"x{at}" for at in range(len(kinds))]
        text = call(op, names)

        def add(
            to: Text, rows: list[Row], n: int = number, k: list[str] = kinds, r: str = result, t: str = text
        ) -> None:
            args = ", ".join(f"x{at}" for at in range(len(k)))
            to.relation(f"e{n}", k, rows)
            to.relation(f"d{n}", [*k, r])
            to.rule(f"d{n}(@k, {args}, {t}) :- e{n}(@k, {args}).")

        add(whole, [(at % 3, *args) for at, args in enumerate(chosen) if has_value(op, kinds, args)])
        without = [args for args in chosen if not has_value(op, kinds, args)]
        if without:
            faults.append(Text())
            add(faults[-1], [(1, *rng.choice(without))])
    return whole, faults


def with_comparisons(rng: random.Random) -> Text:
    found = Text()
    for kind, samples in SAMPLES.items():
        rows = [(at % 3, *pair) for at, pair in enumerate(product(samples, repeat=2))]
        equal = [(at % 3, value, value) for at, value in enumerate(samples)]
        found.relation(f"e_{kind}", [kind, kind], [*equal, *rng.sample(rows, min(100, len(rows)))])
        for number, (op, kinds) in enumerate(COMPARABLE.items()):
            if kind in {each.value for each in kinds} and "match" not in op:
                test = f"{op.removeprefix('not_')}(x, y)" if "contains" in op else f"x {op} y"
                found.relation(f"d{number}_{kind}", [kind, kind])
                negated = "!" if op.startswith("not_") else ""
                found.rule(f"d{number}_{kind}(@k, x, y) :- e_{kind}(@k, x, y), {negated}{test}.")
    return found


def with_aggregates(rng: random.Random) -> Text:
    """Every aggregate of every kind, of heads and of bodies, at the place of the facts and at another one."""
    found = Text()
    found.relation("link", ["number"], [(k, z) for k in range(8) for z in rng.sample(range(10), 2)])
    for kind, samples in SAMPLES.items():
        groups = {k: rng.sample(samples, rng.randint(0, 5)) for k in range(8)}
        for name, kinds in AGGREGABLE.items():
            if kind not in {each.value for each in kinds}:
                continue
            at, result = f"{name}_{kind}", AGGREGATE_RESULT.get(name)
            kept = {k: group for k, group in groups.items() if can_be_added(name, kind, group)}
            found.relation(f"e_{at}", [kind], [(k, value) for k, group in kept.items() for value in group])
            to = kind if result is None else result.value
            what = name if name == "count" else f"{name} x"
            for place in ("body", "head", "sent") if name != "mean" else ("body",):
                found.relation(f"{place}_{at}", [to])
            found.rule(f"body_{at}(@k, r) :- link(@k, _), r = {what} : {{ e_{at}(@k, x) }}.")
            if name != "mean":
                found.rule(f"head_{at}(@k, {name}(x)) :- e_{at}(@k, x).")
                found.rule(f"sent_{at}(@z, {'max' if name == 'sum' and kind != 'float' else name}(x)) "
                           f":- e_{at}(@k, x), link(@k, z).")  # fmt: skip
            if name in ("min", "max") and not (name == "max" and kind == "symbol"):
                found.relation(f"best_{at}", [kind])
                found.rule(f"best_{at}(@k, {name}(x)) :- e_{at}(@k, x).")
                found.rule(f"best_{at}(@z, {name}(x)) :- best_{at}(@k, x), link(@k, z).")
    return found


def can_be_added(name: str, kind: str, group: list[Any]) -> bool:
    """In every order: nodes add up what they know so far."""
    low, high = values.RANGES.get(kind, (0, 0))
    if name != "sum" or kind == "float":
        return True
    least, most = sum(value for value in group if value < 0), sum(value for value in group if value > 0)
    return bool(low <= least and most <= high)


STRUCTURES = """
.type pair = [x: float, s: symbol]
.type items = [first: float, rest: items]
.type shape = Circle {r: float} | Square {a: unsigned, s: symbol} | Dot {} | Two {l: shape, p: pair}
.decl link(@k: number, z: number)
.decl f(@k: number, x: float)
.decl s(@k: number, x: symbol)
.decl e(@k: number, p: shape)
.decl radius(@k: number, x: float)
.decl here(@k: number, p: shape)
.decl many(@k: number, n: number)
.decl two(@k: number, p: shape)
.decl left(@k: number, l: shape, x: float)
.decl counted(@k: number, p: shape, n: number)
.decl list(@k: number, l: items)
.decl of_list(@k: number, n: number, x: float, y: float, m: number)
.decl kept(@k: number, p: pair)
radius(@k, x) :- e(@k, $Circle(x)).
here(@z, p) :- e(@k, p), link(@k, z).
here(@z, p) :- here(@k, p), link(@k, z).
many(@k, count(p)) :- here(@k, p).
two(@k, $Two(p, [x, t])) :- e(@k, p), f(@k, x), s(@k, t), !here(@k, p).
two(@k, $Two($Circle(x), nil)) :- f(@k, x), e(@k, p), p != $Circle(x).
left(@k, l, x) :- two(@k, $Two(l, [x, _])).
counted(@k, p, n) :- link(@k, _), e(@k, p), n = count : { here(@k, p) }.
list(@k, f_init(x, y)) :- f(@k, x), f(@k, y), x <= y.
list(@k, f_concat(x, [y, nil])) :- f(@k, x), f(@k, y), y != y + 0.0.
of_list(@k, f_size(l), f_first(l), f_last(l), f_member(l, x)) :- list(@k, l), f(@k, x).
kept(@k, p) :- two(@k, $Two(_, p)), p != nil.
"""


def with_structures(rng: random.Random) -> Text:
    """Records, lists, algebraic types: built, taken apart, compared, counted, negated and sent."""
    found = Text([STRUCTURES])
    places = range(4)
    found.facts["link"] = {(k, rng.choice(places)) for k in places}
    found.facts["f"] = {(rng.choice(places), canonical(x)) for x in FLOATS}
    found.facts["s"] = {(rng.choice(places), x) for x in rng.sample(SYMBOLS, 6)}
    shapes: list[Any] = [("Dot",), *(("Circle", canonical(x)) for x in FLOATS)]
    shapes += [("Square", rng.choice(UNSIGNED), x) for x in SYMBOLS]
    shapes += [("Two", rng.choice(shapes), pair) for pair in (None, (float("nan"), ""), (-0.0, "ß"))]
    found.facts["e"] = {canonical((rng.choice(places), shape)) for shape in shapes}
    return found


def with_locations(kind: str, declared: str, samples: list[Any]) -> Text:
    """Addresses of any type: facts go around over them."""
    lines = [declared] + [f".decl {name}(@k: {kind}, z: {kind})" for name in ("link", "reach", "only")]
    lines += [
        ".decl n(@k: K, c: number)".replace("K", kind),
        "reach(@k, z) :- link(@k, z).",
        "reach(@k, z) :- link(@k, y), reach(@y, z).",
        "only(@k, z) :- link(@k, z), !link(@z, k).",
        "n(@z, count(k)) :- reach(@k, z).",
    ]
    pairs = zip(samples, [*samples[1:], samples[0]], strict=True)
    return Text(lines, {"link": {canonical(pair) for pair in pairs}})


LOCATIONS: list[tuple[str, str, list[Any]]] = [
    *((kind, "", list(dict.fromkeys(map(canonical, samples)))) for kind, samples in SAMPLES.items()),
    ("pair", ".type pair = [x: float, s: symbol]", [None, (0.0, ""), (values.NAN, "a"), (values.NAN, "b"), (0.5, "é")]),
    ("tag", ".type tag = No {} | Of {x: float}", [("No",), ("Of", values.NAN), ("Of", 0.0), ("Of", 2.0)]),
]


# ---------------------------------------------------------------------------------------------------- evaluators


def by_oracle(text: str, facts: Facts) -> Facts | str:
    try:
        return {name: {canonical(row) for row in rows} for name, rows in naive.materialize(parse(text), facts).items()}
    except OracleError:
        return "E510"


def by_run(text: str, facts: Facts) -> Facts | str:
    try:
        with sempre.Database(text) as db:
            db.apply(insert={name: list(rows) for name, rows in facts.items()})
            return {name: {canonical(row) for row in db[name]} for name in db}
    except sempre.DataError as error:
        return error.diagnostics[0].code


def by_nodes(text: str, facts: Facts) -> Facts | str:
    network = make_network(check(parse(text), {"<text>": text}))
    with sempre.Network(text) as shown:  # it knows how nodes hold what users see; it has no nodes itself
        try:
            network.run([Burst(shown._facts(facts))], Adversary(1))
        except sempre.DataError as error:
            return error.diagnostics[0].code
        return {name: {canonical(row) for row in shown[name]._shown(list(network.facts(name)))} for name in shown}


def by_processes(text: str, facts: Facts) -> Facts | str:
    try:
        with sempre.Network(text, workers=2, placement="hash") as network:
            network.apply(insert={name: list(rows) for name, rows in facts.items()})
            return {name: {canonical(row) for row in network[name]} for name in network}
    except sempre.DataError as error:
        return error.diagnostics[0].code


Evaluator = Callable[[str, Facts], Facts | str]
EVERYBODY: list[Evaluator] = [by_run, by_nodes, by_processes]


def agree(program: Text, evaluators: list[Evaluator], fault: bool = False) -> None:
    text = str(program)
    expected = by_oracle(text, program.facts)
    assert (expected == "E510") == fault, text
    for evaluator in evaluators:
        found = evaluator(text, program.facts)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected, (evaluator.__name__, text, program.facts)
            continue
        for name, rows in expected.items():
            assert found[name] == rows, (evaluator.__name__, name, found[name] ^ rows)


def test_functors() -> None:
    rng = random.Random(1)
    whole, faults = with_functors(rng, 12)
    agree(whole, EVERYBODY)
    assert len(faults) > 15
    for program in faults:
        agree(program, EVERYBODY[:2], fault=True)


@pytest.mark.parametrize("target", ["number", "unsigned", "float"])
def test_texts_that_stand_for_numbers(target: str) -> None:
    meant, read = values.function(f"to_{target}", "symbol"), python_functors.function(f"to_{target}", "symbol")
    for text in (
        *SYMBOLS,
        "0X1f",
        "-0b11",
        "+ 7",
        "1 0",
        "\u00a07",
        "infinity",
        "1e5",
        "1_000.5",
        "--1",
        "0x",
        "１",
        "1e",
    ):
        assert str(outcome(meant, OracleError, text)) == str(outcome(read, Fault, text)), repr(text)


def outcome(function: Callable[[str], Any], fault: type[Exception], text: str) -> Any:
    try:
        return function(text)
    except fault:
        return "fault"


@pytest.mark.slow
def test_functors_on_many_values() -> None:
    for seed in seeds(0, 120):
        whole, faults = with_functors(random.Random(seed), 400 if SCALE >= 1 else 40)
        agree(whole, EVERYBODY)
        for program in faults:
            agree(program, EVERYBODY[:2], fault=True)


def test_comparisons_aggregates_and_structures() -> None:
    rng = random.Random(1)
    for program in (with_comparisons(rng), with_aggregates(rng), with_structures(rng)):
        agree(program, EVERYBODY[:2])
    agree(with_structures(rng), [by_processes])


@pytest.mark.slow
def test_many_comparisons_aggregates_and_structures() -> None:
    for seed in seeds(2, 90):
        rng = random.Random(seed)
        for program in (with_comparisons(rng), with_aggregates(rng), with_structures(rng)):
            agree(program, EVERYBODY)


@pytest.mark.parametrize(("kind", "declared", "samples"), LOCATIONS, ids=[each[0] for each in LOCATIONS])
def test_locations(kind: str, declared: str, samples: list[Any]) -> None:
    agree(with_locations(kind, declared, samples), EVERYBODY if kind in ("float", "tag") else EVERYBODY[:2])


# ------------------------------------------------------------------------------------------------ planted defects


def words_of_63_bits(patch: pytest.MonkeyPatch) -> None:
    """Nodes take the highest bit of an unsigned number for a sign."""
    original = python_functors._wrapped
    patch.setattr(python_functors, "_wrapped", lambda kind, operation: original("number", operation))


def nan_is_nowhere(patch: pytest.MonkeyPatch) -> None:
    """A node at NaN takes no fact for its own."""
    patch.setattr(proofs, "same_address", lambda one, other: one == other)


def another_nan(patch: pytest.MonkeyPatch) -> None:
    """Rules of nodes compare floats as Python does."""
    patch.setattr(codegen._FunctionWriter, "equal", lambda self, left, right, kind: f"{left} == {right}")


@pytest.mark.parametrize("defect", [words_of_63_bits, nan_is_nowhere, another_nan])
def test_a_defect_of_nodes_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        check_nodes(random.Random(1))


def check_nodes(rng: random.Random) -> None:
    whole, faults = with_functors(rng, 40)
    for program in (whole, with_comparisons(rng), *(with_locations(*each) for each in LOCATIONS)):
        agree(program, [by_nodes])
    for program in faults:
        agree(program, [by_nodes], fault=True)


def test_addresses_that_are_records() -> None:
    """A node is asked for by its address as users see it, nil too; there is none at an address of no branch."""
    text = """
    .type tag = No {} | Of {x: float, p: pair}
    .type pair = [x: number, p: pair]
    .decl at_tag(@k: tag, n: number)
    """
    no, of = ("No",), ("Of", values.NAN, (1, (2, None)))
    with sempre.Network(text, workers=1) as network:
        network.apply(insert={"at_tag": [(no, 1), (of, 2)]})
        assert network.nodes == [no, canonical(of)]
        found = [[canonical(row) for row in network["at_tag"].at(address)] for address in (no, of, ("Or",))]
        assert found == [[(no, 1)], [canonical((of, 2))], []]
    with sempre.Network(text.replace("@k: tag", "@k: pair"), workers=1) as network:
        network.apply(insert={"at_tag": [(None, 1), ((1, (2, None)), 2)]})
        assert network.nodes == [(1, (2, None)), None]
        assert network["at_tag"].at(None) == [(None, 1)]
        assert network["at_tag"].at((1, (2, None))) == [((1, (2, None)), 2)]
        with pytest.raises(sempre.DataError, match="column `k` is record, and \\[b'x'\\] \\(list\\) is not"):
            network["at_tag"].at([b"x"])
