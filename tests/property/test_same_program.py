"""One store, opened by one text of a program after the other, with any modules and strategy: equals the oracle.

What must not matter: the order of rules and declarations, names of variables, outputs, how often a rule is written, the
`modules` and the strategy of who wrote the store and of who goes on with it, and a vacuum in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.analysis.model import Kind
from sempre.api.stores import check_files, vacuum
from sempre.lang import syntax as s
from sempre.lang.parser import parse
from sempre.lang.printer import string_text, to_text
from sempre.storage.digests import program_digest
from sempre.storage.store import Store
from tests.budget import seeds
from tests.engine import SMALL_PIECES, STRATEGIES, Truth, compare, lists, updated
from tests.inside import keeper_of
from tests.memories import check_memories
from tests.oracle.naive import Facts, explicit_facts
from tests.property.closures import modular_case
from tests.property.programs import Case, random_case
from tests.property.test_sequences import PROGRAMS, epochs_of
from tests.property.texts import other_text
from tests.rows import plain

pytestmark = pytest.mark.oracle

MODULES = ("auto", "auto", "auto", "off", "seq", "tc,stc,linear", "rch")
# Neighbors, and what nobody but they need, in any number of ways.
SUCCESSORS = """
.decl ev(k: symbol, t: number, v: symbol)
.decl between(k: symbol, x: number, y: number)
.decl near(k: symbol, x: number, y: number)
.decl next(x: number, y: number)
.decl step(k: symbol, x: number, y: number)
.decl same(v: symbol, x: number, y: number)
.decl reach(x: number, y: number)
between(k, x, y) :- ev(k, x, _), ev(k, z, _), ev(k, y, _), x < z, z < y.
near(k, x, y) :- ev(k, x, _), ev(k, y, _), x < y, !between(k, x, y).
next(x, y) :- ev(_, x, _), ev(_, y, _), x < y, !(ev(_, z, _), x < z, z < y).
step(k, x, y) :- ev(k, x, _), ev(k, y, _), x < y, !(ev(k, z, _), x < z, z < y).
same(v, x, y) :- ev(_, x, v), ev(_, y, v), x < y, !(ev(_, z, v), x < z, z < y).
reach(x, y) :- next(x, y).
reach(x, z) :- reach(x, y), reach(y, z), same(_, x, y).
"""


def generic_case(rng: random.Random) -> Case:
    return random_case(rng)


def sequence_case(rng: random.Random) -> Case:
    name = rng.choice([*PROGRAMS])
    first, *others = epochs_of(name, "number", rng)
    return Case(parse(PROGRAMS[name].format(kind="number")), first[0], others)


def successor_case(rng: random.Random) -> Case:
    """Symbols come and go, so that a vacuum numbers them anew."""

    def events(number: int) -> set[Any]:
        return {(rng.choice("abcdef"), rng.randrange(8), rng.choice("uvwxyz")) for _ in range(number)}

    have = start = events(8)
    updates: list[tuple[Facts, Facts]] = []
    for _ in range(5):
        gone, come = set(rng.sample(sorted(have), min(len(have), rng.randint(0, 5)))), events(rng.randint(0, 4))
        have = (have - gone) | come
        between = {(rng.choice("abc"), rng.randrange(8), rng.randrange(8)) for _ in range(rng.randint(0, 2))}
        updates.append(({"ev": come, "between": between}, {"ev": gone}))
    return Case(parse(SUCCESSORS), {"ev": start}, updates)


MAKERS: dict[str, Callable[[random.Random], Case]] = {
    "generic": generic_case,
    "closures": modular_case,
    "sequences": sequence_case,
    "successors": successor_case,
}


class Run:
    """One store on its way through the epochs of a case."""

    def __init__(self, case: Case, folder: Path, rng: random.Random) -> None:
        self.case, self.rng, self.store = case, rng, folder / "store"
        # Few strategies, so that memories of one are met by the same one later; sometimes all of them.
        self.strategies = rng.sample(STRATEGIES, rng.choice((1, 2, 2, len(STRATEGIES))))
        self.explicit = explicit_facts(case.program)
        self.history: list[Facts] = []
        self.compared = 0

    def go(self) -> int:
        """Returns how many counters were compared."""
        epochs = [(self.case.facts, {}), *self.case.updates]
        while epochs:
            self._session(epochs)
            self._between()
        check_files(self.store)
        return self.compared

    def _opened(self, **options: Any) -> tuple[s.ParsedProgram, sempre.Database]:
        text = other_text(self.case.program, self.rng)
        choice: dict[str, Any] = {"strategy": self.rng.choice(self.strategies), "modules": self.rng.choice(MODULES)}
        self.where = f"epoch {len(self.history)}, {choice}\n{to_text(text)}"
        return text, sempre.Database(to_text(text), store=self.store, limits=SMALL_PIECES, **choice, **options)

    def _session(self, epochs: list[Any]) -> None:
        """Some epochs by one text of the program."""
        text, db = self._opened()
        with db:
            if not self.history:
                self.history.append(Truth(text, self.explicit).facts)
            self._look(db, text)
            for _ in range(self.rng.choice((0, 1, 1, 2))):
                if not epochs:
                    break
                insert, delete = epochs.pop(0)
                if self.rng.random() < 0.2:
                    db.whatif(insert=lists(insert))
                db.apply(insert=lists(insert), delete=lists(delete))
                self.explicit = updated(self.explicit, insert, delete)
                self.history.append(Truth(text, self.explicit).facts)
                self._check(db, text)

    def _look(self, db: sempre.Database, text: s.ParsedProgram) -> None:
        """What is read before anything is changed, some of it from the files."""
        if self.rng.random() < 0.7:
            self._query(db)
        if self.rng.random() < 0.5:
            self._check(db, text)

    def _query(self, db: sempre.Database) -> None:
        """Look for what some facts begin with: that need not read the relation."""
        for name, facts in sorted(self.history[-1].items()):
            kinds = db.program.relations[name].kinds
            if not facts or len(kinds) < 2 or kinds[0] not in (Kind.NUMBER, Kind.SYMBOL) or Kind.RECORD in kinds:
                continue
            first = self.rng.choice(sorted(facts, key=repr))[0]
            shown = string_text(first) if isinstance(first, str) else str(first)
            found = db.query(f"{name}({', '.join([shown, *(f'X{index}' for index in range(1, len(kinds)))])})")
            rows = {tuple(map(plain, row.values())) for row in found.to_pylist()}
            assert rows == {row[1:] for row in facts if row[0] == first}, f"query of {name} {self.where}"

    def _check(self, db: sempre.Database, text: s.ParsedProgram) -> None:
        truth = Truth(text, self.explicit)
        compare(db, truth.facts, self.where)
        self.compared += check_memories(db, truth, self.where)
        found = db.verify()
        assert found.ok, f"{found} {self.where}"

    def _between(self) -> None:
        if self.rng.random() < 0.3 and self.store.exists():
            vacuum(Store(self.store, limits=SMALL_PIECES), keep=self.rng.choice((1, 1, 2)))
        if self.rng.random() < 0.2 and self.store.exists():
            with sempre.Database.open(self.store, limits=SMALL_PIECES) as db:
                epoch = self.rng.choice(keeper_of(db).store.epochs())
            with self._opened(epoch=epoch)[1] as past:
                compare(past, self.history[epoch], f"at {epoch}, {self.where}")
                assert past.verify().ok, self.where


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", MAKERS)
def test_texts_modules_and_strategies(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{kind} {seed}")
    Run(MAKERS[kind](rng), tmp_path, rng).go()


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_many_more(kind: str, tmp_path: Path) -> None:
    for seed in seeds(1_000, 90):
        rng = random.Random(f"{kind} {seed}")
        Run(MAKERS[kind](rng), tmp_path / str(seed), rng).go()


def test_other_texts_have_the_same_digest() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        case = (generic_case, modular_case)[seed % 2](rng)
        first, *others = (sempre.Program(to_text(other_text(case.program, rng))).checked for _ in range(3))
        assert {program_digest(other) for other in others} == {program_digest(first)}, to_text(case.program)


# --------------------------------------------------------------------------------------------- codes and types

CODES = """
.decl e(x: symbol)
.decl f(n: number)
.decl o(x: symbol, n: number)
.decl back(x: symbol)
o(x, ord(x)) :- e(x).
back(x) :- e(x), o(x, ord(x)), f(c), c = count : { e(_) }.
"""


def check_codes(rng: random.Random, folder: Path) -> None:
    """What is derived from the codes of symbols goes with them, before and after a vacuum."""
    have: set[tuple[str]] = set()
    for _ in range(5):
        with sempre.Database(CODES, store=folder, limits=SMALL_PIECES, strategy=rng.choice(STRATEGIES)) as db:
            gone = set(rng.sample(sorted(have), min(len(have), rng.randint(0, 3))))
            come = {(rng.choice("abcdefghijkl"),) for _ in range(rng.randint(0, 4))}
            have = (have - gone) | come
            number = [(len(have),)]
            db.apply(delete={"f": [*db["f"]]})
            db.apply(insert={"e": sorted(come), "f": number}, delete={"e": sorted(gone)})
            assert {(x,) for x, _ in db["o"]} == {*db["back"]} == have
            assert len({n for _, n in db["o"]}) == len([*db["o"]]) == len(have)
            assert db.verify().ok
        if rng.random() < 0.6:
            vacuum(Store(folder, limits=SMALL_PIECES))


@pytest.mark.parametrize("seed", range(6))
def test_codes(seed: int, tmp_path: Path) -> None:
    check_codes(random.Random(seed), tmp_path / "store")


def check_types(rng: random.Random, folder: Path) -> None:
    """A type that changes somewhere below a column is another program; one that no column needs is not."""
    kinds = ("number", "symbol", "unsigned", "float")
    depth = rng.randint(1, 4)
    fields = [[rng.choice(kinds) for _ in range(rng.randint(1, 3))] for _ in range(depth)]

    def text(fields: list[list[str]], other: str) -> str:
        lines = [f".type Other = [a: {other}]"]
        for number, row in enumerate(fields):
            inner = [f"f{index}: {kind}" for index, kind in enumerate(row)]
            inner += [f"r: T{number - 1}"] if number else []
            lines.append(f".type T{number} = [{', '.join(inner)}]")
        rng.shuffle(lines)
        return "\n".join([*lines, f".decl e(x: T{depth - 1})\n"])

    with sempre.Database(text(fields, "number"), store=folder, limits=SMALL_PIECES) as db:
        db.apply()
    sempre.Database(text(fields, "symbol"), store=folder, limits=SMALL_PIECES).close()
    row = rng.choice(fields)
    index = rng.randrange(len(row))
    row[index] = rng.choice([kind for kind in kinds if kind != row[index]])
    with pytest.raises(sempre.StateError, match="E604"):
        sempre.Database(text(fields, "number"), store=folder, limits=SMALL_PIECES)
    with sempre.Database(text(fields, "number"), store=folder, limits=SMALL_PIECES, migrate=True) as db:
        assert db.verify().ok


@pytest.mark.parametrize("seed", range(6))
def test_types(seed: int, tmp_path: Path) -> None:
    check_types(random.Random(seed), tmp_path / "store")
