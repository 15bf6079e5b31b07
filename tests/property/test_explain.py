"""Proofs of random facts: the checker passes them against the oracle's facts, and heights are the oracle's rounds."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre import Database
from sempre.analysis.model import CheckedProgram, Kind
from sempre.api.caused_table import found_causes
from sempre.api.explanations import Proof, WhyNot
from sempre.explain.absence_document import Attempt
from sempre.explain.checker import check_proof, solve, value_of
from sempre.explain.wording import fact_text
from sempre.files import read_changes
from sempre.lang.parser import fact_atom, parse_atom
from sempre.lang.printer import to_text
from sempre.limits import Limits
from sempre.query import constant
from sempre.rewrites.equivalences import close_equivalences
from tests.budget import seeds
from tests.engine import STRATEGIES, Truth, database, lists, updated
from tests.oracle.naive import Facts, explicit_facts
from tests.oracle.values import Row, same
from tests.property.branching import branching_case
from tests.property.dice import RECORD, SYMBOLS
from tests.property.explained import OracleFacts, rounds
from tests.property.guarding import choosing_case, guarding_case
from tests.property.programs import Case, random_case
from tests.property.ranging import ranging_case
from tests.rows import plain

# Whatever cannot be found among so few facts is found by rounds, or by witness paths.
NARROW = Limits(time_moment=1e9, followed_moment=1e9, traced_facts=2, traced_instances=3)
WIDE = Limits(time_moment=1e9, followed_moment=1e9)


def check_proofs(
    case: Case, strategy: str, limits: Limits, rng: random.Random, facts: int = 6, **options: object
) -> int:
    """Explains random facts of every state of a case; returns how many."""
    explicit = explicit_facts(case.program)
    explained = 0
    with database(case.program, strategy, limits, **options) as db:
        for insert, delete in [(case.facts, {}), *case.updates]:
            db.apply(insert=lists(insert), delete=lists(delete))
            explicit = updated(explicit, insert, delete)
            truth = Truth(case.program, explicit)
            heights = rounds(case.program, explicit)
            known = OracleFacts(truth.facts, truth.explicit)
            choice = [(name, row) for name in sorted(truth.facts) for row in sorted(truth.facts[name], key=repr)]
            own = {name: {tuple(map(plain, row)): row for row in db[name]} for name in truth.facts}
            for name, row in rng.sample(choice, min(facts, len(choice))):
                proof = db[name].explain(own[name][row])
                assert isinstance(proof, Proof)
                where = f"{fact_text(name, row)}\n{proof}\n{to_text(case.program)}"
                document = json.loads(json.dumps(proof.to_json()))
                assert check_proof(document, db.program.checked, known) == [], where
                for node in proof.document.nodes:
                    key = (node.relation, tuple(map(plain, node.values)))
                    assert node.height == heights.get(key, node.height), f"height of {node.text} in {where}"
                explained += 1
    return explained


@pytest.mark.parametrize("seed", range(40))
def test_proofs_are_right_and_least(seed: int) -> None:
    rng = random.Random(seed)
    strategy = STRATEGIES[seed % len(STRATEGIES)]
    check_proofs(random_case(rng), strategy, (WIDE, NARROW)[seed % 2], rng, modules=("auto", "off")[seed % 3 == 0])


@pytest.mark.parametrize("seed", range(6))
def test_proofs_through_ranges_are_right_and_least(seed: int) -> None:
    rng = random.Random(seed)
    check_proofs(ranging_case(rng), STRATEGIES[seed % len(STRATEGIES)], (WIDE, NARROW)[seed % 2], rng, 4)


def test_facts_that_are_hard_to_write_have_proofs_and_can_be_deleted_by_what_they_print(tmp_path: Path) -> None:
    """What a row prints as is read as that row: floats that are no numbers, branches, texts, nested in each other."""
    text = """
    .type Shape = Dot {} | Of {x: float, p: Pair} | Named {s: symbol, t: Shape}
    .type Pair = [x: float, t: Shape]
    .decl e(x: float, t: Shape, p: Pair, s: symbol)
    .decl d(s: symbol, x: float, t: Shape, p: Pair)
    d(s, x, t, p) :- e(x, t, p, s).
    """
    floats = (math.inf, -math.inf, math.nan, -0.0, 5e-324, -1.5, 2.0**64)
    rng = random.Random(1)
    dot: Row = ("Dot",)
    rows: list[Row] = []
    for x in floats * 2:
        pair = rng.choice((None, (rng.choice(floats), dot)))
        shape = rng.choice((dot, ("Of", rng.choice(floats), pair), ("Named", rng.choice(SYMBOLS), ("Of", x, pair))))
        rows.append((x, shape, pair, rng.choice(SYMBOLS)))
    with sempre.Database(text) as db:
        db.apply(insert={"e": rows})
        for name in db.program.relations:
            for row in db[name]:
                assert db[name].explain(row).check() == []
        script = tmp_path / "all.txt"
        script.write_text("".join(f"-{fact_text('e', row)}.\n" for row in db["e"]) + "commit.\n", "utf-8")
        for epoch in read_changes(db.program.checked, script):
            db.apply(epoch.insert, epoch.delete)
        assert len(db["d"]) == 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [choosing_case, guarding_case, branching_case])
def test_what_relations_keep_has_proofs(make: Callable[[random.Random], Case], seed: int) -> None:
    case = make(random.Random(seed))
    with database(case.program, STRATEGIES[seed % len(STRATEGIES)], (WIDE, NARROW)[seed % 2]) as db:
        for insert, delete in [(case.facts, {}), *case.updates]:
            db.apply(insert=lists(insert), delete=lists(delete))
        for name in db.program.relations:
            assert len(db.explanations(name)) == len(db[name])
            for row in list(db[name])[:2]:
                assert db[name].explain(row).check() == []


def test_a_large_equivalence_turns_what_it_is_made_of_round() -> None:
    text = ".decl i(x: number, y: number) .decl e(x: number, y: number) eqrel e(x, y) :- i(x, y)."
    with Database(text, limits=NARROW) as db:
        db.apply(insert={"i": [(n + 1, n) for n in range(6)]})
        for row in db["e"]:
            assert db["e"].explain(row).check() == []


def test_proofs_with_counters_and_numbers_of_symbols() -> None:
    with Database("""
        .decl item(x: symbol) .decl id(x: symbol, n: number) .decl next(n: number) .decl all(n: number)
        item("a"). item("b"). item("c").
        id(x, autoinc()) :- item(x), (x != "b" ; x = "b", item("a")).
        next($ + 1) :- item(_), range(0, 2) = _y.
        all(ord(x)) :- item(x).
    """) as db:
        for name in ("id", "next", "all"):
            for row in db[name]:
                assert db[name].explain(row).check() == []
        told = {row[0]: str(db["id"].explain(row)) for row in db["id"]}
        assert all(f'item("{name}")' in text for name, text in told.items())
        assert str(db.explain('id("b", 7)', absent=True)).startswith('id("b", 7) is absent')


@pytest.mark.slow
@pytest.mark.parametrize("first", [1_000, 2_000])
def test_many_proofs_are_right_and_least(first: int) -> None:
    for seed in seeds(first, 60):
        rng = random.Random(seed)
        strategy = STRATEGIES[seed % len(STRATEGIES)]
        check_proofs(random_case(rng), strategy, (WIDE, NARROW)[seed % 2], rng, 20)


@pytest.mark.slow
def test_many_absences_and_causes() -> None:
    for seed in seeds(3_000, 60):
        rng = random.Random(seed)
        check_absences(random_case(rng), STRATEGIES[seed % len(STRATEGIES)], rng)
        check_causes(random_case(rng), STRATEGIES[seed % len(STRATEGIES)], rng)
        check_explanations(random_case(rng), STRATEGIES[seed % len(STRATEGIES)])


def check_absences(case: Case, strategy: str, rng: random.Random, facts: int = 12) -> int:
    """Asks why random absent facts are absent: what is named as missing lets the instance through. Returns how many."""
    explicit = updated(explicit_facts(case.program), case.facts, {})
    truth = Truth(case.program, explicit)
    asked = 0
    with database(case.program, strategy) as db:
        db.apply(insert=lists(case.facts))
        checked = db.program.checked
        values: dict[Kind, list[object]] = {}
        for name, rows in sorted(truth.facts.items()):
            for row in sorted(rows, key=repr):
                for kind, value in zip(checked.relations[name].kinds, row, strict=True):
                    values.setdefault(kind, []).append(value)
        for name in sorted(truth.facts):
            relation = checked.relations[name]
            if relation.is_equivalence or not all(kind in values for kind in relation.kinds):
                continue
            for _ in range(facts):
                row = tuple(rng.choice(values[kind]) for kind in relation.kinds)
                if row in truth.facts[name]:
                    continue
                found = db.explain(fact_text(name, row), absent=True)
                assert isinstance(found, WhyNot)
                for attempt in found.attempts:
                    where = f"{fact_text(name, row)}\n{found}\n{to_text(case.program)}"
                    assert lets_through(checked, found, attempt, row, truth.facts), where
                    asked += 1
    return asked


def lets_through(
    checked: CheckedProgram, found: WhyNot, attempt: Attempt, row: tuple[object, ...], facts: Facts
) -> bool:
    """Whether the rule of an attempt derives the fact once what it lacks is there, and what blocks it is not."""
    states = [literal.state for literal in attempt.literals]
    if "fails" in states or "open" in states:
        return True  # no fact would do, or which one is not known
    text = found.document.rules[attempt.rule].text
    answer = found.document.answers[0]
    changed = {name: set(rows) for name, rows in facts.items()}
    fresh: dict[str, int] = {}
    for literal in attempt.literals:
        if literal.state == "missing":
            kinds = checked.relations[literal.relation].kinds
            values = tuple(
                _any(kind, fresh.setdefault(name, 1_000_000 + len(fresh))) if name else plain(value)
                for value, name, kind in zip(literal.values, literal.free, kinds, strict=True)
            )
            changed[literal.relation].add(values)
        for blocker in literal.blocking:
            changed[blocker[0]].discard(tuple(map(plain, blocker[1])))
    known = OracleFacts(changed, {})
    rules = [rule for rule in checked.rules if rule.relation == answer.relation and rule.text == text]
    column = checked.relations[answer.relation].aggregate
    for rule in rules:
        for env in solve(rule.body, {}, known.rows, known.rows):
            pairs = enumerate(zip((plain(value_of(arg, env)) for arg in rule.args), row, strict=True))
            if all(same(a, b) for at, (a, b) in pairs if not column or at != column[1]):
                return True
    return False


def _any(kind: Kind, number: int) -> object:
    """A value that stands nowhere else."""
    return f"new {number}" if kind is Kind.SYMBOL else float(number) if kind is Kind.FLOAT else number


@pytest.mark.parametrize("seed", range(100, 125))
def test_what_is_missing_would_let_the_instance_through(seed: int) -> None:
    rng = random.Random(seed)
    check_absences(random_case(rng), STRATEGIES[seed % len(STRATEGIES)], rng)


def check_explanations(case: Case, strategy: str, **options: Any) -> int:
    """Explains all facts of a case: each follows from its premises by its rule, and heights are least."""
    explicit = updated(explicit_facts(case.program), case.facts, {})
    truth, heights = Truth(case.program, explicit), rounds(case.program, explicit)
    with database(case.program, strategy, **options) as db:
        db.apply(insert=lists(case.facts))
        checked, count = db.program.checked, 0
        for name in sorted(truth.facts):
            table = db.explanations(name).to_pylist()
            assert len({row["_fact"] for row in table}) == len(table) == len(truth.facts[name])
            for row in table:
                found, values = _fact(row["_fact"], checked)
                assert values in truth.facts[found]
                assert row["_height"] == heights.get((found, values), row["_height"]), row
                if row["_rule"] is None:
                    assert values in explicit[found] or checked.relations[found].aggregate
                    continue
                premises: Facts = {}
                for relation, premise in (_fact(text, checked) for text in row["_premises"]):
                    premises.setdefault(relation, set()).add(premise)
                assert follows(checked, found, values, row["_rule"], premises, truth.facts), (
                    row,
                    to_text(case.program),
                )
                count += 1
        return count


def _fact(text: str, checked: CheckedProgram) -> tuple[str, tuple[object, ...]]:
    atom = fact_atom(parse_atom(text))
    kinds = checked.relations[atom.relation].kinds
    values = (
        float(constant(arg)) if kind is Kind.FLOAT else constant(arg)
        for arg, kind in zip(atom.args, kinds, strict=True)
    )
    return atom.relation, tuple(map(plain, values))


def follows(
    checked: CheckedProgram, name: str, row: tuple[object, ...], text: str, premises: Facts, facts: Facts
) -> bool:
    """Whether a rule of this text derives a fact from these premises."""
    relation, near, all_ = checked.relations[name], OracleFacts(premises, {}), OracleFacts(facts, {})
    total = relation.aggregate[1] if relation.aggregate and relation.aggregate[0] in ("sum", "count") else -1
    rules = [rule for rule in close_equivalences(checked).rules if (rule.relation, rule.text) == (name, text)]
    return any(
        all(same(plain(value_of(arg, env)), row[at]) for at, arg in enumerate(rule.args) if at != total)
        for rule in rules
        for env in solve(rule.body, {}, lambda n, given: near.rows(n, given) if n in premises else [], all_.rows)
    )


@pytest.mark.parametrize("seed", range(300, 320))
def test_explanations_of_whole_relations(seed: int) -> None:
    rng = random.Random(seed)
    check_explanations(random_case(rng), STRATEGIES[seed % len(STRATEGIES)], modules=("auto", "off")[seed % 2])


def check_causes(case: Case, strategy: str, rng: random.Random) -> int:
    """Undoes the causes of the last update's changes: each undoes its effect. Returns how many were tried."""
    explicit = updated(explicit_facts(case.program), case.facts, {})
    tried = 0
    with database(case.program, strategy) as db:
        db.apply(insert=lists(case.facts))
        for insert, delete in case.updates:
            before = explicit
            changes = db.apply(insert=lists(insert), delete=lists(delete))
            explicit = updated(explicit, insert, delete)
            truth = Truth(case.program, explicit)
            for name in sorted(truth.facts):
                if not changes.size(name) or RECORD in str(db.program.relations[name].types):
                    continue
                assert changes._caused_by is not None
                for caused in found_causes(db, changes, changes._caused_by, db.program.relations[name]):
                    undone = {key: set(rows) for key, rows in explicit.items()}
                    for cause in caused.causes:
                        rows = undone.setdefault(cause.relation, set())
                        (rows.discard if cause.inserted else rows.add)(tuple(map(plain, cause.row)))
                    holds = tuple(map(plain, caused.fact.row)) in Truth(case.program, undone).facts[name]
                    where = f"{caused}\nwas {lists(before)}\n{to_text(case.program)}"
                    assert holds is not caused.fact.present, where
                    tried += 1
    return tried


@pytest.mark.parametrize("seed", range(200, 212))
def test_undoing_a_cause_undoes_its_effect(seed: int) -> None:
    rng = random.Random(seed)
    check_causes(random_case(rng), STRATEGIES[seed % len(STRATEGIES)], rng)


# ------------------------------------------------------------------------------------------------------- ranges


def check_ranges(seed: int) -> None:
    """All kinds of explanations, of rules with `range`: these are evaluated as they are written."""
    rng = random.Random(f"ranges {seed}")
    strategy = STRATEGIES[seed % len(STRATEGIES)]
    check_proofs(ranging_case(rng), strategy, (WIDE, NARROW)[seed % 2], rng)
    check_absences(ranging_case(rng), strategy, rng, 3)
    check_explanations(ranging_case(rng), strategy)
    check_causes(ranging_case(rng), strategy, rng)


@pytest.mark.parametrize("seed", range(5))
def test_rules_with_ranges(seed: int) -> None:
    check_ranges(seed)


@pytest.mark.slow
def test_many_rules_with_ranges() -> None:
    for seed in seeds(1_000, 30):
        check_ranges(seed)
