"""What updates cost, against recomputation: one line per workload and strategy.

python benchmarks/updates.py [--only NAME ...] [--strategy NAME ...] [--updates N]

crdt      the text of a typing session: 12 updates after the first run (6 of 10 facts, deleting and inserting in turn,
          one of 1,000 facts, 4 of 10, one of 1,000), against the same 12 by recomputation
galen     an ontology: single updates of 10 random facts, of 1,000, and the deletion of a quarter of the input
andersen  a points-to analysis, generated: the same
flat      updates of 10 facts of andersen, owl and routes, and of the same with a tenth of the functions, individuals or
          nodes: they change about as much; seconds of processors
memory    the bytes that the state holds before and after counters are needed, on all three

`update_table.py` compares all strategies, change by change. crdt and galen need the data in the folder that
SEMPRE_SHARED names, or in `shared` beside the project.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import generate
import numpy as np
import pyarrow as pa
from run import machine

import sempre
from sempre.engine import Progress
from sempre.files import read_inputs

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("SEMPRE_SHARED", ROOT.parent / "shared"))
DATA = ROOT / "build" / "benchmarks"
SMALL, LARGE = 10, 1_000
# Updates that change more than this are counted apart: their cost is that of what changes.
NET_CHANGE = 1_000
Tables = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A program and where its facts are."""

    name: str
    program: Path
    facts: Path


SOURCES = {
    "crdt": Source("crdt", SHARED / "programs/text.dl", SHARED / "data/crdt"),
    "galen": Source("galen", SHARED / "programs/el.dl", SHARED / "data/galen"),
    "andersen": Source("andersen", ROOT / "benchmarks/programs/andersen.dl", DATA / "andersen"),
}

WORKLOADS = (*SOURCES, "flat", "memory")
# What can be made in two sizes, and by what the sizes are counted.
GROWING: dict[str, tuple[Callable[[int], dict[str, generate.Pairs]], tuple[int, int]]] = {
    "andersen": (generate.andersen, (33, 330)),
    "owl": (generate.owl, (4_000, 40_000)),
    "routes": (generate.routes, (3_000, 30_000)),
}


class Bench:
    """A database with the facts of a source, and ways to change it at random."""

    def __init__(self, source: Source, strategy: str, facts: Tables | None = None) -> None:
        self.program = sempre.Program.from_file(source.program)
        read = facts if facts is not None else read_inputs(self.program.checked, source.facts)
        self.tables: Tables = {name: table for name, table in read.items() if len(table)}
        self.db = sempre.Database(self.program, strategy=strategy, progress=self.progress)
        self.rng = random.Random(7)
        self.clock = time.perf_counter
        started = time.perf_counter()
        self.db.materialise(self.tables)
        self.first = time.perf_counter() - started

    def progress(self, progress: Progress) -> None:
        """Is told every round."""

    def pick(self, size: int) -> Tables:
        """Random facts of all relations together."""
        names = sorted(self.tables)
        ends = np.cumsum([len(self.tables[name]) for name in names])
        chosen = np.sort(np.array(self.rng.sample(range(int(ends[-1])), size)))
        where = np.searchsorted(ends, chosen, side="right")
        starts = ends - [len(self.tables[name]) for name in names]
        return {
            name: self.tables[name].take(chosen[where == at] - starts[at])
            for at, name in enumerate(names)
            if (where == at).any()
        }

    def apply(self, **changes: Tables) -> tuple[float, int, sempre.ChangeSet]:
        """The seconds of an epoch, and how many facts it changed."""
        started = self.clock()
        done = self.db.apply(**changes)
        seconds = self.clock() - started
        return seconds, sum(done.report.added.values()) + sum(done.report.removed.values()), done

    def close(self) -> None:
        self.db.close()
        gc.collect()


def crdt_epochs(bench: Bench) -> Iterator[float]:
    """The 12 updates; what is deleted by one is inserted by the next of its size."""
    pending: dict[int, Tables] = {}
    for size in [SMALL] * 6 + [LARGE] + [SMALL] * 4 + [LARGE]:
        if size in pending:
            yield bench.apply(insert=pending.pop(size))[0]
        else:
            pending[size] = bench.pick(size)
            yield bench.apply(delete=pending[size])[0]


def run_crdt(strategies: list[str], updates: int) -> None:
    """The workload of 13 epochs against recomputation."""
    reference = Bench(SOURCES["crdt"], "recompute")
    again = list(crdt_epochs(reference))
    reference.close()
    print(f"crdt  recompute   first {reference.first:.2f} s, 12 updates {sum(again):.2f} s, slowest {max(again):.2f} s")
    for strategy in strategies:
        bench = Bench(SOURCES["crdt"], strategy)
        seconds = list(crdt_epochs(bench))
        bench.close()
        worst = max(one / statistics.median(again) for one in seconds)
        print(
            f"crdt  {strategy:10}  first {bench.first:.2f} s, 12 updates {sum(seconds):.2f} s "
            f"({sum(again) / sum(seconds):.1f}x faster), worst epoch {worst:.2f}x one recomputation",
            flush=True,
        )


def run_updates(name: str, strategies: list[str], updates: int) -> None:
    """Small and large updates of one source, and a quarter of it deleted."""
    if name == "andersen" and not SOURCES[name].facts.is_dir():
        generate.write("andersen", SOURCES[name].facts)
    recompute, quarter = _recomputation(SOURCES[name])
    print(f"{name}  recompute   {recompute:.2f} s; with a quarter deleted {quarter:.2f} s")
    for strategy in strategies:
        bench = Bench(SOURCES[name], strategy)
        _small(name, strategy, bench, updates)
        _large(name, strategy, bench, recompute, quarter)
        bench.close()


def _recomputation(source: Source) -> tuple[float, float]:
    """Seconds of recomputing after a small update, and after the deletion of a quarter."""
    bench = Bench(source, "recompute")
    small = bench.apply(delete=bench.pick(SMALL))[0]
    large = bench.apply(delete=bench.pick(sum(map(len, bench.tables.values())) // 4))[0]
    bench.close()
    return small, large


def _small(name: str, strategy: str, bench: Bench, updates: int) -> None:
    times: dict[str, list[float]] = {"delete": [], "insert": []}
    wide = {"delete": 0, "insert": 0}
    bench.apply(delete=(warm := bench.pick(SMALL)))  # counters and indexes are made once
    bench.apply(insert=warm)
    for _ in range(updates):
        rows = bench.pick(SMALL)
        for kind in ("delete", "insert"):
            seconds, changed, _ = bench.apply(**{kind: rows})
            if changed < NET_CHANGE:
                times[kind].append(seconds * 1e3)
            else:
                wide[kind] += 1
    for kind, each in times.items():
        each = sorted(each) or [float("nan")]
        print(
            f"{name}  {strategy:10}  {kind} {SMALL}: median {statistics.median(each):.1f} ms, "
            f"p90 {each[int(0.9 * (len(each) - 1))]:.1f}, max {each[-1]:.1f} "
            f"({updates - wide[kind]} updates; {wide[kind]} more change over {NET_CHANGE:,} facts)",
            flush=True,
        )


def _large(name: str, strategy: str, bench: Bench, recompute: float, quarter: float) -> None:
    rows = bench.pick(LARGE)
    for kind in ("delete", "insert"):
        seconds, changed, done = bench.apply(**{kind: rows})
        print(
            f"{name}  {strategy:10}  {kind} {LARGE:,}: {seconds:.2f} s, {seconds / recompute:.1%} of a recomputation "
            f"({changed:,} facts change; {done.report.why})",
            flush=True,
        )
    seconds, changed, done = bench.apply(delete=bench.pick(sum(map(len, bench.tables.values())) // 4))
    print(
        f"{name}  {strategy:10}  delete 25 %: {seconds:.2f} s, {seconds / quarter:.2f}x a recomputation "
        f"({changed:,} facts change; {done.report.why})",
        flush=True,
    )


def run_flat(strategies: list[str], updates: int) -> None:
    """Updates that change about as many facts, of programs of which one has a tenth of the other's."""
    for name, (make, sizes) in GROWING.items():
        source = Source(name, ROOT / f"benchmarks/programs/{name}.dl", DATA)
        columns = {each.name: each.columns for each in sempre.Program.from_file(source.program).relations.values()}
        for size in sizes:
            facts = {
                relation: pa.table({column: rows[:, at] for at, column in enumerate(columns[relation])})
                for relation, rows in make(size).items()
            }
            for strategy in strategies:
                bench = Bench(source, strategy, facts)
                bench.clock = time.process_time
                print(f"flat  {name}, {sum(map(len, facts.values())):,} facts, first {bench.first:.2f} s")
                _small("flat", strategy, bench, updates)
                bench.close()


def run_memory(strategies: list[str], updates: int) -> None:
    """The bytes of the state with what strategies remember, against the relations alone."""
    for name, source in SOURCES.items():
        if not source.program.exists() or not source.facts.is_dir():
            continue
        for strategy in strategies:
            bench = Bench(source, strategy)
            rows = bench.pick(SMALL)
            bench.apply(delete=rows)
            snapshot = bench.db._engine.snapshot
            whole, plain = state_bytes([snapshot]), state_bytes([snapshot.versions, snapshot.explicit])
            bench.close()
            print(
                f"memory  {name:8}  {strategy:10}  relations and indexes {plain / 2**20:,.1f} MiB, "
                f"with counters {whole / 2**20:,.1f} MiB: {whole / plain:.2f}x",
                flush=True,
            )


def state_bytes(roots: list[Any]) -> int:
    """The bytes of all arrays that can be reached, each memory once."""
    seen: set[int] = set()
    found: dict[int, int] = {}
    stack = list(roots)
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, type | ModuleType | FunctionType | MethodType):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            owner = item
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            found[id(owner)] = owner.nbytes
            continue
        stack.extend(gc.get_referents(item))
    return sum(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--strategy", nargs="+", default=["auto"])
    parser.add_argument("--updates", type=int, default=30)
    arguments = parser.parse_args()
    print(machine())
    for name in arguments.only:
        if name in SOURCES and name != "andersen" and not SOURCES[name].program.exists():
            print(f"{name}: skipped, there is no {SOURCES[name].program}")
        elif name == "crdt":
            run_crdt(arguments.strategy, arguments.updates)
        elif name == "flat":
            run_flat(arguments.strategy, arguments.updates)
        elif name == "memory":
            run_memory(arguments.strategy, arguments.updates)
        else:
            run_updates(name, arguments.strategy, arguments.updates)


if __name__ == "__main__":
    main()
