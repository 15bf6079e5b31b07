"""What updates cost by every strategy, beside recomputation: one line per change, then how good `auto` chose.

python benchmarks/update_table.py [--only NAME ...] [--strategy NAME ...] [--commits N] [--versions N]

crdt, galen   the text of a typing session, an ontology (real data: in the folder that SEMPRE_SHARED names, or `shared`)
andersen      a points-to analysis; owl: rules over triples; routes: reachability in a network (generated)
              each: 10 facts, 1 % and 10 % of them deleted, inserted again, and some deleted while others come back
pointsto      commits to a code base with fields, casts and a call graph found on the way; dense: packages hang together
cells         versions of an ontology (real data)

Times are of processors: `share` is that of what `recompute` took for the same change, `of best` that of what the best
strategy took. A strategy that takes more than so many times as long as recomputation is stopped, and tried on no larger
change (`LIMIT`).
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import generate
from cells import PROGRAM as CELLS
from cells import stream_file, versions
from codebase import CodeBase
from run import machine
from updates import DATA, ROOT, SOURCES, Bench, Source, Tables

import sempre
from sempre.engine import Progress
from sempre.files import read_inputs
from sempre.maintain.strategy_names import STRATEGY_NAMES

GENERATED = {name: Source(name, ROOT / f"benchmarks/programs/{name}.dl", DATA / name) for name in generate.CHANGING}
CODE = {"pointsto": (100, 4, 0.001), "dense": (60, 6, 0.001)}
WORKLOADS = (*SOURCES, *GENERATED, *CODE, "cells")
STRATEGIES = ("recompute", "ranked", "dredc", "dred", "bf", "elastic", "auto")
LIMIT, LIMIT_SECONDS = 3.0, 2.0
HEADINGS = ("workload", "change", "rows", "strategy", "net", "affected", "instances", "ms", "share", "how")
Change = tuple[str, Tables, Tables]


@dataclass(frozen=True)
class Timed:
    """An epoch, with the seconds of all processors that it took; None where it was stopped."""

    what: str
    rows: int
    processor: float
    done: sempre.ChangeSet | None

    def show(self, name: str, strategy: str, whole: float) -> None:
        cells: list[str] = [name, self.what, f"{self.rows:,}", strategy]
        if self.done is None:
            cells += ["", "", "", f"> {self.processor * 1e3:.0f}", f"> {self.processor / whole:.0%}", "stopped"]
        else:
            report = self.done.report
            net = sum(report.added.values()) + sum(report.removed.values())
            why = " ".join(stratum["why"] for stratum in report.strata)
            affected = sum(int(n.replace(",", "")) for n in re.findall(r"affected ([\d,]+) facts", why))
            how = sorted({stratum["strategy"] for stratum in report.strata if stratum["rounds"]})
            cells += [f"{net:,}", f"{affected:,}" if affected else "", f"{report.instances:,}"]
            cells += [f"{self.processor * 1e3:.1f}", f"{self.processor / whole:.1%}", ", ".join(how)]
        print(" | ".join(cells), flush=True)


@dataclass(frozen=True)
class Workload:
    """A program, its facts, and what happens to them."""

    name: str
    source: Source
    facts: Tables
    changes: Sequence[Change]


def workload(name: str, commits: int, count: int) -> Workload | None:
    """One by its name; None if its data are not here."""
    facts: Tables
    if name in CODE:
        code = CodeBase(*CODE[name])
        facts = code.facts()
        source = Source(name, ROOT / "benchmarks/programs/pointsto.dl", DATA)
        return Workload(name, source, facts, list(code.commits(commits, random.Random(1))))
    if name == "cells":
        if not stream_file().exists():
            return None
        (first, _), *edits = versions(stream_file()) if count else [({}, {})]
        facts = {relation: list(rows) for relation, rows in first.items()}
        return Workload(name, Source(name, CELLS, DATA), facts, [_edit(edit) for edit in edits[:count]])
    source = {**SOURCES, **GENERATED}[name]
    if source.facts.parent == DATA and not source.facts.is_dir():
        generate.write(name, source.facts)
    if not source.program.exists() or not source.facts.is_dir():
        return None
    facts = read_inputs(sempre.Program.from_file(source.program).checked, source.facts)
    bench = Picks({relation: table for relation, table in facts.items() if len(table)})
    return Workload(name, source, facts, list(_random_changes(bench)))


def _edit(edit: tuple[dict[str, set[Any]], dict[str, set[Any]]]) -> Change:
    insert, delete = ({name: list(rows) for name, rows in facts.items()} for facts in edit)
    return "version", insert, delete


class TooLong(Exception):
    """An update takes too long."""


class Limited(Bench):
    """Stops what takes too long, between two rounds."""

    until = float("inf")

    def progress(self, progress: Progress) -> None:
        if time.process_time() > self.until:
            raise TooLong


class Picks(Bench):
    """Random facts, without a database."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.rng = random.Random(7)


def _random_changes(bench: Picks) -> Iterator[Change]:
    total = sum(map(len, bench.tables.values()))
    for what, size in (("10", 10), ("1 %", total // 100), ("10 %", total // 10)):
        rows, others = bench.pick(size), bench.pick(size)
        yield f"delete {what}", {}, rows
        yield f"insert {what}", rows, {}
        yield f"delete {what} more", {}, others
        yield f"mixed {what}", others, rows
        yield f"insert {what} again", rows, {}


def measured(case: Workload, strategy: str, wholes: Sequence[float]) -> list[Timed]:
    """What the changes cost by one strategy; `wholes` are the seconds of recomputation, if that is known."""
    bench = Limited(case.source, strategy, case.facts)
    found: list[Timed] = []
    for number, (what, insert, delete) in enumerate(case.changes):
        whole = wholes[number] if wholes else 0.0
        found.append(_timed(bench, what, insert, delete, whole))
        found[-1].show(case.name, strategy, whole or found[-1].processor)
        if found[-1].done is None:
            break
    bench.close()
    return found


def _timed(bench: Limited, what: str, insert: Tables, delete: Tables, whole: float) -> Timed:
    rows = sum(map(len, (*insert.values(), *delete.values())))
    started = time.process_time()
    bench.until = started + max(LIMIT * whole, LIMIT_SECONDS) if whole else float("inf")
    done: sempre.ChangeSet | None = None
    with suppress(TooLong):
        done = bench.db.apply(insert=insert, delete=delete)
    return Timed(what, rows, time.process_time() - started, done)


def judged(case: Workload, found: dict[str, list[Timed]]) -> None:
    """How `auto` compares with the best strategy, and with recomputation."""
    if "auto" not in found:
        return
    auto = [each.processor for each in found["auto"]]
    again = [each.processor for each in found["recompute"]]
    best = [
        min(times[at].processor for times in found.values() if at < len(times) and times[at].done is not None)
        for at in range(len(auto))
    ]
    worst = max(range(len(auto)), key=lambda at: auto[at] / best[at])
    print(
        f"{case.name}: auto {sum(auto):.2f} s, best of every row {sum(best):.2f} s ({sum(auto) / sum(best):.2f}x), "
        f"recompute {sum(again):.2f} s; worst row of best {auto[worst] / best[worst]:.2f}x "
        f"({found['auto'][worst].what}: {auto[worst] * 1e3:.0f} ms), "
        f"worst of a recomputation {max(a / r for a, r in zip(auto, again, strict=True)):.2f}x",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--strategy", nargs="+", choices=STRATEGY_NAMES, default=STRATEGIES)
    parser.add_argument("--commits", type=int, default=8)
    parser.add_argument("--versions", type=int, default=60)
    arguments = parser.parse_args()
    print(machine())
    print(" | ".join(HEADINGS))
    for name in arguments.only:
        case = workload(name, arguments.commits, arguments.versions)
        if case is None:
            print(f"{name}: skipped, its data are not here")
            continue
        found = {"recompute": measured(case, "recompute", ())}
        wholes = [each.processor for each in found["recompute"]]
        for strategy in arguments.strategy:
            if strategy != "recompute":
                found[strategy] = measured(case, strategy, wholes)
        judged(case, found)


if __name__ == "__main__":
    main()
