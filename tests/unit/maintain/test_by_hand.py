"""One small graph and one change, by every strategy: what each remembers and what it takes out can be checked by hand.

From `s` there are two ways to `c`, and `c` and `d` form a circle:

    s -> a -> c <-> d
    s -> b -> c

`reach` has five facts. The rule without recursion derives s; the other one has an instance for every edge: six. Without
the edge from a to c the state is the same, since b leads to c. Without the edge from b to c, too, c and d have only
each other, and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

import sempre
from sempre.maintain.dredc import Counters
from sempre.maintain.iterations import Levels
from sempre.maintain.ranked import GAP, Ranks
from sempre.maintain.update import StratumUpdate
from tests.engine import STRATEGIES, UNHURRIED
from tests.inside import engine_of
from tests.memories import numbers

PROGRAM = """
.decl start(x: symbol)
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol)
reach(x) :- start(x).
reach(y) :- reach(x), edge(x, y).
"""
EDGES = ["sa", "sb", "ac", "bc", "cd", "dc"]
FIRST, SECOND = {"edge": [("a", "c")]}, {"edge": [("b", "c")]}


@contextmanager
def database(strategy: str) -> Iterator[sempre.Database]:
    with sempre.Database(PROGRAM, strategy=strategy, modules="off", limits=UNHURRIED) as db:
        db.apply(insert={"start": [("s",)], "edge": [tuple(edge) for edge in EDGES]})
        yield db


def memory_of(db: sempre.Database) -> Any:
    engine = engine_of(db)
    index = next(stratum.index for stratum in engine.program.strata if "reach" in stratum.relations)
    return engine.snapshot.memories.get(index)


def shown(db: sempre.Database, counted: Any) -> dict[str, int]:
    return {text: n for (text,), n in sorted(numbers(db, "reach", counted).items())}


def taken_out(db: sempre.Database, delete: dict[str, list[tuple[str, str]]]) -> list[str]:
    """What the update takes out of `reach` for the time being, round by round."""
    fronts: list[str] = []
    real = StratumUpdate.bury

    def bury(update: StratumUpdate, front: Any, below: Any) -> Any:
        rows = front["reach"]
        tuples = db._decoder.tuples(db.program.relations["reach"], rows.columns(), len(rows))
        fronts.append("".join(sorted(text for (text,) in tuples)))
        return real(update, front, below)

    with mock.patch.object(StratumUpdate, "bury", bury):
        db.apply(delete=delete)
    return fronts


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_circle_stays_while_something_leads_to_it(strategy: str) -> None:
    with database(strategy) as db:
        assert "reach" not in db.apply(delete=FIRST).report.removed
        assert set(db["reach"]) == {("s",), ("a",), ("b",), ("c",), ("d",)}
        assert db.apply(delete=SECOND).report.removed["reach"] == 2
        assert set(db["reach"]) == {("s",), ("a",), ("b",)}


def test_recompute_remembers_nothing_and_starts_again() -> None:
    """Seven instances at first: one for s and six for the edges. Five edges are left, then four lead on."""
    with database("recompute") as db:
        assert memory_of(db) is None
        assert db.apply(delete=FIRST).report.instances == 1 + 5
        assert db.apply(delete=SECOND).report.instances == 1 + 2


def test_dred_takes_out_all_that_had_a_derivation_less_and_what_rests_on_it() -> None:
    """c lost an instance, d rests on c. Then b leads to c again."""
    with database("dred") as db:
        assert memory_of(db) is None
        assert taken_out(db, FIRST) == ["c", "d"]
        assert taken_out(db, SECOND) == ["c", "d"]


def test_dredc_counts_what_is_left_instead_of_looking_for_it() -> None:
    """c has three instances, by a, b and d. It is taken out with d, and the one by b is left: it comes back."""
    with database("dredc") as db:
        assert taken_out(db, FIRST) == ["c", "d"]
        counters = memory_of(db)
        assert isinstance(counters, Counters)
        assert counters.rec is not None
        assert shown(db, counters.nonrec["reach"].entries()) == {"s": 1}
        assert shown(db, counters.rec["reach"].entries()) == {"a": 1, "b": 1, "c": 2, "d": 1}
        assert taken_out(db, SECOND) == ["c", "d"]
        assert shown(db, memory_of(db).rec["reach"].entries()) == {"a": 1, "b": 1}


@pytest.mark.parametrize("strategy", ["bf", "bfc"])
def test_bf_takes_out_nothing_that_it_can_prove(strategy: str) -> None:
    """The proof of c goes back to b and s. The second time it goes back to d, and from there to c itself: no proof."""
    with database(strategy) as db:
        assert taken_out(db, FIRST) == []
        assert "".join(taken_out(db, SECOND)) == "cd"
        memory = memory_of(db)
        if strategy == "bf":
            assert memory is None
        else:
            assert isinstance(memory, Counters)
            assert memory.rec is None
            assert shown(db, memory.nonrec["reach"].entries()) == {"s": 1}


@pytest.mark.parametrize("strategy", ["counting", "elastic"])
def test_iterations_have_the_instances_by_which_facts_are_derived(strategy: str) -> None:
    """s in the first, a and b in the second, c in the third by both, d in the fourth; c again in the fifth, by d."""
    with database(strategy) as db:
        levels = memory_of(db)
        assert isinstance(levels, Levels)
        found = [shown(db, level.counts["reach"]) for level in levels.levels if "reach" in level.counts]
        assert found[:4] == [{"s": 1}, {"a": 1, "b": 1}, {"c": 2}, {"d": 1}]
        assert found[4:] == ([{"c": 1}] if strategy == "counting" else [])
        db.apply(delete=FIRST)
        assert shown(db, memory_of(db).levels[2].counts["reach"]) == {"c": 1}
        db.apply(delete=SECOND)
        left = [shown(db, level.counts["reach"]) for level in memory_of(db).levels if "reach" in level.counts]
        assert [level for level in left if level] == [{"s": 1}, {"a": 1, "b": 1}]


def test_ranked_lets_no_fact_hold_up_one_of_a_lower_rank() -> None:
    """c has rank 3 and d has rank 4, so what d derives does not count for c: without a and b it goes at once."""
    with database("ranked") as db:
        ranks = memory_of(db)
        assert isinstance(ranks, Ranks)
        heights, tight = ranks.maps(engine_of(db).backend, engine_of(db).snapshot.versions)
        found = {fact: rank // GAP for fact, rank in shown(db, heights["reach"].entries()).items()}
        assert found == {"a": 2, "b": 2, "c": 3, "d": 4, "s": 1}
        assert shown(db, tight["reach"].entries()) == {"a": 1, "b": 1, "c": 2, "d": 1}
        assert taken_out(db, FIRST) == []
        _, tight = memory_of(db).maps(engine_of(db).backend, engine_of(db).snapshot.versions)
        assert shown(db, tight["reach"].entries()) == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_auto_says_which_strategy_it_took_and_why() -> None:
    with database("auto") as db:
        report = db.apply(delete=FIRST).report
        said = next(stratum for stratum in report.strata if "reach" in stratum["relations"])
        # Where the loops are compiled already, chains of small rounds cost `dredc` less.
        assert said["strategy"] in ("ranked", "dredc")
        assert "it is not known what 1 rows (delete) cost" in said["why"]
