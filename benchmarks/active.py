"""Active rules: what an update costs that arrives when the run is over, or in the middle of it.

    python benchmarks/active.py [--lines 19000] [--length 47] [--workers 1,2] [--json FILE]

A network of lines along which faults spread: 20 rules that add and delete (programs/watch.dl), about a million facts,
about fifty cycles. Then ten facts change, with fewer than a thousand records of consequences; and ten facts that are
told late, for cycle 50. Everything is checked against a run on the changed facts.

With `--workers` the run is done once more by so many asynchronous workers, processes of this machine: its time to the
last message, the processor time of each worker, and the time that collecting the chains takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import sempre
from sempre.active.active_engine import ActiveEngine
from sempre.active.cycle_process import MODULE
from sempre.active.hired_run import HiredRun
from sempre.api import peak_rss
from sempre.limits import DEFAULTS
from sempre.workers.start import processes

LATE_CYCLE = 50
PROGRAM = Path(__file__).parent / "programs" / "watch.dl"


def network(lines: int, length: int) -> dict[str, pa.Table]:
    """Lines of `length` nodes each with a fault at its beginning; every tenth node has a crew, some a spare part."""
    nodes = np.arange(lines * (length + 1)).reshape(lines, length + 1)
    every = nodes.ravel()
    served, spare = every[::10], every[::70]
    return {
        "hop": pa.table({"x": nodes[:, :-1].ravel(), "y": nodes[:, 1:].ravel()}),
        "fault": pa.table({"x": nodes[:, 0]}),
        "muted": pa.table({"x": nodes[::97, length // 2]}),
        "crew": pa.table({"x": served, "c": served % 1000}),
        "spare": pa.table({"x": spare}),
    }


def change(lines: int, length: int, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ten facts near the ends of ten lines: five nodes muted, five hops gone."""
    nodes = np.arange(lines * (length + 1)).reshape(lines, length + 1)
    chosen = nodes[1 + 10 * number : 11 + 10 * number]
    muted = chosen[:5, length - 4]
    return {"muted": [(int(x),) for x in muted]}, {
        "hop": [(int(r[length - 5]), int(r[length - 4])) for r in chosen[5:]]
    }


def late_change(lines: int, length: int) -> dict[str, Any]:
    """Ten facts in the middle of ten lines: five alarms that ring again, five tickets that are gone."""
    nodes = np.arange(lines * (length + 1)).reshape(lines, length + 1)
    chosen = nodes[-10:]
    tickets = chosen[5:, : length // 2].ravel()
    tickets = tickets[(tickets % 10 == 0) & (tickets % 70 != 0)][:5]
    return {
        "insert": {"ringing": [(int(x),) for x in chosen[:5, length // 2]]},
        "delete": {"ticket": [(int(x), int(x) % 1000) for x in tickets]},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=19_000)
    parser.add_argument("--length", type=int, default=47)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--workers", type=lambda text: [int(part) for part in text.split(",")], default=[])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tables = network(options.lines, options.length)
    found: dict[str, Any] = {"facts": sum(table.num_rows for table in tables.values())}
    program = sempre.Program.from_file(PROGRAM)
    found["rules"] = len(program.checked.rules)
    with sempre.Database(program) as db:
        started, cpu = time.perf_counter(), time.process_time()
        db.materialise(tables)
        found["run_seconds"] = time.perf_counter() - started
        found["run_cpu_seconds"] = time.process_time() - cpu
        found["cycles"] = db.cycle
        assert isinstance(db._engine, ActiveEngine)
        timeline = db._engine.timeline
        found["records"] = timeline.records
        found["bytes_per_million_records"] = int(timeline.nbytes / timeline.records * 1e6)
        found["derived_facts"] = sum(len(db[name]) for name in db) - found["facts"]
        seconds, cpu_seconds, touched = [], [], []
        for number in range(options.updates):
            insert, delete = change(options.lines, options.length, number)
            started, cpu = time.perf_counter(), time.process_time()
            changes = db.apply(insert=insert, delete=delete)
            seconds.append(time.perf_counter() - started)
            cpu_seconds.append(time.process_time() - cpu)
            touched.append(changes.report.why)
        found["update_seconds"] = seconds
        found["update_cpu_seconds"] = cpu_seconds
        found["updates"] = touched
        found["first_share"] = seconds[0] / found["run_seconds"]
        found["median_share"] = statistics.median(seconds) / found["run_seconds"]
        found["median_cpu_share"] = statistics.median(cpu_seconds) / found["run_cpu_seconds"]
        started, cpu = time.perf_counter(), time.process_time()
        late = db.apply(**late_change(options.lines, options.length), cycle=LATE_CYCLE)
        found["late_seconds"], found["late_cpu_seconds"] = time.perf_counter() - started, time.process_time() - cpu
        found["late"] = late.report.why
        found["late_share"] = found["late_seconds"] / found["run_seconds"]
        found["late_cpu_share"] = found["late_cpu_seconds"] / found["run_cpu_seconds"]
        found["interrupt_seconds"] = interrupted(program, tables, options)
        found["ok"] = db.verify().ok
        found["peak_rss"] = peak_rss()
    found["workers"] = {count: on_workers(program, tables, count) for count in options.workers}
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    return 0 if found["ok"] else 1


def on_workers(program: sempre.Program, tables: dict[str, pa.Table], count: int) -> dict[str, Any]:
    """The run on workers that are there already."""
    with sempre.Database(program) as db:
        rows, _ = db._rows(db._intake.take(tables), db._intake.take({}))
        crew = processes(db._engine.program, count, db._backend.values, DEFAULTS, MODULE)
        try:
            run = HiredRun(crew, db._backend, 10_000)
            run.run({}, {})  # whatever is loaded once is loaded
            before = [each["processor"] for each, _ in crew.ask("report")]
            started = time.perf_counter()
            run.run(rows, {})
            seconds = time.perf_counter() - started
            after = [each["processor"] for each, _ in crew.ask("report")]
            started = time.perf_counter()
            records = run.timeline({}).records
            return {
                "run_seconds": seconds,
                "processor_seconds": [round(y - x, 3) for x, y in zip(before, after, strict=True)],
                "collect_seconds": time.perf_counter() - started,
                "records": records,
            }
        finally:
            crew.close()


def interrupted(program: sempre.Program, tables: dict[str, pa.Table], options: argparse.Namespace) -> float:
    """How long a change takes that is absorbed half way."""
    spent: list[float] = []
    with sempre.Database(program) as db:
        insert, delete = change(options.lines, options.length, 0)
        last = time.perf_counter()

        def watch(cycle: sempre.CycleChanges) -> None:
            nonlocal last
            now = time.perf_counter()
            if 0 < cycle.absorbed < 100:
                spent.append(now - last)
            elif cycle.number == options.length // 2:
                db.interrupt(insert=insert, delete=delete)
                now = time.perf_counter()
            last = now

        db.start(insert=tables, watch=watch)
        db.wait()
    return spent[0]


if __name__ == "__main__":
    sys.exit(main())
