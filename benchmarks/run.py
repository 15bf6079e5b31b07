"""Runs every benchmark in a process of its own and prints the table: the fastest of several runs.

python benchmarks/run.py [--only NAME ...] [--repeat N] [--shared FOLDER] [--against COMMIT] [options of `sempre run`]

Beside every run of this code stands one of the commit before, of HEAD if there are changes, so that both see the same
load. `processor` is user and system time of the whole process, start, reading and writing included.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import generate
import java

ROOT = Path(__file__).parents[1]
DATA = ROOT / "build" / "benchmarks"
# Programs on real data, by their places in the folder `--shared`.
SHARED = {"el": ("programs/el.dl", "data/galen"), "text": ("programs/text.dl", "data/crdt")}
HEADINGS = ("benchmark", "facts in", "results", "seconds", "processor", "peak MiB", "peak bytes/fact", "rounds")
BEFORE = ("processor before", "", "MiB before", "")


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
        return (
            self.name,
            f"{self.facts:,}",
            f"{self.results:,}",
            f"{self.seconds:.2f}",
            f"{self.processor:.2f}",
            f"{self.peak / 2**20:,.0f}",
            f"{self.peak / max(self.facts + self.results, 1):,.0f}",
            f"{self.rounds:,}",
        )

    def beside(self, before: Result) -> tuple[str, ...]:
        """What another run of the same took, and by how much this one differs."""
        times = (self.processor, before.processor), (self.peak, before.peak)
        changes = [f"{100 * (here / there - 1):+.0f} %" for here, there in times]
        return f"{before.processor:.2f}", changes[0], f"{before.peak / 2**20:,.0f}", changes[1]


def benchmarks(shared: Path) -> list[Benchmark]:
    """All that can run here; those on real data where the folder `shared` has it."""
    programs = ROOT / "benchmarks" / "programs"
    found = [Benchmark(name, programs / f"{name}.dl", DATA / name) for name in (*generate.BENCHMARKS, "java")]
    found += [
        Benchmark(name, shared / program, shared / facts)
        for name, (program, facts) in SHARED.items()
        if (shared / program).exists() and (shared / facts).is_dir()
    ]
    return found


def measure(benchmark: Benchmark, repeat: int, options: list[str], sources: list[Path]) -> list[Result]:
    """For each of the sources the fastest of `repeat` runs, each in a fresh process, in turns."""
    if not benchmark.facts.is_dir():
        _generate(benchmark)
    epochs = [[_run_once(benchmark, options, source) for source in sources] for _ in range(repeat)]
    facts = sum(map(_lines, benchmark.facts.glob("*.facts")))
    shown, found = _shown(benchmark.program), []
    for runs in zip(*epochs, strict=True):
        best = min(runs, key=lambda epoch: float(epoch["processor"]))
        results = sum(best["added"].get(name, 0) for name in shown)
        numbers = best["seconds"], best["processor"], best["peak_rss"], best["rounds"]
        found.append(Result(benchmark.name, facts, results, *numbers))
    return found


def _generate(benchmark: Benchmark) -> None:
    """Write the facts in a process of its own: a process begins with the peak of the one that starts it."""
    maker = multiprocessing.get_context("spawn").Process(target=_write, args=(benchmark.name, benchmark.facts))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise SystemExit(f"the facts of `{benchmark.name}` were not written")


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def _write(name: str, folder: Path) -> None:
    if name == "java":
        java.write(folder)
    else:
        generate.write(name, folder)


def _shown(program: Path) -> set[str]:
    """The relations that a program prints or writes."""
    lines = program.read_text("utf-8").splitlines()
    lists = [line.split(None, 1)[1] for line in lines if line.startswith((".output", ".printsize"))]
    return {name.strip() for names in lists for name in names.split(",")}


def _run_once(benchmark: Benchmark, options: list[str], source: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "sempre.cli", "run", str(benchmark.program), "-F", str(benchmark.facts)]
        command += ["-D", scratch, "--on", "local", "--report", str(report), *options]
        environment = os.environ | {"PYTHONPATH": str(source)}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"`{benchmark.name}` failed with exit code {process.returncode}")
        epoch: dict[str, Any] = json.loads(report.read_text("utf-8"))["epochs"][0]
        # Of the whole process: start, reading and writing included. What the report has was measured before writing.
        epoch["processor"] = usage.ru_utime + usage.ru_stime
        epoch["peak_rss"] = 1024 * usage.ru_maxrss
        return epoch


def earlier(commit: str) -> Path:
    """The sources of another commit, in a folder of their own; their compiled loops stay there for the next time."""
    wanted = ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
    name = subprocess.run(wanted, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    if not name:
        raise SystemExit(f"there is no commit `{commit}`; leave the comparison out with --against none")
    folder = ROOT / "build" / "commits" / name
    if not folder.is_dir():
        packed = subprocess.run(["git", "archive", name, "src"], cwd=ROOT, capture_output=True, check=True).stdout
        with tempfile.TemporaryDirectory(dir=_made(folder.parent)) as scratch:
            subprocess.run(["tar", "-x", "-C", scratch], input=packed, check=True)
            Path(scratch, "src").rename(_made(folder) / "src")
    return folder / "src"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def before() -> str:
    """What to compare with: HEAD, or the commit before it where there are no changes."""
    changes = subprocess.run(["git", "status", "--porcelain", "src"], cwd=ROOT, capture_output=True, text=True)
    return "HEAD" if changes.stdout.strip() else "HEAD^"


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


def show(rows: list[tuple[str, ...]], headings: Sequence[str]) -> None:
    widths = [max(len(row[i]) for row in [[*headings], *rows]) for i in range(len(headings))]
    for row in [tuple(headings), tuple("-" * width for width in widths), *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--shared", type=Path, metavar="FOLDER", default=ROOT.parent / "shared")
    parser.add_argument("--against", metavar="COMMIT", help="the commit before, unless given; `none` for no comparison")
    arguments, options = parser.parse_known_args()
    chosen = [each for each in benchmarks(arguments.shared) if not arguments.only or each.name in arguments.only]
    sources, headings = [ROOT / "src"], [*HEADINGS]
    print(machine())
    if arguments.against != "none":
        commit = arguments.against or before()
        sources.append(earlier(commit))
        headings += BEFORE
        print(f"before: {sources[1].parent.name[:10]} ({commit})")
    results = [measure(each, arguments.repeat, options, sources) for each in chosen]
    show(
        [here.row() + tuple(cell for other in others for cell in here.beside(other)) for here, *others in results],
        headings,
    )


if __name__ == "__main__":
    main()
