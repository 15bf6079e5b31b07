"""What `auto` chooses, what it learns, and that no choice is for good."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.analysis.model import Stratum
from sempre.backends import local, rerank
from sempre.backends.local import unsealed
from sempre.engine import standing_work
from sempre.kernel import compiled
from sempre.limits import Limits
from sempre.maintain import auto, modular, ranked
from sempre.maintain.auto import ChosenStrategy
from sempre.maintain.costs import MODULAR, Cost, History
from sempre.maintain.dredc import Counters
from sempre.maintain.ranked import Ranked
from sempre.maintain.registry import STRATEGIES
from sempre.maintain.strategy import Abandoned, DeferredMemory, Phase
from tests.engine import UNHURRIED
from tests.inside import engine_of

# A closure that shares its stratum with another rule.
MIXED = """
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.decl p(x: number, y: number)
p(x, y) :- e(x, y).
p(x, z) :- p(x, y), p(y, z).
p(y, x) :- p(x, y), f(x, y).
"""
FACTS = {"e": [(n, n + 1) for n in range(30)], "f": [(n, n + 1) for n in range(0, 30, 10)]}


# Closures never pay.
SWEEPING_NOTHING = replace(UNHURRIED, swept_bits=0)
# Every update is given up at once.
IMPATIENT = Limits(time_share=0.0, prepare_share=0.0, time_moment=0.0, expected_slack=0.0)


def database(limits: Limits = UNHURRIED) -> sempre.Database:
    db = sempre.Database(sempre.Program(MIXED), limits=limits)
    db.materialise(FACTS)
    return db


def chosen(db: sempre.Database) -> ChosenStrategy:
    (memory,) = [m for m in engine_of(db).snapshot.memories.values() if isinstance(m, ChosenStrategy)]
    return memory


def test_a_module_that_does_not_pay_is_not_taken_after_an_update_was_given_up() -> None:
    with database(SWEEPING_NOTHING) as db:
        assert chosen(db).way == "ranked"
        db._backend.limits = replace(IMPATIENT, swept_bits=0)
        changes = db.apply(delete={"e": [(3, 4)]})
        assert "recomputed" in changes.report.why
        db._backend.limits = SWEEPING_NOTHING
        assert chosen(db).way == "ranked"
        changes = db.apply(insert={"e": [(3, 4)]})
        assert changes.report.why == "maintained by auto"
        assert db.verify().ok


def test_dredc_takes_no_module_that_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    with sempre.Database(sempre.Program(MIXED), strategy="dredc", limits=SWEEPING_NOTHING) as db:
        db.materialise(FACTS)
        monkeypatch.setattr(modular.Exchange, "restore", lambda *_: pytest.fail("a module was made"))
        for _ in range(2):
            db.apply(delete={"e": [(3, 4)]})
            db.apply(insert={"e": [(3, 4)]})
        assert db.verify().ok


def test_modules_are_left_when_updates_with_them_have_cost_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as db:
        assert chosen(db).way == MODULAR
        snapshot = engine_of(db).snapshot
        (index,) = [number for number, memory in snapshot.memories.items() if isinstance(memory, ChosenStrategy)]
        old = chosen(db)
        history = replace(old.learned, way=old.way).learned("delete", 1.0 + old.learned.full_seconds, 1)
        memory = replace(old, learned=history)
        object.__setattr__(snapshot, "memories", {**snapshot.memories, index: memory})
        changes = db.apply(delete={"e": [(3, 4)]})
        assert "updates with modules have taken" in changes.report.why
        assert chosen(db).way == "ranked"
        assert "maintained" in db.apply(insert={"e": [(3, 4)]}).report.why
        assert db.verify().ok


def test_what_maps_cost_is_learned_when_they_are_made(tmp_path: Path) -> None:
    """A run from scratch discards them; the seconds are known after it, and after the store was opened."""
    with sempre.Database(sempre.Program(MIXED), store=tmp_path / "store", limits=SWEEPING_NOTHING) as db:
        db.materialise(FACTS)
        db.apply(insert={"e": [(40, 41)]})
        assert not chosen(db).learned.preparing, "an insertion makes none"
        db.apply(delete={"e": [(3, 4)]})
        learned = chosen(db).learned.preparing
        assert learned > 0
        db.apply(delete={"e": [(5, 6)]})
        assert chosen(db).learned.preparing == learned, "they were there already"
        db._backend.limits = replace(IMPATIENT, swept_bits=0)
        db.apply(delete={"e": [(7, 8)]})
        assert chosen(db).learned.preparing == learned
    with sempre.Database.open(tmp_path / "store") as db:
        memories = map(DeferredMemory.settled, engine_of(db).snapshot.memories.values())
        (after,) = [memory for memory in memories if isinstance(memory, ChosenStrategy)]
        assert after.learned.preparing == learned


def test_an_insertion_makes_no_index_for_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    with sempre.Database(sempre.Program(MIXED), strategy="ranked", limits=UNHURRIED) as db:
        db.materialise(FACTS)
        with monkeypatch.context() as patch:
            patch.setattr(ranked, "_jobs", lambda stratum: pytest.fail("plans for deletions were made"))
            db.apply(insert={"e": [(40, 41)], "p": [(50, 60)]})
        db.apply(delete={"p": [(50, 60)]}, insert={"e": [(41, 42)]})
        assert db.verify().ok


def test_what_was_learned_of_modules_survives_in_a_store(tmp_path: Path) -> None:
    """The module is built again after opening; what changes have cost is not learned again."""
    with sempre.Database(sempre.Program(MIXED), store=tmp_path / "store", limits=UNHURRIED) as db:
        db.materialise(FACTS)
        for kind in ("delete", "insert"):
            db.apply(**{kind: {"e": [(3, 4)]}})
        before = chosen(db)
        assert before.way == MODULAR
        assert set(before.learned.costs) == {"insert", "delete"}
    with sempre.Database.open(tmp_path / "store") as db:
        memories = map(DeferredMemory.settled, engine_of(db).snapshot.memories.values())
        (after,) = [memory for memory in memories if isinstance(memory, ChosenStrategy)]
        assert after.memory is None
        assert after.way == before.way
        for name in ("full_seconds", "costs", "ways", "since"):
            assert getattr(after.learned, name) == getattr(before.learned, name), name
        changes = db.apply(delete={"e": [(3, 4)]})
        assert "nothing is remembered of it" in changes.report.why
        assert chosen(db).learned.costs.keys() == before.learned.costs.keys()
        assert db.verify().ok


def test_a_store_that_says_nothing_of_what_was_learned_is_read() -> None:
    meta = {"kind": "chosen", "seconds": 1.5, "memory": {"kind": "nothing", "strategy": "dredc"}}
    read = ChosenStrategy.read(meta, Stratum(0, (), (), ()), _Shelf())
    old = ChosenStrategy.read({**meta, "costs": {"delete": [0.5, 10.0]}}, Stratum(0, (), (), ()), _Shelf())
    assert old.learned.costs == {"delete": (Cost(0.5, 10.0),)}, "stores of old have one cost for all sizes"
    assert (read.memory, read.way, read.learned.full_seconds, read.learned.costs) == (None, "dredc", 1.5, {})
    assert not read.history(Stratum(0, (), (), ())).forgotten


class _Shelf:
    """A shelf with nothing on it."""

    def memory(self, meta: Any, stratum: Stratum) -> None:
        return None

    def strategy(self, name: str) -> Any:
        return STRATEGIES[name]

    def tallies(self, kind: str, stratum: Stratum) -> dict[str, Any]:
        return {}

    def chain(self, relation: str) -> Any:
        raise KeyError(relation)

    def rows(self, kind: str, relation: str) -> dict[int, Any]:
        return {}

    def iterations(self, kind: str, stratum: Stratum, size: int) -> list[dict[str, Any]]:
        return []


def test_the_report_says_by_stratum_what_a_choice_was_based_on() -> None:
    with database() as db:
        (stratum,) = [s for s in db.apply(delete={"e": [(3, 4)]}).report.strata if s["why"]]
        assert stratum["relations"] == ("p",)
        assert "1 rows (delete)" in stratum["why"]
        assert "affected" in stratum["why"]


def test_an_expensive_kind_of_change_is_not_tried_and_then_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with database(Limits(time_moment=0.0, early_share=1e9, swept_bits=0, changing_share=0.0)) as db:
        tried = []
        monkeypatch.setattr(auto._Guard, "look", lambda guard, rest=None: None)
        snapshot = engine_of(db).snapshot
        (index,) = [number for number, memory in snapshot.memories.items() if isinstance(memory, ChosenStrategy)]
        memory = ChosenStrategy(Ranked(), chosen(db).memory, History(1e3, {"delete": (Cost(2e3, 1.0),)}))
        object.__setattr__(snapshot, "memories", {**snapshot.memories, index: memory})
        for number in range(3):
            changes = db.apply(delete={"e": [(number, number + 1)]})
            tried.append("expected to take" not in changes.report.why)
            # A run is as long as before: what fades is what was learned.
            snapshot = engine_of(db).snapshot
            slow = replace(chosen(db), learned=replace(chosen(db).learned, full_seconds=1e3))
            object.__setattr__(snapshot, "memories", {**snapshot.memories, index: slow})
        assert tried == [False, False, True]
        assert chosen(db).learned.costs["delete"][0].seconds < 1e3
        assert db.verify().ok


def test_a_guard_stops_a_long_round_in_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is looked at between the pieces of a join too."""
    monkeypatch.setattr(local, "rerank", lambda *args: None)  # facts one by one have a budget of their own
    with database(replace(SWEEPING_NOTHING, piece_rows=8)) as db:
        looks = 0
        real = auto._Guard.look

        def look(guard: auto._Guard, rest: float | None = None) -> None:
            nonlocal looks
            looks += 1
            if looks > 3:
                raise Abandoned("enough")
            real(guard, rest)

        rounds = 0
        count = auto._Guard.__call__

        def noted(guard: auto._Guard, round_: int, facts: int) -> None:
            nonlocal rounds
            rounds += 1
            count(guard, round_, facts)

        monkeypatch.setattr(auto._Guard, "look", look)
        monkeypatch.setattr(auto._Guard, "__call__", noted)
        assert "enough" in db.apply(delete={"e": [(15, 16)]}).report.why
        assert rounds < looks
        assert unsealed(engine_of(db).backend)._watcher is None
        assert db.verify().ok


def test_fronts_that_shrink_have_little_to_come_and_others_have_much() -> None:
    with database() as db:
        work = standing_work(engine_of(db), engine_of(db).snapshot)
        shrinking, growing = (auto._Guard(work, 1_000_000, 10.0, 0.0) for _ in range(2))
        for front in (1_000, 100, 10):
            shrinking(1, front)
        for front in (10, 100, 1_000):
            growing(1, front)
        assert shrinking._rest() < 0.01
        assert growing._rest() > 2


def test_before_there_are_fronts_much_is_to_come() -> None:
    with database() as db:
        guard = auto._Guard(standing_work(engine_of(db), engine_of(db).snapshot), 1_000_000, 10.0, 0.0)
        guard.turn(Phase.COMPARING)
        assert guard._rest() == auto.BEFORE_FRONTS


def test_what_goes_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion is half of the work, until what is left is derived again."""
    with database() as db:
        work = standing_work(engine_of(db), engine_of(db).snapshot)
        guard = auto._Guard(work, 1_000_000, 10.0, 0.0)
        guard.turn(Phase.DELETING)
        for front in (1_000, 100, 10):
            guard(1, front)
        assert 1.0 < guard._rest() < 1.1
        guard.turn(Phase.INSERTING)
        for front in (1_000, 100, 10):
            guard(1, front)
        assert guard._rest() < 0.1
        guard(1, 100_000)
        assert guard._rest() == auto.COMING_BACK


def test_when_all_has_gone_the_search_for_what_comes_back_foretells_nothing() -> None:
    with database() as db:
        db._backend.limits = Limits(time_moment=0.0)
        guard = auto._Guard(standing_work(engine_of(db), engine_of(db).snapshot), 1_000_000, 1.0, 0.0)
        guard.turn(Phase.DELETING)
        for front in (10_000, 1_000, 1):
            guard(1, front)
        assert guard._has_ended()
        guard._told = 0.4
        guard._whole._clock -= 0.6
        guard._whole._processor -= 0.6
        guard.look()
        assert 0.6 < guard.expected < 0.9


@pytest.mark.parametrize(
    ("spent", "rest", "stops"),
    [
        (0.1, 9.0, False),
        (0.1, 35.0, True),
        (0.3, 3.0, True),
        (0.3, 2.5, False),
        (0.7, 0.5, False),
        (0.9, 0.6, False),
        (1.3, 0.2, True),
    ],
)
def test_an_update_is_given_up_as_soon_as_its_end_can_be_foretold(spent: float, rest: float, stops: bool) -> None:
    with database() as db:
        db._backend.limits = Limits()
        guard = auto._Guard(standing_work(engine_of(db), engine_of(db).snapshot), 1_000_000, 1.0, 0.0)
        guard.turn(Phase.DELETING)
        guard._whole._clock -= spent
        guard._whole._processor -= spent
        with pytest.raises(Abandoned) if stops else nullcontext():
            guard.look(rest)


def test_facts_that_are_settled_one_by_one_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.load(wait=True)
    monkeypatch.setattr(rerank, "SLICE", 1)
    with database(SWEEPING_NOTHING) as db:
        rests = []
        monkeypatch.setattr(auto._Guard, "look", lambda guard, rest=None: rests.append(rest))
        db.apply(delete={"e": [(15, 16)]})
        told = [rest for rest in rests if rest is not None]
        assert len(told) > 10
        assert told[-1] == 0
        assert db.verify().ok

        def enough(guard: auto._Guard, rest: float | None = None) -> None:
            if rest is not None:
                raise Abandoned("enough")

        monkeypatch.setattr(auto._Guard, "look", enough)
        assert "enough" in db.apply(delete={"e": [(20, 21)]}).report.why
        assert db.verify().ok


@pytest.mark.parametrize(("facts", "way"), [(0, "ranked"), (1 << 16, "dredc")])
def test_a_short_end_of_a_large_stratum_is_not_walked(facts: int, way: str) -> None:
    """What is walked has no ranks, so it takes a long chain to be worth it once there are many facts."""
    compiled.load(wait=True)
    chain = ".decl e(x: number, y: number) .decl r(x: number) r(0). r(y) :- r(x), e(x, y)."
    with sempre.Database(sempre.Program(chain), modules="off", limits=replace(UNHURRIED, walk_facts=facts)) as db:
        db.materialise({"e": [(n, n + 1) for n in range(20)]})
        assert chosen(db).way == way
        db.apply(delete={"e": [(10, 11)]})
        assert db.verify().ok


def test_counters_that_take_longer_than_a_run_are_not_made() -> None:
    with database(Limits(time_moment=0.0)) as db:
        guard = auto._Guard(standing_work(engine_of(db), engine_of(db).snapshot), 1_000, 0.01, 0.0)
        guard._whole._clock -= 1.0
        guard._whole._processor -= 1.0
        with pytest.raises(Abandoned, match="for counters"):
            guard.look()


CLOSURE = """
.decl e(x: number, y: number)
.decl p(x: number, y: number)
p(x, y) :- e(x, y).
p(x, z) :- p(x, y), e(y, z).
p(x, z) :- p(x, y), p(y, z).
"""


def test_a_way_that_is_expected_to_take_less_is_taken_by_the_next_run(tmp_path: Path) -> None:
    """What is known of both survives in a store, and the counters were found by the run."""
    edges = {"e": [(x, x + 1) for x in range(9)]}
    limits = replace(UNHURRIED, change_rows=0, change_share=0.0, recursive_share=0.0, time_moment=0.0)
    with sempre.Database(sempre.Program(CLOSURE), store=tmp_path / "store", limits=limits, modules="off") as db:
        db.materialise(edges)
        snapshot = engine_of(db).snapshot
        (index,) = [number for number, memory in snapshot.memories.items() if isinstance(memory, ChosenStrategy)]
        dear = replace(chosen(db).learned, full_seconds=1.0, costs={"delete": (Cost(1.1, 1.0),)})
        memory = replace(chosen(db), learned=dear)
        object.__setattr__(snapshot, "memories", {**snapshot.memories, index: memory})
        why = db.apply(delete={"e": [(3, 4)]}).report.strata[-1]["why"]
        assert "from now on by dredc: the last change is expected to take 0.300 s by dredc, 1.100 s by ranked" in why
        assert isinstance(chosen(db).memory, Counters)
        assert db.verify().ok
        before = chosen(db).learned
        assert before.others == {"ranked": {"delete": (Cost(1.1, 1.0),)}}
        assert before.recent == (("delete", 1),)
    with sempre.Database.open(tmp_path / "store", limits=UNHURRIED, modules="off") as db:
        memories = map(DeferredMemory.settled, engine_of(db).snapshot.memories.values())
        (after,) = [memory for memory in memories if isinstance(memory, ChosenStrategy)]
        for name in ("others", "recent", "excess", "costs"):
            assert getattr(after.learned, name) == getattr(before, name), name
        changes = db.apply(delete={"e": [(5, 6)]})
        assert changes.report.strata[-1]["strategy"] == "dredc"
        assert db.verify().ok


def test_a_run_stops_counting_where_there_are_many_instances() -> None:
    limits = replace(UNHURRIED, change_rows=0, change_share=0.0, recursive_share=0.0, changing_share=1e9)
    for share, way in ((100.0, "dredc"), (0.1, "ranked")):
        few = replace(limits, counted_share=share, affected_rows=0)
        with sempre.Database(sempre.Program(CLOSURE), limits=few, modules="off") as db:
            db.materialise({"e": [(x, y) for x in range(9) for y in range(9)]})
            db.apply(delete={"e": [(3, 4)]})
            assert chosen(db).way == way
            assert db.verify().ok


def test_no_new_way_is_tried_after_an_update_that_was_given_up() -> None:
    """To count all instances would make the epoch take even longer."""
    with sempre.Database(sempre.Program(CLOSURE), limits=replace(IMPATIENT, changing_share=1e9), modules="off") as db:
        db.materialise({"e": [(x, x + 1) for x in range(9)]})
        changes = db.apply(delete={"e": [(3, 4)]})
        assert "recomputed" in changes.report.why
        assert chosen(db).way == "ranked"
