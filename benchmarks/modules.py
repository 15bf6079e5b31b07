"""What closures, chains and sequences cost with modules: one line per measurement.

python benchmarks/modules.py [--only NAME ...] [--modules auto|off|LIST] [--people N] [--family N]

dag       the transitive rule on a random acyclic graph of 10,000 nodes and 100,000 edges (22.45 million facts): from
          scratch, as Arrow, without 1,000 edges, with them again, without a quarter of the edges
cycle     the symmetric and the transitive rule on cycles of 1,000 and of 5,000
chain     the transitive rule on a chain of 2,000
sequence  successors of 1,000,000 timestamps, and single insertions and deletions
example   Example 29 of [Hu22] with n = m = 2,000: a transitive relation, and one that it extends
family    160 recursive rules over a genealogy of a million facts, with modules and without: from scratch, without 1,000
          facts, with them again. Without modules it takes minutes

Every workload runs in a process of its own, so that the memory shown is its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import family
import generate
import numpy as np
import pyarrow as pa
from run import machine

import sempre
from sempre.api import ChangeSet, peak_rss

HEADINGS = ("workload", "step", "facts", "seconds", "aim", "peak MiB")
TRANSITIVE = """
.decl r(x: number, y: number)
r(x, z) :- r(x, y), r(y, z).
"""
SYMMETRIC = TRANSITIVE + "r(y, x) :- r(x, y).\n"
EXTENDED = (
    TRANSITIVE
    + """
.decl s(x: number, y: number)
s(x, z) :- s(x, y), r(y, z).
"""
)
SEQUENCE = """
.decl at(t: number)
.decl next(x: number, y: number)
next(x, y) :- at(x), at(y), x < y, !(at(z), x < z, z < y).
"""
SINGLE_CHANGES = 50


@dataclass(frozen=True)
class Step:
    """One measurement; `aim` is what it should stay under, if there is such a figure."""

    name: str
    facts: int
    seconds: float
    aim: float | None = None


@dataclass(frozen=True)
class Options:
    modules: str
    people: int
    family: int


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result


def pairs(rows: np.ndarray) -> pa.Table:
    return pa.table({"x": rows[:, 0], "y": rows[:, 1]})


def materialized(program: str, tables: dict[str, pa.Table], options: Options) -> tuple[float, sempre.Database]:
    db = sempre.Database(program, modules=options.modules)
    seconds, _ = timed(lambda: db.materialise(tables))
    return seconds, db


# ---------------------------------------------------------------------------------------------------- workloads


def dag(options: Options) -> Iterator[Step]:
    """Explicit facts are edges; what a relation has besides them is its closure."""
    edges = generate.closure()["edge"]
    seconds, db = materialized(TRANSITIVE, {"r": pairs(edges)}, options)
    yield Step("from scratch", len(db["r"]), seconds, 1.5)
    seconds, table = timed(lambda: db["r"].to_arrow())
    yield Step("as Arrow", table.num_rows, seconds)
    del table
    rng = np.random.default_rng(7)
    few = {"r": pairs(edges[rng.permutation(len(edges))[:1_000]])}
    many = {"r": pairs(edges[rng.permutation(len(edges))[: len(edges) // 4]])}
    yield from (changed(db, "r", "delete 1,000 edges", 1.0, delete=few), changed(db, "r", "add them", 1.0, insert=few))
    yield changed(db, "r", "delete 25 %", 2.0, delete=many)


def changed(db: sempre.Database, name: str, step: str, aim: float | None, **tables: dict[str, pa.Table]) -> Step:
    seconds, _ = timed(lambda: db.apply(**tables))
    return Step(step, len(db[name]), seconds, aim)


def cycle(options: Options) -> Iterator[Step]:
    for nodes, aim in ((1_000, 0.1), (5_000, 2.0)):
        steps = np.arange(nodes)
        rows = np.column_stack([steps, (steps + 1) % nodes])
        seconds, db = materialized(SYMMETRIC, {"r": pairs(rows)}, options)
        yield Step(f"{nodes:,} nodes", len(db["r"]), seconds, aim)


def chain(options: Options) -> Iterator[Step]:
    steps = np.arange(2_000)
    seconds, db = materialized(TRANSITIVE, {"r": pairs(np.column_stack([steps, steps + 1]))}, options)
    yield Step("2,000 links", len(db["r"]), seconds, 0.2)


def sequence(options: Options) -> Iterator[Step]:
    rng = np.random.default_rng(7)
    times = rng.permutation(np.unique(rng.integers(0, 10**9, 1_100_000)))
    kept, coming = times[:1_000_000], times[1_000_000 : 1_000_000 + SINGLE_CHANGES].tolist()
    seconds, db = materialized(SEQUENCE, {"at": pa.table({"t": kept})}, options)
    yield Step("from scratch", len(db["next"]), seconds, 2.0)
    for name in ("insert", "delete"):
        changes = [timed(partial(db.apply, **{name: {"at": [(at,)]}})) for at in coming]
        yield Step(f"{name} one", len(db["next"]), statistics.median(seconds for seconds, _ in changes))
        spent = statistics.median(module_seconds(change) for _, change in changes)
        yield Step(f"{name} one, in the module", len(db["next"]), spent, 0.001)


def module_seconds(changes: ChangeSet) -> float:
    return sum(float(stratum["seconds"]) for stratum in changes.report.strata if stratum["strategy"] == "seq")


def example(options: Options) -> Iterator[Step]:
    size = 2_000
    steps = np.arange(size - 1)
    tables = {
        "r": pairs(np.column_stack([steps, steps + 1])),
        "s": pairs(np.column_stack([np.arange(size, 2 * size), np.zeros(size, np.int64)])),
    }
    seconds, db = materialized(EXTENDED, tables, options)
    yield Step("n = m = 2,000", len(db["r"]) + len(db["s"]), seconds, 1.0)


def genealogy(options: Options) -> Iterator[Step]:
    tables = family.facts(options.people, options.family)
    yield Step("facts given", sum(map(len, tables.values())), 0.0)
    rng = np.random.default_rng(7)
    some = {"has_father": 500, "has_mother": 400, "partner": 100}
    change = {name: tables[name].take(rng.permutation(len(tables[name]))[:size]) for name, size in some.items()}
    baseline: list[float] = []
    for modules in ("off", "auto") if options.modules == "auto" else (options.modules,):
        seconds, db = materialized(family.program(), tables, Options(modules, options.people, options.family))
        size = sum(len(db[name]) for name in db)
        steps = [Step(f"modules {modules}: from scratch", size, seconds)]
        steps.append(changed(db, "related", f"modules {modules}: delete 1,000", None, delete=change))
        steps.append(changed(db, "related", f"modules {modules}: add them", None, insert=change))
        for index, step in enumerate(steps):
            # The aim is a twentieth of what it takes without.
            yield Step(step.name, step.facts, step.seconds, baseline[index] / 20 if len(baseline) > index else None)
        baseline = [step.seconds for step in steps]
        db.close()


WORKLOADS: dict[str, Callable[[Options], Iterator[Step]]] = {
    "dag": dag,
    "cycle": cycle,
    "chain": chain,
    "sequence": sequence,
    "example": example,
    "family": genealogy,
}


# -------------------------------------------------------------------------------------------------------- table


def row(workload: str, step: Step) -> list[str]:
    aim = f"{step.aim:.3g}" if step.aim is not None else ""
    return [workload, step.name, f"{step.facts:,}", f"{step.seconds:.4f}", aim, f"{peak_rss() / 2**20:,.0f}"]


def show(cells: list[str]) -> None:
    widths = (9, 32, 12, 10, 8, 9)
    sides = (str.ljust, str.ljust, str.rjust, str.rjust, str.rjust, str.rjust)
    print("  ".join(side(cell, width) for side, cell, width in zip(sides, cells, widths, strict=True)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="What closures, chains and sequences cost with modules.")
    parser.add_argument("--only", nargs="+", choices=tuple(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--modules", default="auto", help="auto, off, or some kinds, with commas")
    parser.add_argument("--people", type=int, default=200_000, help="of the genealogy; five facts each")
    parser.add_argument("--family", type=int, default=100, help="how many of them are related")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = Options(options.modules, options.people, options.family)
    if options.here:
        for step in WORKLOADS[options.only[0]](chosen):
            print(json.dumps(row(options.only[0], step)), flush=True)
        return 0
    print(machine())
    show(list(HEADINGS))
    failed = 0
    for name in options.only:
        command = [sys.executable, __file__, "--here", "--only", name, "--modules", chosen.modules]
        command += ["--people", str(chosen.people), "--family", str(chosen.family)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            for line in running.stdout or ():
                show(json.loads(line))
        failed = failed or running.returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
