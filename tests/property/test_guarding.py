"""Relations that do not keep all rows.

Subsumption and limits have one result, which the oracle knows. A choice has many: what is chosen must be valid, and
must stay while it can. Both are checked without the engine: rows that exclude each other, rows that nothing derives,
rows that could be chosen and are not, and rows that went although they could have stayed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import sempre
from sempre.lang import syntax as s
from sempre.maintain import guarded
from sempre.maintain.strategy import as_update
from tests.budget import seeds
from tests.engine import STRATEGIES, check_epochs, database, lists, updated
from tests.oracle.clauses import clauses_of
from tests.oracle.naive import Facts, State, explicit_facts, fire, materialize, typed
from tests.oracle.values import Row
from tests.property.guarding import choosing_case, guarding_case
from tests.property.programs import Case
from tests.rows import plain
from tests.workers import UnusedSession

pytestmark = pytest.mark.oracle
CASES = 4
SEEDS = {strategy: 1_000 * number for number, strategy in enumerate(STRATEGIES)}


def check(seed: int, strategy: str) -> None:
    case = guarding_case(random.Random(seed))
    check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, verifying=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_subsumption_and_limits(strategy: str) -> None:
    for seed in range(SEEDS[strategy], SEEDS[strategy] + CASES):
        check(seed, strategy)


@pytest.mark.parametrize("strategy", ["auto", "recompute", "dredc"])
def test_choices_are_valid_and_stay(strategy: str) -> None:
    for seed in range(SEEDS[strategy], SEEDS[strategy] + CASES):
        check_choices(choosing_case(random.Random(seed)), strategy)


@pytest.mark.slow
@pytest.mark.parametrize("first", [100_000, 200_000, 300_000])
def test_many_programs_with_guards(first: int) -> None:
    for seed in seeds(first, 60):
        for strategy in STRATEGIES:
            check(seed, strategy)
            check_choices(choosing_case(random.Random(seed)), strategy)


# --------------------------------------------------------------------------------------------------- choices


def check_choices(case: Case, strategy: str) -> None:
    program, explicit = case.program, explicit_facts(case.program)
    keys = next(item.choice for item in program.items if isinstance(item, s.RelationDecl) and item.name == "pick")
    columns = [tuple("xy".index(name) for name in key) for key in keys]
    with database(program, strategy) as db:
        before: set[Row] = _rows(db, "pick")
        for insert, delete in [(case.facts, {}), *case.updates]:
            explicit = updated(explicit, insert, delete)
            db.apply(insert=lists(insert), delete=lists(delete))
            now = _rows(db, "pick")
            for key in columns:
                assert len({tuple(row[at] for at in key) for row in now}) == len(now), "two rows exclude each other"
            least = _closed(program, explicit, now)
            assert now <= least["pick"], "nothing derives a chosen row"
            left = {row for row in least["pick"] - now if not _excluded(row, now, columns)}
            assert not left, "more could be chosen"
            kept = _closed(program, explicit, before)["pick"] & before
            assert kept <= now, "a chosen row went although it could stay"
            for name, rows in least.items():
                assert name == "pick" or _rows(db, name) == rows, name
            assert db.verify().ok
            before = now


def _rows(db: sempre.Database, name: str) -> set[Row]:
    return {tuple(map(plain, row)) for row in db[name]}


def _excluded(row: Row, chosen: set[Row], keys: list[tuple[int, ...]]) -> bool:
    return any(all(row[at] == other[at] for at in key) for key in keys for other in chosen)


def _closed(program: s.ParsedProgram, explicit: Facts, chosen: set[Row]) -> Facts:
    """What follows when only rows of `chosen` are kept of `pick`, and what else could be derived for `pick`."""
    clauses = clauses_of(program)
    given = typed(clauses, explicit)
    without = s.ParsedProgram(
        tuple(i for i in program.items if not isinstance(i, s.Rule) or i.heads[0].atom.relation != "pick")
    )
    supported: set[Row] = set()
    while True:
        facts = materialize(without, {**given, "pick": supported})
        state = State(dict(facts))
        rules = [rule for rule in clauses.rules if rule.relation == "pick"]
        derived = given.get("pick", set()) | {head for rule in rules for head, _ in fire(rule, state)}
        if derived & chosen == supported:
            return {**facts, "pick": derived}
        supported = derived & chosen


# ----------------------------------------------------------------------------------------------------- defects


def test_a_choice_that_forgets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rows of before, chosen rows go although they could stay."""

    def forgetting(self, work, stratum, memory):  # type: ignore[no-untyped-def]
        return as_update(work, stratum, self._evaluated(work, stratum, {}))

    monkeypatch.setattr(guarded.Guarded, "update", forgetting)
    assert any(_fails(partial(check_choices, choosing_case(random.Random(seed)), "auto")) for seed in range(60))


def test_a_subsumption_that_leaves_old_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = guarded.GuardedRounds._undominated

    def lazy(self, state, name, guard, old, delta):  # type: ignore[no-untyped-def]
        return whole(self, state, name, guard, old, delta)[0], old

    monkeypatch.setattr(guarded.GuardedRounds, "_undominated", lazy)
    assert any(_fails(partial(check, seed, "auto")) for seed in range(60))


def _fails(test: Callable[[], None]) -> bool:
    try:
        test()
    except AssertionError:
        return True
    return False


# -------------------------------------------------------------------------------------------------- by hand


def test_numbers_are_distinct_and_stay() -> None:
    text = ".decl e(x: symbol, y: symbol) .decl n(x: symbol, i: number) n(x, autoinc()) :- e(x, _)."
    with sempre.Database(text) as db:
        db.apply(insert={"e": [("a", "b"), ("a", "c"), ("b", "c")]})
        first = set(db["n"])
        assert sorted(i for _, i in first) == [0, 1, 2]
        assert sorted(x for x, _ in first) == ["a", "a", "b"]
        changes = db.apply(insert={"e": [("c", "c")]}, delete={"e": [("a", "b")]})
        assert len(set(db["n"]) & first) == 2
        assert changes.added["n"].to_pylist() == [{"x": "c", "i": 3}]
        assert db.verify().ok


def test_two_counters_never_give_the_same_number() -> None:
    text = ".decl e(x: number) .decl n(i: number, x: number) n($, x), n($, x) :- e(x). n(autoinc() * 1, -1)."
    with sempre.Database(text) as db:
        db.apply(insert={"e": [(number,) for number in range(5)]})
        assert len({i for i, _ in db["n"]}) == len(db["n"]) == 11


def test_the_truth_of_a_subsumption_is_that_of_the_oracle() -> None:
    """Of rows that stand for each other the least stays, whatever was numbered first."""
    text = ".decl p(n: number, s: symbol) p(a, s) <= p(b, t) :- a <= b."
    with sempre.Database(text) as db:
        db.apply(insert={"p": [(1, "z")]})
        db.apply(insert={"p": [(1, "b"), (0, "a")]})
        assert list(db["p"]) == [(1, "b")]
        db.apply(delete={"p": [(1, "b")]})
        assert list(db["p"]) == [(1, "z")]


def test_rows_that_differ_in_a_record_alone_are_refused() -> None:
    text = ".type R = [a: number, b: R] .decl p(n: number, r: R) p(a, s) <= p(b, t) :- a <= b."
    with sempre.Database(text) as db:
        db.apply(insert={"p": [(1, (1, None)), (2, None)]})
        assert list(db["p"]) == [(2, None)]
        with pytest.raises(sempre.DataError, match="E166"):
            db.apply(insert={"p": [(2, (1, None))]})
        assert list(db["p"]) == [(2, None)]


def test_places_that_cannot_choose_say_so() -> None:
    with pytest.raises(sempre.BackendError, match="choice-domain"):
        sempre.Database(".decl p(n: number) choice-domain n", spark=UnusedSession(), place="cluster")


def test_a_store_keeps_what_was_chosen(tmp_path: Path) -> None:
    text = ".decl e(x: number, y: number) .decl p(x: number, y: number) choice-domain x p(x, y) :- e(x, y)."
    with sempre.Database(text, store=tmp_path / "store") as db:
        db.apply(insert={"e": [(1, 5)]})
        db.apply(insert={"e": [(1, 2), (1, 9)]})
    with sempre.Database(text, store=tmp_path / "store") as db:
        assert list(db["p"]) == [(1, 5)]
        db.apply(insert={"e": [(1, 1)]})
        assert list(db["p"]) == [(1, 5)]
        assert db.verify().ok
        changes = db.apply(delete={"e": [(1, 5)]})
        assert changes.report.strata[-1]["strategy"] == "guarded"
        assert len(db["p"]) == 1
    with pytest.raises(sempre.SempreError):
        sempre.Database(text.replace("choice-domain x", ""), store=tmp_path / "store")
