"""Small changes on the cluster, followed by lookups in files, are what the oracle says; without Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from sempre.limits import Limits
from sempre.spark.cluster import near, pages, tables
from sempre.spark.cluster.near import Far, Near
from sempre.spark.cluster.pages import Wanted
from tests.budget import seeds
from tests.engine import UNHURRIED, check_epochs
from tests.property.near import NoSession, no_spark
from tests.property.programs import random_case

CASES = 10
STRATEGIES = ("auto", "bf", "dred")


# As with large data: everything is in files of several groups, and nothing is read as a whole.
SMALL = replace(UNHURRIED, fetched_whole=0, driver_rows=3, page_rows=4)


def check(seed: int, strategy: str, limits: Limits = SMALL) -> None:
    case = random_case(random.Random(seed))
    epochs = [(case.facts, {}), *case.updates]
    check_epochs(case.program, epochs, strategy, limits=limits, spark=NoSession(), place="cluster")


def check_many(seeds: Iterable[int]) -> None:
    for seed in seeds:
        check(seed, "auto")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_updates_are_followed_as_the_oracle_says(strategy: str) -> None:
    with no_spark() as seen:
        for seed in range(CASES):
            check(seed, strategy)
    assert seen.followed > CASES


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_more_random_updates(strategy: str) -> None:
    with no_spark():
        for seed in seeds(1_000, 40):
            check(seed, strategy)


def test_what_is_given_up_is_done_by_jobs() -> None:
    """Every other reason to give up, and both ways in one epoch."""
    out_of_time = replace(SMALL, followed_moment=0.0, followed_share=0.0)
    for limits in (replace(SMALL, followed_facts=2), replace(SMALL, followed_rows=1), out_of_time):
        with no_spark() as seen:
            for seed in range(4):
                check(seed, "auto", limits)
        assert seen.jobs > 4 or seen.followed
    with no_spark() as seen:
        for seed in range(6):
            check(seed, "auto", replace(SMALL, searched_rows=8, bound_rows=2))
    assert seen.followed
    assert seen.jobs


# ------------------------------------------------------------------------------------------------ the tests bite


def _forgets_what_is_gone(self: Near, columns: Any, keys: Any, size: int) -> Any:
    self.here = self.here.indexed((near.beginning(columns, len(self.here.fields)),))
    mine = near.selected(self.here, columns, near._distinct(keys, size)[0])
    return mine if self.far is None else near.union((mine, self.far.matching(columns, keys, size)))


def _reads_gone(self: Far, wanted: Any) -> Any:
    like = self.version.like
    coder = self._backend.coder
    parts = [coder.rows(part.matching(wanted, lambda: None), like.kinds, like.arity) for part, _ in self.version.parts]
    return near.union([self._empty.rows(), *parts])


def _prunes_the_greatest(self: Wanted, lows: Any, highs: Any) -> Any:
    return [values_within(self, low, high) for low, high in zip(lows, highs, strict=True)]


def values_within(self: Wanted, low: Any, high: Any) -> bool:
    return any(low <= value < high or low == high == value for value in self.values.to_pylist())


def _keeps_what_was_removed(part: Any, gone: Any, rows: Any) -> Any:
    return [(part, gone)]


DEFECTS: list[tuple[str, Callable[[], Any]]] = [
    ("rows that went in this update are found", lambda: mock.patch.object(Near, "matching", _forgets_what_is_gone)),
    ("rows that went before are found", lambda: mock.patch.object(Far, "_read", _reads_gone)),
    (
        "the greatest value of a group is not looked for",
        lambda: mock.patch.object(Wanted, "within", _prunes_the_greatest),
    ),
    ("a sketch says no too often", lambda: mock.patch.object(pages, "may_have", lambda bits, numbers: bits[0] & 1)),
    ("what is removed stays", lambda: mock.patch.object(tables, "_left", _keeps_what_was_removed)),
    ("a row that was fetched is lost", lambda: mock.patch.object(near, "among", _one_less)),
]


def _one_less(columns: Any, size: int, keys: Any) -> Any:
    found = AMONG(columns, size, keys)
    if found.sum() > 1:
        found[found.argmax()] = False
    return found


AMONG = near.among


@pytest.mark.parametrize(("what", "plant"), DEFECTS, ids=[what for what, _ in DEFECTS])
def test_planted_defects_are_found(what: str, plant: Callable[[], Any]) -> None:
    with no_spark(), plant(), pytest.raises((AssertionError, ValueError, IndexError)):
        check_many(range(40))
