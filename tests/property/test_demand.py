"""Questions have the answers that the whole relation has, whatever is derived for them, and under updates."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest

import sempre
from sempre.analysis.model import Fold, Match, Not
from sempre.api import questions as questions_of
from sempre.lang import syntax as s
from sempre.lang.parser import parse
from sempre.lang.printer import to_text
from sempre.rewrites import demand
from tests.budget import seeds
from tests.engine import STRATEGIES, UNHURRIED, Truth, lists, table_rows, updated
from tests.inside import engine_of
from tests.oracle.naive import Facts, explicit_facts
from tests.oracle.values import Row, Value
from tests.property.mixed import mixed_case
from tests.property.programs import Case, random_case
from tests.workers import on_workers

pytestmark = pytest.mark.oracle
CASES = 30
QUESTIONS = 4
DEFECT_CASES = 100


@dataclass(frozen=True)
class Question:
    """An atom with constants in some columns."""

    relation: str
    row: Row
    given: tuple[bool, ...]

    @property
    def text(self) -> str:
        words = (shown(v) if fixed else f"X{n}" for n, (v, fixed) in enumerate(zip(self.row, self.given, strict=True)))
        return f"{self.relation}({', '.join(words)})"

    def answers(self, facts: Facts) -> set[Row]:
        pairs = [n for n, fixed in enumerate(self.given) if fixed]
        free = [n for n, fixed in enumerate(self.given) if not fixed]
        rows = (row for row in facts[self.relation] if all(row[n] == self.row[n] for n in pairs))
        return {tuple(row[n] for n in free) for row in rows}


REACH = (
    "r(x, z) :- r(x, y), e(y, z).",
    "r(x, z) :- e(x, y), r(y, z).",
    "r(x, z) :- r(x, y), r(y, z).",
    "r(x, y) :- r(y, x), f(x).",
)
MIDDLE = (
    "s(x, y) :- e(x, y), !r(y, x).",
    "s(x, y) :- f(x), f(y), !r(x, y), r(y, x).",
    "s(x, y) :- e(x, y), !(r(x, z), r(z, y), z != x).",
    "s(x, n) :- f(x), n = count : { r(x, _) }.",
    "s(x, y) :- e(x, y), 1 < sum z : { r(y, z), e(z, _) }.",
    "s(x + 1, y) :- r(x, y), x < 4, !r(y, y).",
    "s(x, y) :- f(x), r(x, y), !(e(y, z), !r(x, z)).",
)
UPPER = (
    "t(x, y) :- s(x, y).",
    "t(x, z) :- t(x, y), s(y, z).",
    "t(x, z) :- s(x, y), t(y, z), !r(x, z).",
    "t(x, y) :- f(x), f(y), !s(x, y), !s(y, x).",
    "t(x, y) :- e(x, y), !(s(x, z), s(z, y)).",
    "t(x, 3) :- r(x, 2), !s(3, x).",
)
TOP = (
    "u(x) :- f(x), !t(x, _).",
    "u(x) :- t(x, y), !t(y, x).",
    "u(y) :- u(x), e(x, y), !t(y, y).",
    "u(n) :- f(x), n = count : { t(x, y), !s(y, x) }.",
)


def layered_case(rng: random.Random) -> Case:
    """Layers of relations that negate and count those below: what is below must be asked for in time."""
    rules = ["r(x, y) :- e(x, y)."]
    for layer, most in ((REACH, 2), (MIDDLE, 3), (UPPER, 3), (TOP, 2)):
        rules += rng.sample(layer, rng.randint(1, most))
    declared = "".join(f".decl {name}(x: number, y: number)\n" for name in "erst")
    text = f"{declared}.decl f(x: number)\n.decl u(x: number)\n" + "\n".join(rng.sample(rules, len(rules)))

    def some(most: int) -> Facts:
        pairs = {(rng.randrange(6), rng.randrange(6)) for _ in range(rng.randint(0, most))}
        found: Facts = {"e": set(pairs), "f": {(rng.randrange(6),) for _ in range(rng.randint(0, most))}}
        if rng.random() < 0.2:
            found[rng.choice("rst")] = {(rng.randrange(6), rng.randrange(6))}
        return found

    return Case(parse(text), some(8), [(some(2), some(6)) for _ in range(3)])


def any_case(seed: int) -> Case:
    """A random program, or one of layers."""
    rng = random.Random(seed)
    return layered_case(rng) if seed % 2 else random_case(rng)


def shown(value: Value) -> str:
    """A value as a term."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return "nil" if value is None else repr(value)


def questions(program: s.ParsedProgram, facts: Facts, names: list[str], rng: random.Random) -> Iterator[Question]:
    """Questions about values that are there, and some that are not."""
    kinds = {
        item.name: [a.type_name for a in item.attributes] for item in program.items if isinstance(item, s.RelationDecl)
    }
    for _ in range(QUESTIONS):
        name = rng.choice(names)
        rows = sorted(facts[name], key=repr)
        row = rng.choice(rows) if rows and rng.random() < 0.8 else None
        if row is None:
            known = sorted((r for o in facts for r in facts[o] if kinds[o] == kinds[name]), key=repr)
            if not known:
                continue
            row = rng.choice(known)
        if any(isinstance(value, float) and (value != value or abs(value) == float("inf")) for value in row):
            continue
        yield Question(name, row, tuple(rng.random() < 0.6 for _ in row))


def found(db: sempre.Database, question: Question, table: Any) -> set[Row]:
    """The answers in an Arrow table."""
    if all(question.given):
        return {()} if table.num_rows else set()
    relation = db.program.relations[question.relation]
    free = [n for n, fixed in enumerate(question.given) if not fixed]
    types = [relation.types[n] for n in free]
    program = mock.Mock(checked=db.program.checked, relations={"": replace(relation, types=tuple(types))})
    return table_rows(mock.Mock(program=program), "", table)


def start(case: Case) -> Facts:
    return updated(explicit_facts(case.program), case.facts, {})


def derived(program: s.ParsedProgram, on_demand: bool = False) -> list[str]:
    """The relations that rules derive and that can be asked; those that can be on demand."""
    declared = {item.name: item for item in program.items if isinstance(item, s.RelationDecl)}
    found = []
    for name, item in declared.items():
        rules = [r for r in program.items if isinstance(r, s.Rule) and any(h.atom.relation == name for h in r.heads)]
        heads = [head.atom for rule in rules if not rule.is_fact for head in rule.heads if head.atom.relation == name]
        whole = "eqrel" in item.qualifiers or any(isinstance(a, s.HeadAggregate) for h in heads for a in h.args)
        if "inline" not in item.qualifiers and not (on_demand and (whole or not heads)):
            found.append(name)
    return found


def without_outputs(program: s.ParsedProgram) -> s.ParsedProgram:
    return s.ParsedProgram(tuple(item for item in program.items if not isinstance(item, s.Directive)))


# --------------------------------------------------------------------------------------------------- to programs


def ask_the_program(case: Case, seed: int) -> int:
    """Random questions to a program, each evaluated on its own; returns how many had demand."""
    rng = random.Random(seed)
    program = sempre.Program(to_text(case.program))
    truth = Truth(case.program, start(case))
    focused = 0
    for question in questions(case.program, truth.facts, derived(case.program), rng):
        pattern = tuple(n for n, fixed in enumerate(question.given) if fixed)
        cut = program.for_question(question.relation, pattern)
        focused += any(map(demand.is_demand, cut.evaluated.relations))
        with sempre.Database(program) as db:
            table = program.query(question.text, lists(case.facts))
            assert found(db, question, table) == question.answers(truth.facts), question.text
    return focused


@pytest.mark.parametrize("seed", range(CASES))
def test_a_question_to_a_program_has_the_answers_of_the_whole_relation(seed: int) -> None:
    ask_the_program(any_case(seed), seed)


@pytest.mark.parametrize("seed", range(12))
def test_questions_to_large_components(seed: int) -> None:
    ask_the_program(mixed_case(random.Random(seed), 6), seed)


def test_most_questions_with_constants_have_demand() -> None:
    assert sum(ask_the_program(any_case(seed), seed) for seed in range(500, 520)) > 15


def write_outputs(case: Case, seed: int, **placed: Any) -> None:
    """Outputs by magic sets, under updates too."""
    rng = random.Random(seed)
    shown = rng.sample(names := derived(case.program), rng.randint(1, min(2, len(names))))
    items = (*without_outputs(case.program).items, s.Directive("output", tuple(shown)))
    program = s.ParsedProgram(items)
    cut = sempre.Program(to_text(program)).for_outputs(magic=rng.random() < 0.8)
    explicit = start(case)
    with sempre.Database(cut, strategy=rng.choice(STRATEGIES), limits=UNHURRIED, **placed) as db:
        db.materialise(lists(case.facts))
        for insert, delete in [({}, {}), *case.updates]:
            db.apply(insert=lists(insert), delete=lists(delete))
            explicit = updated(explicit, insert, delete)
            truth = Truth(program, explicit)
            for name in shown:
                assert table_rows(db, name, db[name].to_arrow()) == truth.facts[name], name
        assert db.verify().ok


@pytest.mark.parametrize("seed", range(CASES))
def test_outputs_by_magic_sets_are_those_of_the_whole_program(seed: int) -> None:
    write_outputs(any_case(seed), seed)


# ----------------------------------------------------------------------------------------- to relations on demand


def keep_asking(case: Case, seed: int, path: Any = None, **placed: Any) -> int:
    """Questions come, stay and go between updates, and have the answers of the whole; returns how many stayed."""
    rng = random.Random(seed)
    program = without_outputs(case.program)
    names = derived(program, on_demand=True)
    if not names:
        return 0
    chosen = rng.sample(names, rng.randint(1, len(names)))
    explicit = start(case)
    stayed = 0
    options: dict[str, Any] = {"strategy": rng.choice(STRATEGIES), "modules": rng.choice(("auto", "off"))}
    options |= {"limits": UNHURRIED, **placed}
    db = sempre.Database(to_text(program), demand=chosen, store=path, **options)
    engine_of(db).debug = True
    db.materialise(lists(case.facts))
    asked: dict[str, Question] = {}
    for insert, delete in [({}, {}), *case.updates, ({}, {})]:
        db.apply(insert=lists(insert), delete=lists(delete))
        explicit = updated(explicit, insert, delete)
        truth = Truth(program, explicit)
        for name, rows in truth.facts.items():
            if name not in chosen and name in db.program.relations:
                assert table_rows(db, name, db[name].to_arrow()) == rows, name
        for question in asked.values():
            epoch = db.epoch
            assert found(db, question, db.query(question.text)) == question.answers(truth.facts), question.text
            assert db.epoch == epoch, "a question that stays is not asked again"
        for question in questions(program, truth.facts, chosen, rng):
            assert found(db, question, db.query(question.text)) == question.answers(truth.facts), question.text
            asked[question.text] = question
        if path is not None and rng.random() < 0.5:
            db.close()
            db = sempre.Database.open(path, **options)
        standing = db.demands()
        stayed += len(standing)
        if standing and rng.random() < 0.5:
            db.release(rng.choice(standing))
            asked = {}
    assert db.verify().ok
    for standing_question in db.demands():
        db.release(standing_question)
    assert not db.demands()
    db.close()
    return stayed


@pytest.mark.parametrize("seed", range(CASES))
def test_answers_on_demand_are_those_of_the_whole_relation(seed: int) -> None:
    keep_asking(any_case(seed), seed)


@pytest.mark.parametrize("seed", range(10))
def test_answers_on_demand_in_large_components(seed: int) -> None:
    keep_asking(mixed_case(random.Random(seed), 5), seed)


@pytest.mark.parametrize("seed", range(12))
def test_answers_on_demand_are_kept_in_a_store(seed: int, tmp_path: Any) -> None:
    keep_asking(any_case(seed), seed, tmp_path / "store")


@pytest.mark.parametrize("seed", range(20, 28))
def test_demand_on_workers(seed: int) -> None:
    with on_workers(1 + seed % 3) as placed:
        keep_asking(any_case(seed), seed, **placed)
        write_outputs(any_case(seed), seed, **placed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 4_000, 1_000))
def test_many_questions(first: int, tmp_path: Any) -> None:
    for seed in seeds(first, 60):
        ask_the_program(any_case(seed), seed)
        write_outputs(any_case(seed), seed)
        keep_asking(any_case(seed), seed, tmp_path / str(seed) if seed % 4 == 0 else None)


# ------------------------------------------------------------------------------------------------- planted defects


Patches = list[tuple[Any, str, Any]]


def negations_ask_for_nothing() -> Patches:
    """What is negated or aggregated is read without being asked for."""
    real = demand._askings

    def askings(body: Any, *others: Any) -> Any:
        return real([literal for literal in body if not isinstance(literal, Not | Fold)], *others)

    return [(demand, "_askings", askings)]


def strata_are_not_looked_at() -> Patches:
    """The demand for what is negated depends on who negates it."""
    return [(demand._Magic, "out_of_order", lambda self: set())]


def values_that_a_later_atom_binds() -> Patches:
    """An atom asks by values that the atoms after it lead to, and only by those that these have."""
    real = demand._askings

    def askings(body: Any, before: Any, *others: Any) -> Any:
        everything = (*before, *(literal for literal in body if isinstance(literal, Match)))
        for asking in real(body, before, *others):
            yield replace(asking, before=tuple(each for each in everything if each is not asking.atom))

    return [(demand, "_askings", askings)]


def a_pattern_without_its_rules() -> Patches:
    """A relation that is asked for by a second pattern is derived by the first alone."""
    real = demand._Magic._task

    def task(self: Any, name: str, pattern: Any) -> None:
        if pattern is None or not any(known == name for known, _ in self._tasks):
            real(self, name, pattern)

    return [(demand._Magic, "_task", task)]


def rules_ask_for_nothing() -> Patches:
    """Nothing but the question itself is in demand."""
    return [(demand._Magic, "_demand", lambda self, rule, guard, asking: self._ask(asking.atom.relation, (0,)))]


def questions_are_forgotten() -> Patches:
    """A question that a rule asks, too, is not kept."""
    real = questions_of._is_asked

    def is_asked(database: Any, atom: Any, demand_of: Any) -> bool:
        return real(database, atom, database._version)

    return [(questions_of, "_is_asked", is_asked)]


DEFECTS = {
    negations_ask_for_nothing: (ask_the_program, write_outputs, keep_asking),
    strata_are_not_looked_at: (ask_the_program, keep_asking),
    values_that_a_later_atom_binds: (ask_the_program,),
    a_pattern_without_its_rules: (ask_the_program, keep_asking),
    rules_ask_for_nothing: (ask_the_program, write_outputs, keep_asking),
    questions_are_forgotten: (keep_asking,),
}


@pytest.mark.parametrize(
    ("defect", "check"),
    [(defect, check) for defect, checks in DEFECTS.items() for check in checks],
    ids=lambda each: each.__name__,
)
def test_a_planted_defect_is_found(defect: Callable[[], Patches], check: Callable[[Case, int], Any]) -> None:
    with ExitStack() as stack:
        for where, name, wrong in defect():
            stack.enter_context(mock.patch.object(where, name, wrong))
        for seed in range(DEFECT_CASES):
            try:
                check(any_case(seed), seed)
            except Exception:  # noqa: BLE001  # whatever it breaks, it is found
                return
    pytest.fail("nobody noticed")
