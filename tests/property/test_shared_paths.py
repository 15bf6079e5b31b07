"""Modules on workers: each searches from its own values. They equal the oracle, within the framework's bounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

import sempre
from sempre.diagnostics import InternalError
from sempre.kernel import reach
from sempre.kernel.reach import Components, Matrix, Search
from sempre.lang.parser import parse
from sempre.limits import Limits
from sempre.workers import worker
from sempre.workers.handles import RemotePaths
from sempre.workers.paths import SharedPaths
from sempre.workers.placing import EVERYWHERE
from tests import budget
from tests.engine import UNHURRIED, check_epochs
from tests.property.closures import modular_case
from tests.workers import database_on_workers, on_workers

pytestmark = pytest.mark.oracle
STRATEGIES = ("recompute", "dredc", "auto", "dred", "bf", "bfc")
CASES = 6


class Used:
    """How many changes workers were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = {"paths_add": 0, "paths_remove": 0}
        original = RemotePaths._asked

        def asked(paths: RemotePaths, op: str, args: Any) -> Any:
            self.times[op] += 1
            return original(paths, op, args)

        monkeypatch.setattr(RemotePaths, "_asked", asked)


def check(strategy: str, seeds: Iterable[int], limits: Limits = UNHURRIED) -> None:
    for seed in seeds:
        case = modular_case(random.Random(seed))
        with on_workers(1 + seed % 4) as options:
            check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=limits, **options)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_cases(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used = Used(monkeypatch)
    first = 560_000 + 100 * STRATEGIES.index(strategy)
    check(strategy, range(first, first + CASES))
    assert used.times["paths_add"]
    assert used.times["paths_remove"] or strategy == "recompute"


def test_searching_instead_of_matrices() -> None:
    check("dredc", range(561_000, 561_000 + CASES), replace(UNHURRIED, matrix_nodes=0))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_random_cases(strategy: str) -> None:
    check(strategy, budget.seeds(570_000 + 1_000 * STRATEGIES.index(strategy), 20))


# ---------------------------------------------------------------------------------------------- the tests bite


def search_from_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts are found by workers that they are not at home with."""
    monkeypatch.setattr(Matrix, "_told", lambda self, nodes, rows: reach._pairs(nodes, rows))


def search_without_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where there is no matrix."""
    monkeypatch.setattr(Search, "_first", lambda self, nodes: nodes)


def pair_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Components.__init__
    monkeypatch.setattr(Components, "__init__", lambda self, ours=None: original(self))


def know_own_edges_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges do not come to all workers."""
    original = worker.Worker._bring

    def bring(self: worker.Worker, relation: str) -> Any:
        brought = original(self, relation)

        def kept(rows: Any, places: Any) -> Any:
            found = brought(rows, places)
            return [rows] if places[0][0] == EVERYWHERE else found

        return kept

    monkeypatch.setattr(worker.Worker, "_bring", bring)


def forget_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges that are gone stay."""
    original = SharedPaths.remove

    def remove(self: SharedPaths, facts: Any, also: Any) -> Any:
        found = original(self, facts, also)
        self.learn(facts)
        return found

    monkeypatch.setattr(SharedPaths, "remove", remove)


@pytest.mark.parametrize(
    "plant", [search_from_all_values, search_without_a_matrix, pair_all_members, know_own_edges_only, forget_nothing]
)
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    limits = replace(UNHURRIED, matrix_nodes=0) if plant is search_without_a_matrix else UNHURRIED
    with pytest.raises((AssertionError, InternalError, sempre.StateError)):
        check("dredc", range(561_000, 561_060), limits)


# --------------------------------------------------------------------------------------------- what is reported

CLOSED = """
.decl e(x: number, y: number)
.decl r(x: number, y: number)
.decl b(x: number)
r(x, y) :- e(x, y).
r(x, z) :- r(x, y), r(y, z).
"""


def test_reports_say_which_modules_took_part_and_why_others_did_not() -> None:
    edges = [(n, n + 1) for n in range(20)]
    with database_on_workers(parse(CLOSED, "closed.dl"), 3) as db:
        assert stratum_of_r(db.apply(insert={"e": edges}).report)["modules"] == ("tc(r)",)
        report = db.apply(delete={"e": [(4, 5)]}).report
        assert stratum_of_r(report)["modules"] == ("tc(r)",)
        assert len(db["r"]) == 4 * 5 // 2 + 16 * 15 // 2
        assert all(worker["rows"] for worker in report.workers)
    more = CLOSED + "r(y, x) :- r(x, y), b(x).\n"
    with database_on_workers(parse(more, "more.dl"), 3) as db:
        report = db.apply(insert={"e": edges}).report
        assert stratum_of_r(report)["modules"] == ()
        assert "tc(r) is left out: on workers one module must do all the recursion" in stratum_of_r(report)["why"]
    with on_workers(2) as options:
        small = sempre.limits.Limits(copied_rows=19)
        with sempre.Database(CLOSED, limits=small, **options) as db:
            why = stratum_of_r(db.apply(insert={"e": edges}).report)["why"]
            assert "tc(r) is left out: 20 edges are too many to copy to every worker" in why


def stratum_of_r(report: Any) -> dict[str, Any]:
    return next(each for each in report.strata if each["relations"] == ("r",))


def test_an_epoch_that_failed_leaves_what_workers_know_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges are changed in place: those of an epoch that did not happen are forgotten."""
    with database_on_workers(parse(CLOSED, "closed.dl"), 2) as db:
        db.apply(insert={"e": [(1, 2), (2, 3), (3, 4)]})
        assert len(db.whatif(delete={"e": [(2, 3)]}).removed["r"]) == 4
        with monkeypatch.context() as patch:
            patch.setattr("sempre.maintain.modular.Exchange.memory", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                db.apply(insert={"e": [(4, 5)]}, delete={"e": [(1, 2)]})
        assert set(db["r"]) == {(1, 2), (2, 3), (3, 4), (1, 3), (2, 4), (1, 4)}
        db.apply(delete={"e": [(2, 3)]})
        assert set(db["r"]) == {(1, 2), (3, 4)}
        assert db.verify().ok


def _interrupted(*args: object) -> None:
    raise KeyboardInterrupt
