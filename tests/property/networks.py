"""Random programs with locations, topologies and bursts, and what their central result is."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.lang.parser import parse
from sempre.lang.syntax import ParsedProgram
from sempre.network.assembly import make_network
from sempre.network.node import Fact
from sempre.network.simulate import Burst, Schedule, Simulation
from tests.oracle import naive
from tests.oracle.values import Row

DECLARATIONS = """
.decl link(@s: number, d: number)
.decl cost(@s: number, d: number, c: number)
.decl tag(@s: number, x: number)
.decl p(@s: number, x: number)
.decl q(@s: number, x: number)
.decl r(@s: number, x: number, y: number)
.decl best(@s: number, d: number, c: number)
.decl wide(@s: number, d: number, c: number)
.decl u(@s: number, x: number)
.decl v(@s: number, x: number)
.decl n(@s: number, c: number)
.decl total(@s: number, c: number)
"""
BASE = {"link": 2, "cost": 3, "tag": 2}

RECURSIVE = (
    "p(@s, x) :- tag(@s, x).",
    "p(@s, d) :- link(@s, d).",
    "p(@s, x) :- link(@s, z), p(@z, x).",
    "p(@z, x) :- link(@s, z), p(@s, x).",
    "p(@s, x) :- q(@s, x), tag(@s, _).",
    "p(@x, s) :- q(@s, x).",
    "q(@s, x) :- p(@s, x), link(@s, x).",
    "q(@s, x) :- p(@s, y), q(@y, x).",
    "q(@s, x) :- link(@s, z), link(@z, w), p(@w, x).",
    "q(@s, x) :- r(@s, _, x).",
    "r(@s, x, y) :- p(@s, x), p(@s, y), x < y.",
    "r(@s, x, y) :- link(@s, x), link(@x, y).",
    "r(@s, x, y) :- r(@s, x, z), r(@z, y, _).",
    "p(@s, x + 1) :- p(@s, x), x < 3.",
    "p(@1, x) :- q(@s, x), s != 1.",
)
FLAT = (
    "p(@s, x) :- tag(@s, x).",
    "p(@s, y) :- link(@s, z), link(@z, y).",
    "p(@s, x) :- link(@s, z), tag(@z, x).",
    "q(@s, y) :- p(@s, z), link(@z, y).",
    "q(@s, x) :- p(@s, x), p(@x, s).",
    "r(@s, x, y) :- p(@s, x), q(@s, y).",
    "r(@s, x, x) :- tag(@s, x), tag(@s, x), link(@s, _).",
    "r(@d, x, y) :- link(@s, d), link(@d, e), q(@e, x), tag(@s, y).",
)
COSTS = (
    "best(@s, d, min(c)) :- cost(@s, d, c).",
    "best(@s, d, min(c1 + c2)) :- cost(@s, z, c1), best(@z, d, c2).",
    "best(@z, d, min(c)) :- link(@s, z), best(@s, d, c).",
    "best(@s, s, min(0)) :- tag(@s, _).",
    "wide(@s, d, max(c)) :- cost(@s, d, c).",
    "wide(@s, d, max(min(c1, c2))) :- cost(@s, z, c1), wide(@z, d, c2).",
)
ABOVE = (
    "u(@s, x) :- tag(@s, x), !p(@s, x).",
    "u(@s, x) :- link(@s, z), tag(@z, x), !q(@s, x), !p(@z, x).",
    "u(@s, x) :- u(@s, y), link(@y, x), !r(@s, _, x).",
    "u(@s, c) :- best(@s, _, c), c < 4.",
    "v(@s, k) :- tag(@s, _), k = count : { p(@s, _) }.",
    "v(@s, k) :- link(@s, z), k = sum x : { q(@z, x) }.",
    "v(@s, k) :- tag(@s, _), k = min x : { p(@s, x), !q(@s, x) }.",
    "v(@s, x) :- u(@s, x), v(@x, _).",
    "n(@s, count(x)) :- p(@s, x).",
    "n(@z, count(x)) :- q(@s, x), link(@s, z).",
    "total(@s, sum(c)) :- best(@s, _, c).",
    "total(@z, sum(c)) :- link(@s, z), wide(@s, _, c).",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A program and what changes in it; no fact is deleted that is not there."""

    text: str
    program: ParsedProgram
    checked: CheckedProgram
    bursts: tuple[Burst, ...]

    def central(self, upto: int | None = None) -> dict[str, set[Row]]:
        """All relations after the first `upto` bursts, by the oracle."""
        facts: dict[Fact, None] = {}
        for burst in self.bursts[:upto]:
            for fact in burst.delete:
                facts.pop(fact, None)
            facts |= dict.fromkeys(burst.insert)
        explicit: dict[str, set[Row]] = {}
        for name, row in facts:
            explicit.setdefault(name, set()).add(row)
        return naive.materialize(self.program, explicit)


def case_of(text: str, bursts: tuple[Burst, ...]) -> Case:
    program = parse(text)
    return Case(text, program, check(program, {"<text>": text}), bursts)


def random_case(rng: random.Random, algorithm: str = "proofs", recursive: bool = False) -> Case:
    """A case that `algorithm` accepts; for `psn`, `recursive` ones need not end."""
    if algorithm == "psn" and not recursive:
        rules = rng.sample(FLAT, rng.randint(2, 5))
    else:
        rules = rng.sample(RECURSIVE, rng.randint(2, 6))
    if algorithm == "proofs":
        rules += rng.sample(COSTS, rng.randint(0, 5)) + rng.sample(ABOVE, rng.randint(0, 5))
    nodes = rng.randint(2, 4 if algorithm in ("proofs", "sets") else 3)
    return case_of(DECLARATIONS + "\n".join(rules), tuple(_bursts(rng, nodes, rng.randint(1, 4))))


def recast(rng: random.Random) -> tuple[Burst, ...]:
    """Some bursts, for any of the programs here."""
    return tuple(_bursts(rng, rng.randint(2, 4), rng.randint(1, 4)))


def _bursts(rng: random.Random, nodes: int, count: int) -> Iterator[Burst]:
    here: list[Fact] = []
    for number in range(count):
        insert = list(dict.fromkeys(_fact(rng, nodes) for _ in range(rng.randint(1, 6 if number else 2 * nodes))))
        delete = rng.sample(here, rng.randint(0, len(here)))
        here = [fact for fact in dict.fromkeys([*here, *insert]) if fact not in delete or fact in insert]
        yield Burst(tuple(insert), tuple(delete))


def _fact(rng: random.Random, nodes: int) -> Fact:
    name = rng.choice(("link", "link", "cost", "tag"))
    return name, tuple(rng.randint(1, 5 if name == "cost" and at == 2 else nodes) for at in range(BASE[name]))


def settle(case: Case, algorithm: str, schedule: Schedule) -> Simulation:
    """The network after all bursts of a case."""
    network = make_network(case.checked, algorithm, limit=200_000)
    network.run(case.bursts, schedule)
    return network


def difference(case: Case, network: Simulation, expected: dict[str, set[Row]]) -> str:
    """What differs between a network and the central result, with the program; empty if nothing does."""
    found = []
    for name, rows in expected.items():
        have = list(network.facts(name))
        if set(have) != rows or len(have) != len(rows):
            found.append(f"{name}: extra {set(have) - rows}, missing {rows - set(have)}")
    return "\n".join([case.text, str(case.bursts), *found]) if found else ""
