"""Random programs that have everything in one component, and values that outgrow their columns from epoch to epoch.

A case has one to three hundred relations that recur through each other. Rules copy, filter, step along base relations,
look at neighbors, negate conjunctions, close, take records apart, look for records by what they hold, and put text
together. No two rules share the names of their variables. Values start small; later epochs have some that need all 64
bits, in one column and not in the next.
Floats may be NaN, infinite or a negative zero.

    mixed_case(rng)          a `Case`; `relations` says how many recur, else it is random and mostly few
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.oracle.values import NAN, Row, Value
from tests.property.dice import RECORD, SYMBOLS
from tests.property.programs import Case, Update

FEW, MANY = (1, 1, 2, 2, 3, 4, 6, 9, 20), (126, 127, 128, 129, 130, 200, 255, 256, 257, 300)
# What a column holds at first, and what it may hold later: each step needs more bits than the one before.
NUMBERS = (
    (0, 1, 2, 3),
    (-2, -1, 5, 9, 100),
    (-(1 << 31), (1 << 31) - 1, 1 << 31, 100_000),
    (-(1 << 62), 1 << 62, (1 << 63) - 1, -(1 << 63), (1 << 62) - 1),
)
UNSIGNED = ((0, 1, 2, 3), (9, 255), (1 << 31, (1 << 32) - 1), (1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1))
FLOATS = ((0.0, -0.0, 0.5, 1.0), (-0.5, -1.0), (1e300, -1e300, 5e-324), (float("inf"), float("-inf"), NAN))
STEPS = 4
ORDERED = ("number", "unsigned", "float")
KINDS = (*ORDERED, "symbol", RECORD)
SHAPES = (
    ("number",), ("number", "number"), ("number", "number"), ("symbol", "symbol"), ("float", "number"), ("symbol",),
    ("unsigned", "symbol"), (RECORD, "number"), ("float", "float"), ("unsigned", "unsigned"),
)  # fmt: skip


@dataclass
class Mixed:
    """Makes one case."""

    rng: random.Random
    count: int
    kinds: tuple[str, ...] = ()
    rules: list[str] = field(default_factory=list)
    bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    order: str = "number"
    # Whether all rules can be followed row by row: one that cannot is enough for a component to go by rounds.
    plain: bool = False
    _rule: int = 0

    def case(self) -> Case:
        self.kinds = self.rng.choice(SHAPES[:3] if self.count > max(FEW) else SHAPES)
        self.order = self.rng.choice(ORDERED)
        self.plain = self.rng.random() < (0.7 if self.count > max(FEW) else 0.3)
        first = self.kinds[0]
        self.bases = {
            "seed": self.kinds,
            "link": (first, first),
            # Neighbors by the second column within groups of the first; what is in the third is nobody's business.
            "event": (first, self.order, self.rng.choice(KINDS)),
            "spot": (first, self.rng.choice(KINDS)) if first in ORDERED else (self.order, first),
        }
        self._component()
        self._above()
        declarations = [f".type {RECORD} = [a: number, b: number]"]
        for name, kinds in self.bases.items():
            declarations.append(_declared(name, kinds))
        declarations += [_declared(f"r{number}", self.kinds) for number in range(self.count)]
        program = parse("\n".join((*declarations, *self.rules)), "random.dl")
        start = self._rows(0)
        return Case(program, start, list(self._updates(start)))

    # ------------------------------------------------------------------------------------------------- rules

    def _names(self, number: int) -> list[str]:
        """Variables that no other rule has."""
        self._rule += 1
        return [f"v{self._rule}_{at}" for at in range(number)]

    def _component(self) -> None:
        count, rng = self.count, self.rng
        head = self._names(len(self.kinds))
        self.rules.append(f"r0({', '.join(head)}) :- seed({', '.join(head)}).")
        for number in range(count):
            # A long way around has nothing in it that facts could get stuck at.
            self._step((number + 1) % count, number, 0 if count > max(FEW) else 0.5)
        for _ in range(1 + count // 2):  # shortcuts, so that hundreds of relations do not take hundreds of rounds
            self._step(rng.randrange(count), rng.randrange(count), 0.5)
        for _ in range(rng.randint(0, 2)):
            self._neighbors(rng.randrange(count), rng.randrange(count))
        if len(set(self.kinds)) == 1 and len(self.kinds) == 2 and count <= max(FEW) and not self.plain:
            x, y, z = self._names(3)
            one, other = rng.randrange(count), rng.randrange(count)
            self.rules.append(f"r{one}({x}, {z}) :- r{one}({x}, {y}), r{other}({y}, {z}).")

    def _step(self, target: int, source: int, decorated: float) -> None:
        """A rule that derives one relation of the component from another, with or without something in its way."""
        names = self._names(len(self.kinds))
        head, body = list(names), [f"r{source}({', '.join(names)})"]
        if len(self.kinds) == 2 and self.kinds[0] == self.kinds[1] and self.rng.random() < 0.2:
            head.reverse()
        if self.rng.random() < decorated:
            if self.plain:
                body.append(self.rng.choice((f"!link({names[0]}, {names[0]})", f"!event({names[0]}, _, _)")))
            else:
                self._decorate(head, names, body)
        self.rng.shuffle(body)
        self.rules.append(f"r{target}({', '.join(head)}) :- {', '.join(body)}.")

    def _decorate(self, head: list[str], names: Sequence[str], body: list[str]) -> None:
        """Puts one more condition into a body, or a step to another value."""
        literals, target = self.rng.choice(self._decorations(names[0], self.kinds[0]))
        body += literals
        head[0] = target or head[0]

    def _decorations(self, x: str, kind: str) -> list[tuple[list[str], str]]:
        """Literals about `x`, and the value that takes the first place in the head, if another does."""
        y = f"{x}_n"
        same = self.bases["spot"][1] == self.bases["event"][2]
        nested = f"!(event({x}, {y}, _), spot(_, {y}_m), event({x}, _, {y}_m))" if same else f"!event({x}, _, _)"
        found = [([f"link({x}, {y})"], y), ([f"!link({x}, {x})"], ""), ([nested], "")]
        found.append(([f"!(link({x}, {y}), link({y}, {x}))"], ""))
        if kind == "symbol":
            found += [([f'{y} = cat({x}, "a")', f"strlen({y}) < 4"], y), ([f"{y} = substr({x}, 0, 1)"], y)]
            found += [([f'contains("a", {x})'], ""), ([f'!match(".", {x})'], "")]
        elif kind == RECORD:
            found += [([f"{x} = [{y}, {y}_b]"], f"[{y}_b, {y}]"), ([f"{x} != nil"], "")]
        elif kind == "number":
            found += [([f"{y} = {x} % 3"], y), ([f"{y} = max({x}, 2)"], y)]
            if self.bases["spot"][1] == RECORD:  # from what a record holds to what stands beside it
                found += [([f"spot({y}, {y}_r)", f"{y}_r = [{x}, {y}_b]"], y)] * 3
        elif kind == "unsigned":
            found.append(([f"{y} = {x} band 3"], y))
        if kind in ORDERED:
            found.append(([f"{x} {self.rng.choice(('<', '>=', '!='))} {_literal(kind)}"], ""))
        return found

    def _neighbors(self, target: int, source: int) -> None:
        """One step to the next event, within a group or among all spots, inside of the recursion."""
        names = self._names(len(self.kinds))
        group, rest = names[0], names[1:]
        low, high, middle = (f"{group}_{end}" for end in ("l", "h", "m"))
        come = ", ".join((high, *rest))
        if self.kinds[0] == self.order and self.rng.random() < 0.5:
            self.rules.append(
                f"r{target}({come}) :- r{source}({', '.join(names)}), event({group}, {low}, _), "
                f"event({group}, {high}, _), {low} < {high}, !(event({group}, {middle}, _), {low} < {middle}, "
                f"{middle} < {high})."
            )
        elif self.kinds[0] in ORDERED:
            self.rules.append(
                f"r{target}({come}) :- r{source}({', '.join(names)}), spot({group}, _), spot({high}, _), "
                f"{group} < {high}, !(spot({middle}, _), {group} < {middle}, {middle} < {high})."
            )

    def _above(self) -> None:
        """Readers: neighbors in groups, with what else is known of them, and what is not in the component."""
        last = f"r{self.count - 1}"
        first, order, other = self.bases["event"]
        blanks = ", ".join("_" for _ in self.kinds[1:])
        read = f"{last}(g, {blanks})" if blanks else f"{last}(g)"
        self.rules += [
            _declared("step", (first, order, order, other)),
            "step(g, x, y, w) :- event(g, x, _), event(g, y, w), x < y, !(event(g, z, _), x < z, z < y).",
            _declared("missed", (first, order)),
            f"missed(g, x) :- event(g, x, _), !{read}.",
            ".decl size(n: number)",
            f"size(n) :- n = count : {{ {last}({', '.join(f's{at}' for at in range(len(self.kinds)))}) }}.",
        ]

    # ------------------------------------------------------------------------------------------------- values

    def _value(self, kind: str, step: int) -> Value:
        """A value that needs as much room as a step allows; mostly less."""
        rng = self.rng
        step = rng.randint(0, step) if rng.random() < 0.5 else 0
        if kind == RECORD:
            return None if rng.random() < 0.1 else (self._value("number", step), self._value("number", step))
        if kind == "symbol":
            return rng.choice(SYMBOLS[:4]) if not step else rng.choice((*SYMBOLS, *(f"w{step}{at}" for at in range(9))))
        pools: dict[str, tuple[tuple[Value, ...], ...]] = {"number": NUMBERS, "unsigned": UNSIGNED, "float": FLOATS}
        return rng.choice(pools[kind][step])

    def _row(self, kinds: Sequence[str], step: int) -> Row:
        return tuple(self._value(kind, step) for kind in kinds)

    def _rows(self, step: int, most: int = 6) -> Facts:
        facts = {
            name: {self._row(kinds, step) for _ in range(self.rng.randint(0, most))}
            for name, kinds in self.bases.items()
        }
        if events := facts["event"]:  # groups of one have no neighbors
            group = min(events, key=repr)[0]
            facts["event"] = {(group, *row[1:]) if self.rng.random() < 0.5 else row for row in sorted(events, key=repr)}
        facts["seed"] = {self._row(self.kinds, step) for _ in range(self.rng.randint(1, 3))}
        own = f"r{self.rng.randrange(self.count)}"
        if self.rng.random() < 0.3:
            facts[own] = {self._row(self.kinds, step)}
        return {name: rows for name, rows in facts.items() if rows}

    def _beside(self, events: set[Row], insert: Facts, step: int) -> None:
        """New events in a group that there is: at a small value, so among others, with anything in the last column."""
        _, order, other = self.bases["event"]
        for group, *_ in self.rng.sample(sorted(events, key=repr), min(len(events), self.rng.randint(0, 3))):
            insert.setdefault("event", set()).add((group, self._value(order, 0), self._value(other, step)))

    def _updates(self, start: Facts) -> Iterator[Update]:
        present = {name: set(rows) for name, rows in start.items()}
        for epoch in range(1, 3 if self.count > max(FEW) else self.rng.randint(3, 5)):
            insert = self._rows(min(epoch, STEPS - 1), 2) if self.rng.random() < 0.8 else {}
            self._beside(present.get("event", set()), insert, min(epoch, STEPS - 1))
            delete: Facts = {}
            for name in sorted(present):
                rows = sorted(present[name], key=repr)
                gone = {row for row in rows if self.rng.random() < self.rng.choice((0.0, 0.3, 1.0))}
                if gone:
                    delete[name] = gone
            for name in {*insert, *delete}:
                present[name] = (present.get(name, set()) - delete.get(name, set())) | insert.get(name, set())
            yield insert, delete


def _declared(name: str, kinds: Sequence[str]) -> str:
    return f".decl {name}({', '.join(f'c{at}: {kind}' for at, kind in enumerate(kinds))})"


def _literal(kind: str) -> str:
    return {"number": "2", "unsigned": "2u", "float": "0.5"}[kind]


def mixed_case(rng: random.Random, relations: int | None = None) -> Case:
    """A case; one in twelve has more than a hundred relations in one stratum, unless it is said how many."""
    count = relations or rng.choice(MANY if rng.random() < 1 / 12 else FEW)
    return Mixed(rng, count).case()
