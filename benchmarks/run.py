"""Runs every benchmark in a process of its own and prints the table: the fastest of several runs.

python benchmarks/run.py [--only NAME ...] [--repeat N] [--shared FOLDER] [options of `sempre run`]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import generate

ROOT = Path(__file__).parents[1]
DATA = ROOT / "build" / "benchmarks"
# Programs on real data, by their places in the folder `--shared`.
SHARED = {"el": ("programs/el.dl", "data/galen"), "text": ("programs/text.dl", "data/crdt")}
HEADINGS = ("benchmark", "facts in", "results", "seconds", "processor", "facts/s", "peak MiB", "rounds")


@dataclass(frozen=True)
class Benchmark:
    name: str
    program: Path
    facts: Path


@dataclass(frozen=True)
class Result:
    name: str
    facts: int
    results: int
    seconds: float
    processor: float
    peak: int
    rounds: int

    def row(self) -> tuple[str, ...]:
        rate = self.results / self.seconds if self.seconds else 0.0
        return (
            self.name,
            f"{self.facts:,}",
            f"{self.results:,}",
            f"{self.seconds:.2f}",
            f"{self.processor:.2f}",
            f"{rate:,.0f}",
            f"{self.peak / 2**20:,.0f}",
            f"{self.rounds:,}",
        )


def benchmarks(shared: Path) -> list[Benchmark]:
    """All that can run here; those on real data where the folder `shared` has it."""
    programs = ROOT / "benchmarks" / "programs"
    found = [Benchmark(name, programs / f"{name}.dl", DATA / name) for name in generate.BENCHMARKS]
    found += [
        Benchmark(name, shared / program, shared / facts)
        for name, (program, facts) in SHARED.items()
        if (shared / program).exists() and (shared / facts).is_dir()
    ]
    return found


def measure(benchmark: Benchmark, repeat: int, options: list[str]) -> Result:
    """The fastest of `repeat` runs, each in a fresh process."""
    if benchmark.name in generate.BENCHMARKS and not benchmark.facts.is_dir():
        generate.write(benchmark.name, benchmark.facts)
    epochs = [_run_once(benchmark, options) for _ in range(repeat)]
    best = min(epochs, key=lambda epoch: float(epoch["seconds"]))
    facts = sum(path.read_bytes().count(b"\n") for path in benchmark.facts.glob("*.facts"))
    results = sum(best["added"].get(name, 0) for name in _shown(benchmark.program))
    return Result(benchmark.name, facts, results, best["seconds"], best["processor"], best["peak_rss"], best["rounds"])


def _shown(program: Path) -> set[str]:
    """The relations that a program prints or writes."""
    lines = program.read_text("utf-8").splitlines()
    lists = [line.split(None, 1)[1] for line in lines if line.startswith((".output", ".printsize"))]
    return {name.strip() for names in lists for name in names.split(",")}


def _run_once(benchmark: Benchmark, options: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "sempre.cli", "run", str(benchmark.program), "-F", str(benchmark.facts)]
        command += ["-D", scratch, "--on", "local", "--report", str(report), *options]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        epoch: dict[str, Any] = json.loads(report.read_text("utf-8"))["epochs"][0]
        # Of the whole process, reading and start included.
        epoch["processor"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return epoch


def machine() -> str:
    """What ran this: commit, processor, versions."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}"
    return f"commit {commit.stdout.strip() or 'unknown'}; {os.cpu_count()} x {model}; {versions}"


def show(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in [HEADINGS, *rows]) for i in range(len(HEADINGS))]
    for row in [HEADINGS, tuple("-" * width for width in widths), *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shared", type=Path, metavar="FOLDER", default=ROOT.parent / "shared")
    arguments, options = parser.parse_known_args()
    chosen = [each for each in benchmarks(arguments.shared) if not arguments.only or each.name in arguments.only]
    print(machine())
    show([measure(each, arguments.repeat, options).row() for each in chosen])


if __name__ == "__main__":
    main()
