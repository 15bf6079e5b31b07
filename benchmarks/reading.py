"""Where the wall time of a run over text with long names goes: 2.58 million rows in the style of Doop.

python benchmarks/reading.py [FOLDER] [--share 0.1] [--repeat N]

The facts are those of a made-up Java program: instructions, variables, fields, calls and types by their full names,
about 80 characters each. The program does next to nothing with them, so that reading, numbering the names and writing
are what takes time. Processor time is beside wall time in every line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
ROWS = 2_580_000
PACKAGES = ("java.lang", "java.util.concurrent", "org.apache.commons.collections", "com.example.server.handlers")
TYPES = ("int", "char[]", "java.lang.String", "java.util.Map", "java.lang.Object[]", "boolean")

# Name, share of all rows, and its columns.
RELATIONS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("AssignLocal", 0.20, ("from", "to", "method")),
    ("VarType", 0.20, ("var", "type")),
    ("ActualParam", 0.16, ("index", "call", "var")),
    ("VirtualMethodInvocation", 0.12, ("call", "method", "var", "method")),
    ("AssignHeapAllocation", 0.10, ("heap", "to", "method")),
    ("LoadInstanceField", 0.09, ("var", "field", "to", "method")),
    ("StoreInstanceField", 0.06, ("from", "var", "field", "method")),
    ("FormalParam", 0.05, ("index", "method", "var")),
    ("Reachable", 0.02, ("method",)),
)

Numbers = NDArray[np.int64]


def names(rows: int) -> dict[str, Callable[[Numbers], list[str]]]:
    """By kind of column: from numbers to names."""
    classes = [f"{PACKAGES[i % 4]}.{'Abstract' if i % 3 else 'Default'}Class{i}" for i in range(max(1, rows // 500))]
    methods = [
        f"<{classes[i % len(classes)]}: {TYPES[i % 6]} method{i // len(classes)}({TYPES[(i + 1) % 6]},{TYPES[i % 5]})>"
        for i in range(max(1, rows // 45))
    ]

    def of_method(numbers: Numbers, suffix: str, each: int) -> list[str]:
        return [f"{methods[n // each % len(methods)]}/{suffix}{n % each}" for n in numbers.tolist()]

    def variable(numbers: Numbers) -> list[str]:
        return of_method(numbers, "@local#_", 10)

    return {
        "var": variable,
        "from": variable,
        "to": variable,
        "method": lambda numbers: [methods[n % len(methods)] for n in numbers.tolist()],
        "call": lambda numbers: of_method(numbers, "java.util.Map.get/", 6),
        "heap": lambda numbers: of_method(numbers, "new java.util.HashMap/", 4),
        "field": lambda numbers: [
            f"<{classes[n % len(classes)]}: {TYPES[n % 6]} field{n % 9}>" for n in numbers.tolist()
        ],
        "type": lambda numbers: [classes[n % len(classes)] for n in numbers.tolist()],
    }


def program() -> str:
    lines = []
    for name, _, columns in RELATIONS:
        kinds = ", ".join(f"c{i}: {'number' if c == 'index' else 'symbol'}" for i, c in enumerate(columns))
        lines += [f".decl {name}({kinds})", f".input {name}"]
        # What no output needs would not be read.
        wildcards = ", ".join("_" for _ in columns)
        lines += [
            f".decl all{name}(rows: number)",
            f"all{name}(count : {{ {name}({wildcards}) }}).",
            f".output all{name}",
        ]
    return "\n".join([
        *lines,
        ".decl moves(from: symbol, to: symbol, method: symbol)",
        "moves(f, t, m) :- AssignLocal(f, t, m), Reachable(m).",
        ".decl typed(var: symbol, type: symbol)",
        "typed(v, t) :- VarType(v, t).",
        ".output moves, typed",
        "",
    ])  # fmt: skip


def write(folder: Path, rows: int) -> None:
    """Write the program and its facts, the same for the same number of rows and version of NumPy."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.dl").write_text(program(), "utf-8")
    rng = np.random.default_rng(5)
    named = names(rows)
    for name, share, columns in RELATIONS:
        size = int(rows * share)
        # Rows of a method stand together, as a compiler writes them, and names differ from row to row.
        base = np.sort(rng.integers(0, max(1, rows // 5), size))
        parts: list[list[str]] = []
        for i, column in enumerate(columns):
            if column == "index":
                parts.append(list(map(str, rng.integers(0, 5, size).tolist())))
            else:
                parts.append(named[column](base // 10 if column == "method" else base + i))
        lines = zip(*parts, strict=True)
        (folder / f"{name}.facts").write_text("".join("\t".join(line) + "\n" for line in lines), "utf-8")


def measure(folder: Path) -> dict[str, float]:
    """The seconds of one run in a process of its own, by what they went to."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "sempre.cli", "run", str(folder / "program.dl"), "-F", str(folder)]
        command += ["-D", scratch, "--on", "local", "--report", str(report)]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        assert status == 0, "the run failed"
        epoch = json.loads(report.read_text("utf-8"))["epochs"][0]
    spent = {
        "reading": epoch["read_seconds"],
        "numbering and rules": epoch["seconds"],
        "writing": epoch["write_seconds"],
    }
    return {
        **spent,
        "numbering, start, end": wall - sum(spent.values()),
        "wall": wall,
        "processor": usage.ru_utime + usage.ru_stime,
        "peak MiB": usage.ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "benchmarks" / "reading")
    parser.add_argument("--share", type=float, default=1.0, help="of the 2.58 million rows")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    folder = arguments.folder / f"{arguments.share:g}"
    if not (folder / "program.dl").exists():
        write(folder, int(ROWS * arguments.share))
    size = sum(path.stat().st_size for path in folder.glob("*.facts"))
    print(f"{int(ROWS * arguments.share):,} rows, {size / 2**20:,.0f} MiB of text")
    best = min((measure(folder) for _ in range(arguments.repeat)), key=lambda spent: spent["wall"])
    for what, amount in best.items():
        print(f"{what:<22} {amount:8.2f}")


if __name__ == "__main__":
    main()
