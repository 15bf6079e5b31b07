"""The place `workers` as a database has it, and which sessions have room for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import sempre
from sempre.diagnostics import BackendError, DataError
from sempre.spark.hired import ENCRYPTION, checked_count, slots_of
from sempre.workers.handles import RemoteVersion
from tests.engine import STRATEGIES, check_epochs
from tests.scripts.script import read
from tests.workers import on_workers

SCRIPTS = sorted((Path(__file__).parents[2] / "scripts").glob("*.dl"))

REACH = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
.decl ends(x: symbol)
.output reach
.output ends
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
ends(y) :- edge(_, y), !edge(y, _).
"""


def session(**settings: str) -> Any:
    """A session that says nothing but its settings."""
    found = {name.replace("_", "."): value for name, value in settings.items()}
    return SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: found.get(name, default)))


def test_facts_are_in_the_driver_and_results_on_workers() -> None:
    with on_workers(2) as options, sempre.Database(REACH, **options) as db:
        report = db.apply(insert={"edge": [("a", "b"), ("b", "c")]}).report
        assert {each["relations"][0]: each["placement"] for each in report.strata} == {
            "edge": "driver",
            "reach": "workers",
            "ends": "workers",
        }
        assert ("a", "c") in db["reach"]
        assert ("c", "a") not in db["reach"]
        assert ("z", "a") not in db["reach"]
        assert sorted(db.query('reach("a", X)').column(0).to_pylist()) == ["b", "c"]
        whatif = db.whatif(delete={"edge": [("b", "c")]})
        assert sorted(map(tuple, whatif.removed["reach"].to_pandas().to_numpy())) == [("a", "c"), ("b", "c")]
        assert sorted(db["ends"]) == [("c",)]
        assert db.verify().ok


def test_reports_say_what_each_worker_did() -> None:
    edges = [(f"{i}", f"{i + 1}") for i in range(40)]
    with on_workers(3) as options, sempre.Database(REACH, **options) as db:
        first = db.apply(insert={"edge": edges}).report
        assert sum(worker["instances"] for worker in first.workers) == first.instances
        assert sum(worker["rows_sent"] for worker in first.workers) > 0
        held = sum(worker["rows"] for worker in first.workers)
        assert held >= 820 + 40  # the closure, and the edges, at least once
        assert first.skew == round(max(worker["rows"] for worker in first.workers) * 3 / held, 3) >= 1
        second = db.apply(delete={"edge": edges[20:21]}).report
        assert len(second.workers) == 3
        assert sum(worker["instances"] for worker in second.workers) == second.instances > 0
        assert second.to_json()["workers"] == list(second.workers)
        third = db.apply(insert={"edge": []}).report
        assert (third.workers, third.skew) == ((), 0.0)
    with sempre.Database(REACH) as db:
        report = db.apply(insert={"edge": edges}).report
        assert (report.workers, report.skew) == ((), 0.0)


def test_what_was_brought_keeps_its_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch that changes little indexes little."""
    edges = [(f"{i}", f"{i + 1}") for i in range(40)]
    indexed: list[int] = []
    original = RemoteVersion.indexed

    def counted(self: RemoteVersion, orders: Any) -> RemoteVersion:
        found = original(self, orders)
        if found is not self:
            indexed.append(len(found))
        return found

    monkeypatch.setattr(RemoteVersion, "indexed", counted)
    with on_workers(2) as options, sempre.Database(REACH, modules="off", **options) as db:
        db.apply(insert={"edge": edges})
        db.apply(delete={"edge": edges[20:21]})
        assert max(indexed) >= 40
        indexed.clear()
        db.apply(insert={"edge": edges[20:21]})
        db.apply(delete={"edge": edges[3:4]})
        assert max(indexed, default=0) < 40
        assert db.verify().ok


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda path: path.stem)
def test_scripts(file: Path) -> None:
    """Every script on one to three workers; each strategy has some of them."""
    number = sum(map(ord, file.stem))
    script = read(file.read_text("utf-8"), file.name)
    with on_workers(1 + number % 3) as options:
        check_epochs(script.program, script.epochs, STRATEGIES[number % len(STRATEGIES)], **options)


def test_another_number_of_workers_in_every_epoch(tmp_path: Path) -> None:
    store, wanted = tmp_path / "store", set()
    for number in range(1, 7):
        with on_workers(1 + number % 4) as options, sempre.Database(REACH, store=store, **options) as db:
            wanted.add((f"{number}", f"{number + 1}"))
            db.apply(insert={"edge": [*wanted]})
            if number % 3 == 0:
                wanted.discard((f"{number - 1}", f"{number}"))
                db.apply(delete={"edge": [(f"{number - 1}", f"{number}")]})
            assert {*db["edge"]} == wanted
            assert {*db["reach"]} == closed(wanted)
            assert db.verify().ok


def closed(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    found = set(edges)
    while more := {(x, z) for x, y in found for w, z in edges if y == w} - found:
        found |= more
    return found


def test_a_store_that_workers_wrote_is_read_by_anybody(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with on_workers(2) as options:
        with sempre.Database(REACH, store=store, **options) as db:
            db.apply(insert={"edge": [("a", "b"), ("b", "c"), ("c", "d")]})
            db.apply(delete={"edge": [("b", "c")]})
        with sempre.Database.open(store) as db:
            assert sorted(db["reach"]) == [("a", "b"), ("c", "d")]
            assert db.verify().ok
            db.apply(insert={"edge": [("b", "c")]})
        with sempre.Database.open(store, **options) as db:
            assert len(db["reach"]) == 6
            db.apply(delete={"edge": [("a", "b")]})
            assert sorted(db["reach"]) == [("b", "c"), ("b", "d"), ("c", "d")]
            assert db.verify().ok
    with sempre.Database.open(store) as db:
        assert sorted(db["reach"]) == [("b", "c"), ("b", "d"), ("c", "d")]
        assert db.verify().ok


def test_an_error_of_a_rule_leaves_the_last_epoch() -> None:
    program = ".decl n(x: number)\n.decl q(x: number)\n.output q\nq(12 / x) :- n(x).\n"
    with on_workers(3) as options, sempre.Database(program, **options) as db:
        db.apply(insert={"n": [1, 2]})
        with pytest.raises(DataError, match="12 / 0 has no value"):
            db.apply(insert={"n": [0, 3]})
        assert sorted(db["q"]) == [(6,), (12,)]
        db.apply(insert={"n": [4]})
        assert sorted(db["q"]) == [(3,), (6,), (12,)]


def test_closed_workers_say_so() -> None:
    with on_workers(2) as options, sempre.Database(REACH, **options) as db:
        db.apply(insert={"edge": [("a", "b")]})
        workers = db._workers
    assert workers is not None
    with pytest.raises(BackendError, match="E740"):
        workers.report()


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"spark_master": "local"}, 1),
        ({"spark_master": "local[3]"}, 3),
        ({"spark_master": "local[4,2]"}, 4),
        ({"spark_master": "local[4]", "spark_task_cpus": "2"}, 2),
        ({"spark_master": "local-cluster[2,3,1024]"}, 6),
        ({"spark_master": "yarn", "spark_executor_instances": "4", "spark_executor_cores": "2"}, 8),
        ({"spark_master": "spark://h:7077", "spark_cores_max": "5"}, 5),
        ({"spark_master": "yarn"}, None),
        ({}, None),
    ],
)
def test_how_many_tasks_run_at_once(settings: dict[str, str], slots: int | None) -> None:
    assert slots_of(session(**settings)) == slots


@pytest.mark.parametrize(
    ("settings", "workers", "code"),
    [
        ({"spark_master": "local[2]", "spark_dynamicAllocation_enabled": "true"}, 1, "E742"),
        *(({"spark_master": "local[2]", name.replace(".", "_"): "True"}, 1, f"E743.*{name}") for name in ENCRYPTION),
        ({"spark_master": "local[2]"}, 3, "E744"),
        ({"spark_master": "yarn"}, None, "E744"),
    ],
)
def test_sessions_without_room_for_workers(settings: dict[str, str], workers: int | None, code: str) -> None:
    with pytest.raises(BackendError, match=code):
        checked_count(session(**settings), workers)


def test_by_default_all_slots_are_used() -> None:
    assert checked_count(session(spark_master="local[3]"), None) == 3
    assert checked_count(session(spark_master="local[3]"), 2) == 2
    assert checked_count(session(spark_master="yarn"), 7) == 7


def test_reports_say_what_places_were_expected_to_cost() -> None:
    """Where there is a choice: from what the stratum took there before."""
    edges = [(f"{i}", f"{i + 1}") for i in range(40)]
    with on_workers(2) as options, sempre.Database(REACH, **options) as db:
        db._engine.places._fixed = None  # as with `auto`
        empty = of_reach(db.materialise().report)
        assert [(each["place"], each["bytes"], each["seconds"]) for each in empty["expected"]] == [
            ("driver", 0, None),
            ("workers", 0, None),
        ]
        first = of_reach(db.apply(insert={"edge": edges}).report)
        assert first["expected"][0]["bytes"] > 40 * 2 * 24
        second = of_reach(db.apply(insert={"edge": [("x", "y")]}).report)
        third = db.apply(insert={"edge": [("y", "z")]}).report
        expected = [each["expected"][0]["seconds"] for each in (first, second, of_reach(third))]
        assert all(expected)
        assert len(set(expected)) > 1
        assert "expected: driver: " in third.to_html()
    with sempre.Database(REACH) as db:
        assert "expected" not in of_reach(db.apply(insert={"edge": edges}).report), "there is no choice"


def of_reach(report: sempre.Report) -> dict[str, Any]:
    return next(each for each in report.strata if each["relations"] == ("reach",))
