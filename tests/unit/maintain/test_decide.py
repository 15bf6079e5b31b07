"""The one decision, by tables: what there is, what is known, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

import sempre
from sempre.api.options import Options, usable_modules
from sempre.explain.plan_text import decisions
from sempre.limits import DEFAULTS
from sempre.maintain.costs import MODULAR, Cost, History
from sempre.maintain.decide import (
    ChangeSize,
    Choices,
    Decision,
    ModuleSize,
    closes_alone,
    decide,
    paying_modules,
    placed,
    upkeep,
)
from sempre.maintain.registry import STRATEGIES
from sempre.modules.find import Modular, modularize
from sempre.plan.backend import CLUSTER, DRIVER, WORKERS

TEXT = """
.decl e(x: number, y: number)
.decl f(x: number, y: number)
.decl closed(x: number, y: number)
.decl mixed(x: number, y: number)
.decl plain(x: number)
.decl least(x: number, y: number)
.decl flat(x: number, y: number)
.decl next(x: number, y: number)
closed(x, y) :- e(x, y).
closed(x, z) :- closed(x, y), closed(y, z).
mixed(x, y) :- e(x, y).
mixed(x, z) :- mixed(x, y), mixed(y, z).
mixed(y, x) :- mixed(x, y), f(x, y).
plain(0).
plain(y) :- plain(x), e(x, y), !f(x, y).
least(x, min(y)) :- e(x, y).
flat(x, y) :- e(x, y), f(x, y).
next(x, y) :- e(x, _), e(y, _), x < y, !(e(z, _), x < z, z < y).
"""
TEN = ChangeSize(10, 9_999, "delete")
FORGETFUL = frozenset(name for name, strategy in STRATEGIES.items() if strategy.forgetful)


@pytest.fixture(scope="module")
def parts() -> Modular:
    return modularize(sempre.Program(TEXT).checked)


@dataclass(frozen=True)
class Known:
    """StratumSizes that are given."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    changed: ChangeSize = TEN

    def rows(self, relation: str) -> int:
        return self.sizes.get(relation, 0)

    def before(self, relation: str) -> int:
        return self.sizes.get(relation, 0)

    def change(self) -> ChangeSize:
        return self.changed


@dataclass(frozen=True)
class Tasks:
    reason: str = "splits by x"


def outcome(
    parts: Modular,
    relation: str,
    history: History | None = None,
    sizes: Known = Known(),  # noqa: B008  # immutable
    strategy: str = "auto",
    place: str | None = DRIVER,
    budget: int = 0,
    home: str | None = DRIVER,
    closes: bool = False,
    outgrown: str = "",
    follows: bool = False,
    workers: int = 0,
) -> Decision:
    (stratum,) = (stratum for stratum in parts.program.strata if relation in stratum.relations)
    one_pass = (lambda stratum, sizes: Tasks() if stratum.recursive else None) if closes else None
    modules = parts.modules.get(stratum.index, ())
    tries = (lambda stratum, change: True) if follows else None
    options = Choices(
        parts.program, strategy, place, budget, modules, one_pass, FORGETFUL, follows=tries, workers=workers
    )
    return decide(stratum, sizes, history, options, home, outgrown)


# ----------------------------------------------------------------------------------------------- the strategy


@pytest.mark.parametrize(
    ("relation", "wanted", "place", "strategy"),
    [
        ("plain", "auto", DRIVER, "auto"),
        ("plain", "elastic", DRIVER, "elastic"),
        ("plain", "auto", CLUSTER, "dredc"),
        ("plain", "bf", CLUSTER, "bf"),
        ("least", "auto", DRIVER, "dred"),
        ("least", "ranked", CLUSTER, "dred"),
        ("least", "recompute", DRIVER, "recompute"),
        ("next#e#0#0", "elastic", DRIVER, "seq"),
    ],
)
def test_the_strategy_of_a_first_run(parts: Modular, relation: str, wanted: str, place: str, strategy: str) -> None:
    relation = next(name for name in parts.program.relations if name.startswith(relation.split("#0#0")[0]))
    made = outcome(parts, relation, strategy=wanted, place=place, home=None)
    assert (made.place, made.strategy, made.update) == (place, strategy, False)


# ------------------------------------------------------------------------------------------------- the place

EDGE = 2 * 24  # the bytes of a pair


@pytest.mark.parametrize(
    ("rows", "budget", "home", "place", "why"),
    [
        (10, 1_000_000, None, DRIVER, ""),
        (1_000, 1_000, None, CLUSTER, "about 96,000 bytes, and the budget is 1,000"),
        (1_000, 96_000, DRIVER, DRIVER, ""),
        (1_000, 95_999, DRIVER, CLUSTER, "on the cluster"),
        (1_000, 96_000, CLUSTER, CLUSTER, "still on the cluster"),
        (1_000, 4 * 96_000, CLUSTER, DRIVER, ""),
    ],
)
def test_the_place_by_sizes(parts: Modular, rows: int, budget: int, home: str | None, place: str, why: str) -> None:
    sizes = Known({"e": rows, "f": rows})
    made = outcome(parts, "flat", History(1.0), sizes, place=None, budget=budget, home=home)
    assert made.place == place
    assert why in made.why
    assert made.update == (home == place)


def test_a_stratum_that_outgrows_the_driver_goes_to_the_cluster(parts: Modular) -> None:
    made = outcome(parts, "flat", place=None, budget=1_000_000, home=None, outgrown="too many rounds")
    assert (made.place, made.note) == (CLUSTER, "flat again on the cluster: too many rounds")


@pytest.mark.parametrize(
    ("needed", "workers", "home", "place"),
    [
        (100, 1_000, None, DRIVER),
        (101, 1_000, None, WORKERS),
        (1_000, 1_000, None, WORKERS),
        (1_001, 1_000, None, CLUSTER),
        (101, 0, None, CLUSTER),
        (100, 1_000, DRIVER, DRIVER),
        (101, 1_000, DRIVER, WORKERS),
        (26, 1_000, WORKERS, WORKERS),  # it stays until it needs a quarter of what the driver has
        (25, 1_000, WORKERS, DRIVER),
        (1_001, 1_000, WORKERS, CLUSTER),
        (251, 1_000, CLUSTER, CLUSTER),  # the same from one place to the one before
        (250, 1_000, CLUSTER, WORKERS),
        (25, 1_000, CLUSTER, DRIVER),
        (50, 1_000, CLUSTER, WORKERS),
        (25, 0, WORKERS, DRIVER),
        (26, 0, WORKERS, CLUSTER),
    ],
)
def test_workers_take_what_is_too_large_for_the_driver(needed: int, workers: int, home: str | None, place: str) -> None:
    found, why = placed("e", needed, 100, home, DEFAULTS, workers)
    assert found == place
    assert bool(why) == (place != DRIVER)
    assert ("workers" in why) == (place == WORKERS or (place == CLUSTER and needed > 100 and workers > 0))


def test_why_there_are_no_workers() -> None:
    _, why = placed("e", 200, 100, None, DEFAULTS, 0, "3 workers were asked for, and this session runs 2 tasks at once")
    assert why.endswith("no workers: 3 workers were asked for, and this session runs 2 tasks at once")


def test_a_stratum_that_outgrows_the_driver_goes_to_workers_and_then_to_the_cluster(parts: Modular) -> None:
    for workers, place, words in ((1_000_000, WORKERS, "workers"), (0, CLUSTER, "the cluster")):
        sizes = Known({"e": 10, "f": 10})
        made = outcome(parts, "flat", None, sizes, place=None, home=None, outgrown="too many rounds", workers=workers)
        assert (made.place, made.note) == (place, f"flat again on {words}: too many rounds")


def test_explicit_facts_go_by_the_same_bytes() -> None:
    assert placed("e", 100, 400, CLUSTER, DEFAULTS) == (DRIVER, "")
    assert placed("e", 101, 400, CLUSTER, DEFAULTS)[0] == CLUSTER


# --------------------------------------------------------------------------------------------------- one pass


@pytest.mark.parametrize(
    ("relation", "wanted", "home", "passes"),
    [
        ("plain", "auto", None, True),
        ("plain", "auto", CLUSTER, True),
        ("plain", "recompute", CLUSTER, True),
        ("plain", "dredc", None, True),
        ("plain", "dredc", CLUSTER, False),
        ("plain", "dredc", DRIVER, True),
        ("plain", "elastic", None, False),
        ("plain", "ranked", DRIVER, False),
        ("flat", "auto", CLUSTER, False),
    ],
)
def test_one_pass_where_nothing_that_is_remembered_is_lost(
    parts: Modular, relation: str, wanted: str, home: str | None, passes: bool
) -> None:
    made = outcome(parts, relation, strategy=wanted, place=CLUSTER, home=home, closes=True)
    assert (made.one_pass is not None) == passes
    assert ("inside of tasks: splits by x" in made.note) == passes
    assert not (made.update and passes)


@pytest.mark.parametrize(("rows", "strategy"), [(10, "recompute"), (DEFAULTS.one_pass_rows, "dredc")])
def test_few_rows_on_the_cluster_are_read_again(parts: Modular, rows: int, strategy: str) -> None:
    made = outcome(parts, "flat", sizes=Known({"e": rows, "f": 1}), place=CLUSTER, home=CLUSTER, closes=True)
    assert made.strategy == strategy
    assert made.update == (strategy == "dredc")
    assert (f"it reads {rows + 1:,} rows" in made.why) == (strategy == "recompute")


# ------------------------------------------------------------------------------------- to follow, or start again

SLOW = {"delete": (Cost(2.0, 10.0),)}
ONE = ChangeSize(1, 9, "delete")
FORTY = ChangeSize(40, 9_999, "delete")
QUICK = {"delete": (Cost(0.1, 100.0),)}
BULK = {"delete": (Cost(0.1, 1_000.0),)}
GROWING = {"insert": (Cost(1.0, 10.0),)}
UNPREPARED = History(1.0, preparing=0.5, unprepared=True)


@pytest.mark.parametrize(
    ("relation", "history", "change", "strategy", "why"),
    [
        ("plain", History(1.0), ChangeSize(10, 100, "insert"), "ranked", "it is not known what 10 rows (insert) cost"),
        (
            "plain",
            History(1.0),
            ChangeSize(1_001, 1_000, "insert"),
            "recompute",
            "1,001 rows and the stratum reads 1,000",
        ),
        ("plain", History(1.0), ChangeSize(1_000, 1_000, "insert"), "ranked", "not known"),
        ("plain", History(1.0), ChangeSize(1_001, 10_011, "insert"), "ranked", "not known"),
        ("plain", History(1.0), ChangeSize(2_999, 9_999, "insert"), "ranked", "not known"),
        (
            "plain",
            History(1.0),
            ChangeSize(3_001, 9_999, "insert"),
            "recompute",
            "3,001 rows and the stratum reads",
        ),
        (
            "plain",
            History(1.0),
            ChangeSize(1_001, 9_999, "delete"),
            "recompute",
            "1,001 rows and the stratum reads",
        ),
        ("plain", History(1.0), ChangeSize(1_001, 20_019, "delete"), "recompute", "and the stratum reads 20,019"),
        ("plain", History(1.0), ChangeSize(1_001, 20_021, "delete"), "ranked", "not known"),
        ("plain", History(1.0, BULK), ChangeSize(1_001, 20_019, "delete"), "ranked", "expected to take 0.100"),
        ("plain", History(1.0, GROWING), ChangeSize(1_000, 9_999, "insert"), "ranked", "as long as a run"),
        ("plain", History(1.0, GROWING), ChangeSize(25, 9_999, "insert"), "recompute", "expected to take 1.99 s"),
        (
            "plain",
            UNPREPARED,
            ChangeSize(101, 9_999, "delete"),
            "recompute",
            "101 rows (delete) would take 0.50",
        ),
        ("plain", UNPREPARED, ChangeSize(101, 9_999, "mixed"), "recompute", "maps for 101 rows"),
        ("plain", UNPREPARED, ChangeSize(100, 9_999, "delete"), "ranked", "not known"),
        ("plain", UNPREPARED, ChangeSize(101, 9_999, "insert"), "ranked", "not known"),
        ("plain", replace(UNPREPARED, preparing=0.09), ChangeSize(101, 9_999, "delete"), "ranked", "not known"),
        ("plain", replace(UNPREPARED, unprepared=False), ChangeSize(101, 9_999, "delete"), "ranked", "not known"),
        ("plain", replace(UNPREPARED, costs=QUICK), ChangeSize(101, 9_999, "delete"), "ranked", "expected to take 0.1"),
        (
            "plain",
            replace(UNPREPARED, costs={"delete": (Cost(0.71, 100.0),)}),
            ChangeSize(101, 9_999, "delete"),
            "recompute",
            "maps for 101 rows",
        ),
        ("plain", History(1.0, SLOW), TEN, "recompute", "expected to take 2.00 s, and a run"),
        ("plain", History(1.0, SLOW), ChangeSize(10, 9_999, "insert"), "ranked", "not known"),
        ("plain", History(1.0, {"delete": (Cost(0.7, 10.0, True),)}), TEN, "recompute", "expected to take 0.70 s"),
        ("plain", History(1.0, {"delete": (Cost(0.3, 10.0, True),)}), TEN, "ranked", "not known"),
        ("plain", History(1.8, SLOW), TEN, "ranked", "may take as long as a run"),
        ("plain", History(9.0, SLOW), TEN, "ranked", "expected to take 2.000 s"),
        ("plain", History(9.0, SLOW), FORTY, "ranked", "not known"),
        ("plain", History(4.0, SLOW), FORTY, "recompute", "expected to take 5.66 s"),
        ("plain", History(4.0, SLOW), ChangeSize(161, 9_999, "delete"), "ranked", "may take as long as a run"),
        ("plain", History(1.0, SLOW), ChangeSize(10, 9_999, "mixed"), "recompute", "expected to take 2.00 s"),
        ("plain", History(1.0, way="dredc"), ChangeSize(1, 9, "mixed"), "dredc", "1 rows (mixed)"),
        ("plain", History(forgotten=True), ONE, "recompute", "nothing is remembered of it"),
        ("plain", History(forgotten=True), ChangeSize(1, 9, "insert"), "ranked", "not known"),
        ("closed", History(forgotten=True, way="dredc"), ONE, "dredc", "not known"),
        ("mixed", History(forgotten=True, way="dredc"), ONE, "recompute", "nothing is remembered"),
        (
            "closed",
            History(1.0, way=MODULAR, certain=True),
            ChangeSize(9_999, 9, "delete"),
            "dredc",
            "does all the recursion",
        ),
        ("mixed", History(1.0, {}, {MODULAR: 0.5}, 0.9, MODULAR), ONE, "dredc", "not known"),
        ("mixed", History(1.0, {}, {MODULAR: 0.5}, 1.1, MODULAR), ONE, "recompute", "have taken 1.10 s"),
        ("mixed", History(1.0, {}, {MODULAR: 0.5, "ranked": 0.6}, 1.1, MODULAR), ONE, "dredc", ""),
        ("mixed", History(1.0, {}, {MODULAR: 0.5, "ranked": 0.4}, 0.1, MODULAR), ONE, "recompute", ""),
    ],
)
def test_auto_follows_a_change_or_starts_again(
    parts: Modular, relation: str, history: History, change: ChangeSize, strategy: str, why: str
) -> None:
    made = outcome(parts, relation, history, Known(changed=change))
    assert made.strategy == strategy
    assert why in made.why
    assert made.update
    assert ("recomputed" in made.note) == (strategy == "recompute")


@pytest.mark.parametrize(
    ("rows", "expected", "known"),
    [
        (1, 0.01, True),
        (10, 0.1, True),
        (29, 0.1 * 2.9**0.75, True),  # like ten
        (100, 0.1 * 10**0.75, True),  # not more than what follows says
        (300, 0.1 * 30**0.75, True),
        (900, 1.8, True),  # like a thousand
        (16_000, 16.0, False),
    ],
)
def test_changes_of_other_sizes_have_costs_of_their_own(rows: int, expected: float, known: bool) -> None:
    learned = History().learned("delete", 0.1, 10).learned("delete", 2.0, 1_000)
    assert [cost.rows for cost in learned.costs["delete"]] == [10, 1_000]
    seconds, surely = learned.expected("delete", rows, DEFAULTS.similar_share)
    assert seconds == pytest.approx(expected)
    assert surely == known
    assert learned.expected("insert", rows, DEFAULTS.similar_share) == (None, False)
    again = learned.learned("delete", 0.3, 20)
    assert [cost.rows for cost in again.costs["delete"]] == [15, 1_000]
    assert again.costs["delete"][0].seconds == pytest.approx(0.2)
    assert again.learned("delete", 4.0, 1_000).costs["delete"][1] == Cost(3.0, 1_000.0)


def test_changes_in_bulk_have_no_say_in_what_is_done_from_then_on(parts: Modular) -> None:
    few, many = (ChangeSize(rows, 9_999, "delete") for rows in (299, 301))
    for change, recent in ((few, (("delete", 299),)), (many, ())):
        made = outcome(parts, "plain", History(1.0), Known(changed=change))
        assert made.history is not None
        assert made.history.recent == recent


def test_what_keeps_an_update_from_being_tried_fades(parts: Modular) -> None:
    history, tried = History(1.0, SLOW), []
    for _ in range(4):
        made = outcome(parts, "plain", history)
        assert made.history is not None
        history = made.history
        tried.append(made.strategy)
    assert tried == ["recompute", "recompute", "ranked", "ranked"]


def test_maps_that_keep_an_update_from_being_tried_fade_too(parts: Modular) -> None:
    history, tried = UNPREPARED, []
    for _ in range(6):
        made = outcome(parts, "plain", history, Known(changed=ChangeSize(500, 9_999, "delete")))
        assert made.history is not None
        history = made.history
        tried.append(made.strategy)
    assert tried == ["recompute"] + ["ranked"] * 5


def test_an_update_that_is_known_to_take_long_may_take_that(parts: Modular) -> None:
    assert outcome(parts, "plain", History(9.0, SLOW)).seconds == pytest.approx(2.6)
    assert outcome(parts, "plain", History(3.0, SLOW)).seconds == pytest.approx(2.4)
    assert outcome(parts, "plain", History(9.0)).seconds == 0


def test_modules_that_cost_more_do_not_take_part_in_the_next_run(parts: Modular) -> None:
    dear = History(1.0, {}, {MODULAR: 0.5, "ranked": 0.4}, 0.1, MODULAR)
    assert outcome(parts, "mixed", dear).modules == ()
    assert outcome(parts, "mixed", home=None).modules != ()


# ---------------------------------------------------------------------------------------- modules and upkeep


@pytest.mark.parametrize(
    ("relation", "size", "paying", "why"),
    [
        ("closed", None, True, ""),
        ("closed", ModuleSize(1 << 40, 1 << 40, 0), True, ""),
        ("mixed", None, True, ""),
        ("mixed", ModuleSize(1 << 10, 1 << 21, 0), True, ""),
        ("mixed", ModuleSize(1 << 10, (1 << 21) + 1, 0), False, "tc(mixed) is left out: every round"),
    ],
)
def test_modules_pay_by_what_they_start_from(
    parts: Modular, relation: str, size: ModuleSize | None, paying: bool, why: str
) -> None:
    (stratum,) = (stratum for stratum in parts.program.strata if relation in stratum.relations)
    modules = parts.modules[stratum.index]
    found, said = paying_modules(stratum, modules, lambda module: size, DEFAULTS)
    assert found == (modules if paying else ())
    assert said.startswith(why)
    assert closes_alone(stratum, modules) == (relation == "closed")


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (ModuleSize(100, 640, 10), ""),
        (ModuleSize(100, 641, 10), "it is asked for 10 of 641 values"),
        (ModuleSize(100, 1 << 30, 1 << 30), "a matrix of"),
    ],
)
def test_paths_from_few_sources_do_not_pay(size: ModuleSize, why: str) -> None:
    text = (
        ".decl e(x: number, y: number) .decl r(x: number, y: number) r(x, y) :- e(x, y). r(x, z) :- r(x, y), e(y, z)."
    )
    parts = modularize(sempre.Program(text).checked)
    ((index, modules),) = parts.modules.items()
    found, said = paying_modules(parts.program.strata[index], modules, lambda module: size, DEFAULTS)
    assert bool(found) == (not why)
    assert why in said


@pytest.mark.parametrize(
    ("modular", "walked", "rounds", "strategy"),
    [(False, False, 100, "ranked"), (False, False, 101, "dredc"), (False, True, 4, "dredc"), (True, False, 4, "dredc")],
)
def test_what_a_run_shows_decides_how_it_is_kept(modular: bool, walked: bool, rounds: int, strategy: str) -> None:
    assert upkeep(modular, walked, rounds, DEFAULTS)[0] == strategy


@pytest.mark.parametrize(
    ("modules", "active", "place", "kinds"),
    [
        ("auto", True, "auto", set()),
        ("off", False, "auto", set()),
        ("tc,seq", False, "auto", {"tc", "seq"}),
        ("tc,seq", False, "cluster", {"seq"}),
    ],
)
def test_the_kinds_of_modules_that_serve(modules: str, active: bool, place: str, kinds: set[str]) -> None:
    assert usable_modules(Options("auto", modules, place, None, None), active).kinds == kinds


# ---------------------------------------------------------------------------------------------------- reports


def test_the_report_of_every_epoch_has_the_reasons() -> None:
    with sempre.Database(sempre.Program(TEXT)) as db:
        first = db.materialise({"e": [(n, n + 1) for n in range(9)], "f": [(3, 4)]}).report
        later = db.apply(delete={"e": [(7, 8)]}).report
    at = {stratum["relations"]: stratum for stratum in first.strata}
    assert at["closed",]["modules"] == ("tc(closed)",)
    assert at["closed",]["why"] == f"from now on by {MODULAR}: modules take part"
    assert at["plain",]["why"].startswith("from now on by ")
    assert first.why == "first materialization"
    at = {stratum["relations"]: stratum for stratum in later.strata}
    assert at["closed",]["why"] == f"{MODULAR}: one module does all the recursion"
    assert at["closed",]["modules"] == ("tc(closed)",)
    assert "it is not known what 1 rows (delete) cost, and a run from scratch takes" in at["plain",]["why"]


def test_before_there_is_data_it_says_what_the_rules_decide(parts: Modular) -> None:
    said = dict(line.split(": kept ", 1) for line in decisions(parts).splitlines())
    assert said == {
        "closed": "by dredc with tc(closed), which can do all the recursion",
        "mixed": "by dredc with tc(mixed), or by ranked without, whichever costs less",
        "plain": "by ranked, or by dredc if it takes more than 100 rounds",
        "least": "by dred, since it aggregates",
        "flat": "by ranked, or by dredc if it takes more than 100 rounds",
        "neighbors in e": "sorted",
        "next": "by ranked, or by dredc if it takes more than 100 rounds",
    }


# ------------------------------------------------------------------------- small changes on the cluster, without jobs


@pytest.mark.parametrize(
    ("relation", "wanted", "rows", "home", "by"),
    [
        ("plain", "auto", 10, CLUSTER, "bf"),
        ("plain", "bf", 10, CLUSTER, "bf"),
        ("plain", "dred", 10, CLUSTER, "dred"),
        ("least", "auto", 10, CLUSTER, "dred"),
        ("least", "ranked", 10, CLUSTER, "dred"),
        ("plain", "auto", DEFAULTS.followed_rows, CLUSTER, "bf"),
        ("plain", "auto", DEFAULTS.followed_rows + 1, CLUSTER, None),
        ("plain", "auto", 10, None, None),
        ("plain", "auto", 10, DRIVER, None),
        ("plain", "dredc", 10, CLUSTER, None),
        ("plain", "recompute", 10, CLUSTER, None),
        ("least", "recompute", 10, CLUSTER, None),
        ("next", "auto", 10, CLUSTER, None),
    ],
)
def test_which_changes_are_followed_in_the_driver(
    parts: Modular, relation: str, wanted: str, rows: int, home: str | None, by: str | None
) -> None:
    names = [name for stratum in parts.program.strata for name in stratum.relations]
    if relation == "next":  # its neighbors, which are sorted
        relation = next(name for name in names if name.startswith("next#"))
    sizes = Known({"e": 10_000}, ChangeSize(rows, 10_000, "delete"))
    for closes in (False, True):
        made = outcome(parts, relation, None, sizes, wanted, CLUSTER, home=home, closes=closes, follows=True)
        assert (made.strategy if made.followed else None) == by
        assert not made.followed or (made.update and made.one_pass is None and made.change == sizes.changed)
        assert not outcome(parts, relation, None, sizes, wanted, CLUSTER, home=home, closes=closes).followed
