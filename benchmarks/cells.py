"""Replays the edits of an ontology, version by version, and compares with recomputation on the way.

python benchmarks/cells.py [--strategy NAME ...] [--versions N] [--samples N]

The stream is `data/cells/stream.tsv.gz` in the folder that SEMPRE_SHARED names, or in `shared` beside the project.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import sempre

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "examples" / "cells" / "classify.dl"
Facts = dict[str, set[tuple[str, ...]]]


def stream_file() -> Path:
    """Where the edits are, if they are here."""
    shared = Path(os.environ.get("SEMPRE_SHARED", ROOT.parent / "shared"))
    return shared / "data" / "cells" / "stream.tsv.gz"


def versions(path: Path) -> Iterator[tuple[Facts, Facts]]:
    """Per version, the facts to insert and to delete."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        number, insert, delete = "0", Facts(), Facts()
        for line in lines:
            version, sign, relation, *row = line.rstrip("\n").split("\t")
            if version != number:
                yield insert, delete
                number, insert, delete = version, {}, {}
            (insert if sign == "+" else delete).setdefault(relation, set()).add(tuple(row))
        yield insert, delete


@dataclass
class Replay:
    """How a replay went: the milliseconds of every epoch after the first, and what was compared."""

    strategy: str
    first: float = 0.0
    milliseconds: list[float] = field(default_factory=list)
    compared: int = 0

    def __str__(self) -> str:
        times = sorted(self.milliseconds)
        p90 = times[int(0.9 * (len(times) - 1))]
        return (
            f"{self.strategy:10}  first {self.first:7.1f} ms  median {statistics.median(times):7.2f}  p90 {p90:7.2f}  "
            f"max {times[-1]:8.1f}  total {sum(times) / 1e3:6.1f} s  {len(times):,} updates, {self.compared} compared"
        )


def replay(path: Path, strategy: str, limit: int, samples: int) -> Replay:
    """Apply the first `limit` versions; at `samples` of them every relation must equal a recomputation."""
    edits = list(versions(path))[:limit]
    chosen = set(random.Random(1).sample(range(len(edits)), min(samples, len(edits))))
    explicit, result = Facts(), Replay(strategy)
    program = sempre.Program.from_file(PROGRAM)
    with sempre.Database(program, strategy=strategy) as db:
        for number, (insert, delete) in enumerate(edits):
            rows, gone = ({n: list(each) for n, each in facts.items()} for facts in (insert, delete))
            started = time.perf_counter()
            if number:
                db.apply(insert=rows, delete=gone)
                result.milliseconds.append((time.perf_counter() - started) * 1e3)
            else:
                db.materialise(rows)
                result.first = (time.perf_counter() - started) * 1e3
            for name in {*insert, *delete}:
                explicit[name] = (explicit.get(name, set()) - delete.get(name, set())) | insert.get(name, set())
            if number in chosen:
                compare(db, program, explicit, number)
                result.compared += 1
    return result


def compare(db: sempre.Database, program: sempre.Program, explicit: Facts, number: int) -> None:
    """Raise unless every relation equals that of a new database with these facts."""
    with sempre.Database(program, strategy="recompute") as fresh:
        fresh.materialise({name: list(rows) for name, rows in explicit.items()})
        for name in program.relations:
            if set(db[name]) != set(fresh[name]):
                raise AssertionError(f"version {number}: `{name}` is not what a recomputation gives")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", nargs="+", default=["auto"])
    parser.add_argument("--versions", type=int, default=10**9)
    parser.add_argument("--samples", type=int, default=50)
    arguments = parser.parse_args()
    path = stream_file()
    if not path.exists():
        raise SystemExit(f"there is no {path}: set SEMPRE_SHARED to the folder that has data/cells")
    for strategy in arguments.strategy:
        print(replay(path, strategy, arguments.versions, arguments.samples), flush=True)


if __name__ == "__main__":
    main()
