"""What workers cost and save: runs from scratch and small updates, on processes of this machine, without Spark.

python benchmarks/workers.py [NAME ...] [--workers N ...] [--updates N] [--modules WHICH] [--shared FOLDER]

Names: el text andersen andersen10 closure. 0 workers are the driver, with as many threads as --threads says.
Each line is a process of its own: seconds of the first epoch, processor time of the driver and of all workers, the
most memory that one worker held, rows and bytes sent between workers, how long one of them waited, commands.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import generate
import numpy as np
import pyarrow as pa

import sempre
from sempre.files import read_inputs
from sempre.workers import start

ROOT = Path(__file__).parents[1]
DATA = ROOT / "build" / "benchmarks"
SHARED = {"el": ("programs/el.dl", "data/galen"), "text": ("programs/text.dl", "data/crdt")}
PROGRAMS = {
    "andersen": "andersen",
    "andersen10": "andersen",
    "closure": "closure",
    "same_generation": "same_generation",
}
SMALL = 10


def source(name: str, shared: Path) -> tuple[Path, Path]:
    """The program and the folder of facts of a benchmark."""
    if name in SHARED:
        program, facts = SHARED[name]
        return shared / program, shared / facts
    if not (DATA / name).is_dir():
        generate.write(name, DATA / name)
    return ROOT / "benchmarks" / "programs" / f"{PROGRAMS[name]}.dl", DATA / name


def database(program: sempre.Program, workers: int, threads: int, modules: str) -> sempre.Database:
    if not workers:
        return sempre.Database(program, modules=modules, threads=threads)
    return sempre.Database(program, modules=modules, place="workers", workers=workers, spark=object())


def hire(spark: Any, checked: Any, workers: int, driver: Any) -> Any:
    return start.processes(checked, workers, driver.values, driver.limits)


def measure(name: str, workers: int, options: argparse.Namespace) -> dict[str, Any]:
    program_file, facts = source(name, options.shared)
    program = sempre.Program.from_file(program_file)
    tables = {relation: table for relation, table in read_inputs(program.checked, facts).items() if len(table)}
    with patch("sempre.api.options.hire", hire), database(program, workers, options.threads, options.modules) as db:
        before = resource.getrusage(resource.RUSAGE_SELF)
        began = time.perf_counter()
        report = db.materialise(tables).report
        whole = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_SELF)
        found: dict[str, Any] = {
            "name": name,
            "workers": workers,
            "seconds": report.seconds,
            "whole": whole,
            "results": sum(len(db[relation]) for relation in db),
            "driver": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            "memory": after.ru_maxrss * 1024,
            "rounds": report.rounds,
        }
        if workers:
            found |= totals(db)
        if options.updates:
            found |= small_updates(db, tables, options.updates)
    return found


def totals(db: Any) -> dict[str, Any]:
    each = db._workers.report()
    return {
        "processor": sum(one["processor"] for one in each),
        "memory": max(one["peak"] for one in each),
        "rows_sent": sum(one["rows_sent"] for one in each),
        "bytes_sent": sum(one["bytes_sent"] for one in each),
        "waited": max(one["waited"] for one in each),
        "rows": [one["rows"] for one in each],
        "commands": max(one["commands"] for one in each),
        "exchanges": max(one["exchanges"] for one in each),
    }


def small_updates(db: Any, tables: dict[str, Any], updates: int) -> dict[str, Any]:
    """Ten random facts deleted, and inserted again."""
    rng = np.random.default_rng(7)
    names = sorted(tables)
    ends = np.cumsum([len(tables[name]) for name in names])
    took: dict[str, list[float]] = {"delete": [], "insert": []}
    for _ in range(updates):
        chosen = np.sort(rng.choice(int(ends[-1]), SMALL, replace=False))
        where = np.searchsorted(ends, chosen, side="right")
        rows: dict[str, pa.Table] = {
            name: tables[name].take(pa.array(chosen[where == at] - (ends[at] - len(tables[name]))))
            for at, name in enumerate(names)
            if (where == at).any()
        }
        for kind in ("delete", "insert"):
            began = time.perf_counter()
            db.apply(**{kind: rows})
            took[kind].append(time.perf_counter() - began)
    return {f"{kind}_ms": [round(1e3 * one, 1) for one in seconds] for kind, seconds in took.items()}


def line(found: dict[str, Any]) -> str:
    parts = [
        f"{found['name']:12} {found['workers'] or 'driver':>6}",
        f"{found['seconds']:7.2f} s {found['results']:>11,} results {found['rounds']:4} rounds",
        f"driver {found['driver']:.2f} s, {found['memory'] / 2**20:,.0f} MiB",
    ]
    if found["workers"]:
        parts.append(
            f"workers {found['processor']:.2f} s, waited {found['waited']:.2f} s, {found['rows_sent']:,} rows and "
            f"{found['bytes_sent'] / 2**20:,.0f} MiB sent, {found['commands']:,} commands, "
            f"{found['exchanges']:,} exchanges"
        )
    for kind in ("delete", "insert"):
        if f"{kind}_ms" in found:
            times = found[f"{kind}_ms"]
            parts.append(f"{kind} 10: median {statistics.median(times[1:] or times):.0f} ms of {times}")
    return "; ".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["el", "andersen"])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--updates", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--modules", default="off")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.names[0], options.workers[0], options)))
        return
    for name in options.names:
        for workers in options.workers:
            command = [
                sys.executable,
                __file__,
                name,
                "--one",
                "--workers",
                str(workers),
                "--shared",
                str(options.shared),
            ]
            command += ["--updates", str(options.updates), "--threads", str(options.threads)]
            command += ["--modules", options.modules]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            print(line(json.loads(done.stdout.splitlines()[-1])), flush=True)


if __name__ == "__main__":
    main()
