"""Walks over rows of several workers give what rounds give, counters included."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from sempre.backends import walk_code
from sempre.diagnostics import InternalError
from sempre.kernel import compiled
from sempre.lang.parser import parse
from sempre.workers import walks
from sempre.workers.mesh import Parcel
from sempre.workers.placing import split
from tests.engine import UNHURRIED, check_epochs
from tests.inside import engine_of
from tests.property.programs import random_case
from tests.workers import database_on_workers, on_workers

pytestmark = pytest.mark.oracle
# All walk from the first round on, and nothing is everywhere unless a test says so.
WALKING = replace(UNHURRIED, walk_after=0, everywhere_rows=0)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each walk that a worker was asked for, whether it was made."""
    compiled.load(wait=True)
    made: list[bool] = []
    original = walk_code.walk

    def noting(*args: Any) -> Any:
        found = original(*args)
        made.append(found is not None)
        return found

    monkeypatch.setattr(walks, "walk", noting)
    return made


def check(strategy: str, seeds: Iterable[int], limits: Any = WALKING) -> None:
    for seed in seeds:
        case = random_case(random.Random(seed))
        with on_workers(1 + seed % 4) as options:
            check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, limits=limits, **options)


@pytest.mark.parametrize(("strategy", "first"), [("recompute", 560_000), ("dredc", 560_100), ("auto", 560_200)])
def test_walks_agree_with_the_oracle(strategy: str, first: int, walked: list[bool]) -> None:
    check(strategy, range(first, first + 4))
    check(strategy, range(first + 50, first + 51), replace(WALKING, everywhere_rows=UNHURRIED.everywhere_rows))
    check(strategy, range(first + 60, first + 62), replace(WALKING, split_rows=2))
    assert sum(walked) > 5, "too few walks to say anything"


CHAIN = """
.decl next(x: number, y: number)
.decl hidden(x: number)
.decl seen(x: number, y: number)
seen(x, y) :- next(x, y), !next(_, x).
seen(x, z) :- seen(x, y), next(y, z), !hidden(z).
"""
LENGTH = 60


def chain(workers: int | None, strategy: str = "auto") -> tuple[list[list[tuple[Any, ...]]], int, dict[str, str]]:
    """The relation after each of some updates, how many instances there were, and how strata were kept."""
    found = []
    limits = replace(UNHURRIED, everywhere_rows=0, walk_facts=1 << 20)
    with database_on_workers(parse(CHAIN), workers, strategy=strategy, limits=limits) as db:
        report = db.apply(insert={"next": [(n, n + 1) for n in range(LENGTH)], "hidden": [(50,)]}).report
        how = {each["relations"][0]: each["strategy"] for each in report.strata}
        found.append(sorted(db["seen"]))
        for insert, delete in (({}, {"hidden": [(50,)]}), ({"next": [(-1, 0)]}, {"next": [(40, 41)]})):
            db.apply(insert=insert, delete=delete)
            found.append(sorted(db["seen"]))
        assert db.verify().ok
        return found, sum(backend.instances for backend in engine_of(db).places.backends.values()), how


def test_a_chain_is_followed_by_one_worker(walked: list[bool]) -> None:
    """With as many instances as in the driver, and by counters from then on, since there are no rounds to rank by."""
    wanted, _, _ = chain(None)
    for workers in (1, 3):
        walked.clear()
        found, _, how = chain(workers)
        assert found == wanted
        assert how["seen"] == "dredc"
        assert any(walked)


def test_every_instance_of_a_walk_is_counted_once(walked: list[bool]) -> None:
    instances = [chain(workers, "dredc")[1] for workers in (None, 1, 3)]
    assert len(set(instances)) == 1
    assert any(walked)


def test_what_is_too_much_for_one_worker_is_followed_by_rounds(walked: list[bool]) -> None:
    check("recompute", range(560_300, 560_302), replace(WALKING, gathered_rows=0))
    assert not walked


def test_a_worker_without_the_walker_goes_on_by_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks.Walks, "_is_ready", lambda self: False)
    check("dredc", range(560_310, 560_312))


# --------------------------------------------------------------------------------------------- planted defects


def see_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first worker walks with what is at home with it."""
    original = walks.Walks._brought

    def brought(self: walks.Walks, sent: Any) -> Any:
        return original(self, [(name, [c[:0] if self._mesh.me else c for c in columns]) for name, columns in sent])

    monkeypatch.setattr(walks.Walks, "_brought", brought)


def keep_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was brought once is taken for what a later version has."""
    monkeypatch.setattr(walks, "_content", lambda view: (view.parts[0][0].relation,))


def keep_at_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found stays with the worker that found it."""

    def homeward(self: walks.Walks, sent: Any) -> Any:
        return Parcel(split(sent[1], None, self._mesh.size))

    monkeypatch.setattr(walks.Walks, "_homeward", homeward)


@pytest.mark.parametrize("defect", [see_own_rows, keep_for_ever, keep_at_the_first])
def test_a_planted_defect_is_found(defect: Any, walked: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    defect(monkeypatch)
    with pytest.raises((AssertionError, InternalError)):
        check("dredc", range(560_400, 560_460))
