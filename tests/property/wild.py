"""Random programs with every kind of value and construct next to every other; most of them are valid.

    wild_case(rng)     a `Case`, or None where no program came of it

Relations have up to six columns (now and then twenty) of numbers at the ends of their types, floats that are no
numbers, odd texts, nested records, branches. Strata are recursive through up to four relations, equivalences,
inlined relations, subsumptions or aggregates in heads. Bodies negate conjunctions, nest aggregates, have alternatives,
equations, repeated atoms, atoms of wildcards, and conditions that never hold. Nothing is made to be valid by
construction but that values stay finite: who runs a case asks first whether it has a meaning.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse
from tests.oracle.naive import Facts
from tests.oracle.values import NAN, Row, Value, canonical
from tests.property.programs import Case, Update

TYPES = """
.type Pair = [a: number, b: number]
.type Deep = [p: Pair, s: symbol, t: Deep]
.type Shape = Dot {} | Circle {r: float} | Box {w: number, n: Pair} | Two {l: Shape, r: Shape}
"""
FIELDS = {"Pair": ("number", "number"), "Deep": ("Pair", "symbol", "Deep")}
BRANCHES = {"Dot": (), "Circle": ("float",), "Box": ("number", "Pair"), "Two": ("Shape", "Shape")}
PLAIN = ("number", "symbol", "float", "unsigned")
KINDS = ("number", "number", *PLAIN, "symbol", "Pair", "Deep", "Shape")
USUAL: dict[str, tuple[Value, ...]] = {
    "number": (0, 1, 2, 3), "unsigned": (0, 1, 2), "float": (0.0, 0.5, 1.0), "symbol": ("a", "b", "c"),
}  # fmt: skip
ODD: dict[str, tuple[Value, ...]] = {
    "number": (-1, 100, 255, 256, 65535, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1, -(1 << 63)),
    "unsigned": (255, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
    "float": (-0.0, NAN, math.inf, -math.inf, 5e-324, -1.5, 1e300, 2.0**53),
    "symbol": ("", "é", 'q"', "x y", "ü→\t", "\\", "a\nb", "\U0001f600", "z" * 99, "nil", "[1, 2]", "$Dot", "1", " "),
}
COLUMNS = (0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 6)


def wild_case(rng: random.Random) -> Case | None:
    """A case; None where what was put together is no program."""
    try:
        return Wild(rng).case()
    except ProgramError:
        return None


@dataclass
class Wild:
    """Makes one case."""

    rng: random.Random
    lines: list[str] = field(default_factory=lambda: [TYPES])
    relations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    pools: dict[str, list[Value]] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    variables: int = 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def case(self) -> Case:
        rng = self.rng
        self.kinds = rng.sample(KINDS, rng.choice((1, 2, 2, 3, 4)))
        self._fill_pools()
        for number in range(rng.randint(1, 3)):
            self._declare(f"e{number}", self._columns() or (self.kinds[0],), "base")
        for level in range(1, rng.randint(2, 5)):
            self._group(level)
        program, facts = parse("\n".join(self.lines), "random.dl"), self._facts()
        return Case(program, facts, list(self._updates(facts)))

    # ------------------------------------------------------------------------------------------------- values

    def _fill_pools(self) -> None:
        rng = self.rng
        for kind in PLAIN:
            self.pools[kind] = [*USUAL[kind], *(rng.sample(ODD[kind], 3) if self.chance(0.5) else ())]
        self.pools["Pair"] = [None, *((rng.randrange(3), rng.randrange(3)) for _ in range(3))]
        deep, shapes = self.pools.setdefault("Deep", [None]), self.pools.setdefault("Shape", [("Dot",)])
        for _ in range(4):
            deep.append((rng.choice((None, (0, 1))), rng.choice(("a", "b", "")), rng.choice(deep)))
            shapes.append(
                rng.choice(
                    (
                        ("Circle", rng.choice((0.5, 1.0))),
                        ("Box", rng.randrange(2), rng.choice((None, (0, 1)))),
                        ("Two", rng.choice(shapes), rng.choice(shapes)),
                    )
                )
            )

    def literal(self, kind: str, value: Value | None = None, *, given: bool = False) -> str:
        """A value of a kind as a program has it."""
        value = value if given else self.rng.choice(self.pools[kind])
        if isinstance(value, str):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
            return f'"{escaped}"'
        if isinstance(value, float):
            is_short = math.isfinite(value) and "e" not in repr(value)
            return repr(value) if is_short else f'to_float("{value!r}")'
        if isinstance(value, int):
            return str(value) if value != -(1 << 63) else "(-9223372036854775807 - 1)"
        if value is None:
            return "nil"
        if kind == "Shape":
            name, *parts = value
            fields = self._literals(BRANCHES[str(name)], tuple(parts))
            return f"${name}" + (f"({fields})" if fields else "")
        return f"[{self._literals(FIELDS[kind], value)}]"

    def _literals(self, kinds: tuple[str, ...], values: tuple[Value, ...]) -> str:
        return ", ".join(self.literal(kind, value, given=True) for kind, value in zip(kinds, values, strict=True))

    # ------------------------------------------------------------------------------------------------- strata

    def _columns(self) -> tuple[str, ...]:
        count = 20 if self.chance(0.02) else self.rng.choice(COLUMNS)
        return tuple(self.rng.choice(self.kinds) for _ in range(count))

    def _declare(self, name: str, kinds: tuple[str, ...], role: str = "derived") -> str:
        self.relations[name], self.roles[name] = kinds, role
        qualifier = f" {role}" if role in ("eqrel", "inline") else ""
        self.lines.append(f".decl {name}({', '.join(f'c{at}: {kind}' for at, kind in enumerate(kinds))}){qualifier}")
        return name

    def _group(self, level: int) -> None:
        """One stratum above what there is."""
        lower, roll, rng = list(self.relations), self.rng.random(), self.rng
        if roll < 0.12:
            kind = rng.choice(self.kinds)
            self._rules([self._declare(f"q{level}", (kind, kind), "eqrel")], lower, 0.6)
        elif roll < 0.2:
            self._rules([self._declare(f"i{level}", self._columns(), "inline")], lower, 0.0)
        elif roll < 0.32:
            self._folded(f"h{level}", lower)
        elif roll < 0.38:
            columns = (rng.choice(("number", "symbol", "unsigned")), rng.choice(("number", "unsigned", "symbol")))
            name = self._declare(f"s{level}", columns)
            self._rules([name], lower, 0.6)
            self.lines.append(f"{name}(x, a) <= {name}(x, b) :- {rng.choice(('b < a', 'a < b'))}.")
        else:
            alike = self._columns()
            count = rng.choice((1, 1, 1, 2, 2, 3, 4))
            names = [
                self._declare(f"p{level}{'abcd'[at]}", alike if self.chance(0.6) else self._columns())
                for at in range(count)
            ]
            self._rules(names, lower, 0.8)

    def _rules(self, names: list[str], lower: list[str], recursive: float) -> None:
        for name in names:
            for _ in range(self.rng.randint(1, 2)):
                self._rule(name, lower, [])
        for name in names:
            for _ in range(self.rng.randint(1, 2) if self.chance(recursive) else 0):
                self._rule(name, lower, names)

    def _rule(self, name: str, lower: list[str], members: list[str]) -> None:
        body = WildBody(self, lower, members, bool(members))
        body.fill()
        heads = [name, *([self.rng.choice(members)] if len(members) > 1 and self.chance(0.15) else [])]
        told = (f"{each}({', '.join(map(body.head, self.relations[each]))})" for each in heads)
        self.lines.append(f"{', '.join(told)} :- {', '.join(body.parts)}.")

    def _folded(self, name: str, lower: list[str]) -> None:
        """A relation with an aggregate in its heads."""
        fold, kind = self.rng.choice(("min", "max", "sum", "count")), self.rng.choice(("number", "unsigned", "float"))
        kind = "number" if fold in ("sum", "count") else kind
        groups = tuple(self.rng.choice(self.kinds) for _ in range(self.rng.randint(0, 2)))
        self._declare(name, (*groups, kind), "fold")
        recursive = fold in ("min", "max") and self.chance(0.5)
        for members in ([], [name] if recursive else []):
            body = WildBody(self, lower, members, bool(members))
            body.fill()
            value = body.term(kind)
            value = f"{value} % 100" if fold == "sum" else value
            head = ", ".join([*map(body.term, groups), f"{fold}({value})"])
            self.lines.append(f"{name}({head}) :- {', '.join(body.parts)}.")

    # -------------------------------------------------------------------------------------------------- facts

    def _row(self, name: str) -> Row:
        return tuple(canonical(self.rng.choice(self.pools[kind])) for kind in self.relations[name])

    def _may_have_facts(self, name: str) -> bool:
        return self.roles[name] not in ("inline", "fold")

    def _facts(self) -> Facts:
        facts: Facts = {}
        for name in filter(self._may_have_facts, self.relations):
            count = self.rng.randint(2, 9) if self.roles[name] == "base" else self.rng.choice((0, 0, 1, 3))
            if rows := {self._row(name) for _ in range(count)}:
                facts[name] = rows
        return facts

    def _updates(self, facts: Facts) -> Iterator[Update]:
        """Deletions of what is there and what is not, insertions of what is new, what is there and what is deleted."""
        now = {name: set(rows) for name, rows in facts.items()}
        for _ in range(self.rng.randint(1, 4)):
            insert: Facts = {}
            delete: Facts = {}
            for name in filter(self._may_have_facts, self.relations):
                if not self.chance(0.7 if self.roles[name] == "base" else 0.3):
                    continue
                there, share = sorted(now.get(name, ()), key=repr), self.rng.choice((0.0, 0.3, 0.3, 1.0))
                delete[name] = {row for row in there if self.chance(share)} | {self._row(name)}
                insert[name] = {self._row(name) for _ in range(self.rng.randint(0, 3))}
                insert[name] |= {self.rng.choice(sorted(delete[name], key=repr))} if self.chance(0.2) else set()
                now[name] = (now.get(name, set()) - delete[name]) | insert[name]
            yield insert, delete


@dataclass
class WildBody:
    """A body in the making: what it has, and its variables by kind. A recursive one makes no new values."""

    wild: Wild
    lower: list[str]
    members: list[str]
    recursive: bool = False
    bound: dict[str, list[str]] = field(default_factory=dict)
    depth: int = 0
    parts: list[str] = field(default_factory=list)

    def chance(self, share: float) -> bool:
        return self.wild.chance(share)

    def fill(self) -> None:
        wild = self.wild
        count = wild.rng.choice((1, 1, 2, 2, 2, 3, 4))
        for at in range(count):
            own = self.members and (at == 0 or self.chance(0.2))
            self.parts.append(self.atom(wild.rng.choice(self.members if own else self.lower)))
        more = (
            (0.3, self.compute), (0.15, self.equate), (0.3, self.negate), (0.25, self.compare), (0.2, self.fold),
            (0.12, self.branch), (0.04, self.refuse), (0.05, self.repeat), (0.05, self.look),
        )  # fmt: skip
        for share, add in more:
            if self.chance(share):
                add()
        if self.chance(0.3):
            wild.rng.shuffle(self.parts)

    def nested(self) -> WildBody:
        bound = {kind: list(names) for kind, names in self.bound.items()}
        return WildBody(self.wild, self.lower, [], False, bound, self.depth + 1)

    # -------------------------------------------------------------------------------------------------- terms

    def fresh(self, kind: str) -> str:
        self.wild.variables += 1
        name = f"v{self.wild.variables}"
        self.bound.setdefault(kind, []).append(name)
        return name

    def term(self, kind: str) -> str:
        names = self.bound.get(kind)
        return self.wild.rng.choice(names) if names and not self.chance(0.1) else self.wild.literal(kind)

    def head(self, kind: str) -> str:
        if kind == "Pair" and self.bound.get("number") and self.chance(0.3):
            return f"[{self.term('number')}, {self.term('number')}]"
        if not self.recursive and kind == "Deep" and self.chance(0.3):
            return f"[{self.term('Pair')}, {self.term('symbol')}, {self.term('Deep')}]"
        if not self.recursive and kind == "Shape" and self.chance(0.3):
            return f"$Two({self.term('Shape')}, $Box({self.term('number')}, {self.term('Pair')}))"
        return self.term(kind)

    def atom(self, relation: str, binds: bool = True) -> str:
        return f"{relation}({', '.join(self.argument(kind, binds) for kind in self.wild.relations[relation])})"

    def argument(self, kind: str, binds: bool) -> str:
        roll, names = self.wild.rng.random(), self.bound.get(kind)
        if roll < 0.12:
            return "_"
        if roll < 0.2:
            return self.wild.literal(kind)
        if binds and kind in FIELDS and roll < 0.4:
            return f"[{', '.join(self.argument(inner, binds) for inner in FIELDS[kind])}]"
        if binds and kind == "Shape" and roll < 0.4:
            name = self.wild.rng.choice(sorted(BRANCHES))
            fields = ", ".join(self.argument(inner, binds) for inner in BRANCHES[name])
            return f"${name}" + (f"({fields})" if fields else "")
        if names and (self.chance(0.6) or not binds):
            return self.wild.rng.choice(names)
        return self.fresh(kind) if binds else self.wild.literal(kind)

    def expression(self, kind: str) -> str:
        one, other = self.term(kind), self.term(kind)
        if kind == "float":
            return f"{self.wild.rng.choice(('min', 'max'))}({one}, {other})"
        if kind == "symbol":
            joined = f"substr({one}, 1, 1)" if self.recursive else f"cat({one}, {other})"
            return self.wild.rng.choice((joined, f"substr({one}, 0, 1)", f"max({one}, {other})"))
        narrow = (f"{one} % 3", f"{one} band 3", f"min({one}, {other})")
        if self.recursive or kind == "unsigned":
            return self.wild.rng.choice(narrow)
        wide = (f"({one} % 10) * ({other} % 10)", f"{one} bxor {other}", f"{one} lor {other}", f"{one} bshr 1")
        return self.wild.rng.choice((*narrow, *wide))

    # ------------------------------------------------------------------------------------------------ literals

    def compute(self) -> None:
        if kinds := [kind for kind in PLAIN if self.bound.get(kind)]:
            kind = self.wild.rng.choice(kinds)
            value = self.expression(kind)
            self.parts.append(f"{self.fresh(kind)} = {value}")

    def equate(self) -> None:
        if kinds := sorted(self.bound):
            kind = self.wild.rng.choice(kinds)
            value, names = self.term(kind), list(self.bound[kind])
            self.parts.append(f"{self.fresh(kind) if self.chance(0.5) else self.wild.rng.choice(names)} = {value}")

    def compare(self) -> None:
        if kinds := sorted(self.bound):
            kind = self.wild.rng.choice(kinds)
            op = self.wild.rng.choice(("<", "<=", ">", ">=", "!=") if kind in PLAIN else ("=", "!="))
            self.parts.append(f"{self.wild.rng.choice(self.bound[kind])} {op} {self.term(kind)}")

    def negate(self) -> None:
        if self.depth > 1 or self.chance(0.5):
            self.parts.append(f"!{self.atom(self.wild.rng.choice(self.lower), binds=False)}")
            return
        inner = self.nested()
        inner.parts = [inner.atom(self.wild.rng.choice(self.lower)) for _ in range(self.wild.rng.randint(1, 2))]
        for share, add in ((0.5, inner.compare), (0.3, inner.negate), (0.15, inner.compute), (0.1, inner.fold)):
            if self.chance(share):
                add()
        self.parts.append(f"!({', '.join(inner.parts)})")

    def branch(self) -> None:
        ways = []
        for _ in range(self.wild.rng.randint(2, 3)):
            inner = self.nested()
            inner.parts.append(inner.atom(self.wild.rng.choice(self.lower)))
            inner.compare()
            ways.append(", ".join(inner.parts))
        self.parts.append(f"({' ; '.join(ways)})")

    def refuse(self) -> None:
        self.parts.append(self.wild.rng.choice(("1 = 2", "false", "true", '"a" = "b"', "!(1 = 1)")))

    def repeat(self) -> None:
        self.parts.append(self.wild.rng.choice(self.parts))

    def look(self) -> None:
        name = self.wild.rng.choice(self.lower)
        blanks = ", ".join("_" for _ in self.wild.relations[name])
        self.parts.append(f"{self.wild.rng.choice(('', '!'))}{name}({blanks})")

    def fold(self) -> None:
        """An aggregate over relations below, which may nest others."""
        sources = [name for name in self.lower if self.wild.roles[name] != "inline"]
        if self.depth > 2 or not sources:
            return
        inner, outer = self.nested(), {name for names in self.bound.values() for name in names}
        inner.lower = sources
        inner.parts = [inner.atom(self.wild.rng.choice(sources)) for _ in range(self.wild.rng.randint(1, 2))]
        for share, add in ((0.3, inner.compare), (0.2, inner.negate), (0.25, inner.fold), (0.15, inner.compute)):
            if self.chance(share):
                add()
        own = {kind: [name for name in names if name not in outer] for kind, names in inner.bound.items()}
        ops = [(op, kind) for op in ("sum", "mean", "min", "max") for kind in PLAIN if own.get(kind)]
        ops = [(op, kind) for op, kind in ops if kind != "symbol" or op in ("min", "max")]
        op, kind = self.wild.rng.choice([*ops, ("count", "number")])
        taken = "" if op == "count" else self.wild.rng.choice(own[kind])
        taken = f"({taken} % 100)" if op in ("sum", "mean") and kind != "float" else taken
        value = f"{op} {taken} : {{ {', '.join(inner.parts)} }}"
        result = "float" if op == "mean" else kind
        if self.chance(0.3):
            self.parts.append(f"{value} {self.wild.rng.choice(('<', '>=', '!='))} {self.wild.literal(result)}")
        else:
            self.parts.append(f"{self.fresh(result)} = {value}")
