"""What programs of many rules over tiny facts take: `check`, `run`, and one fact alone.

python benchmarks/rules.py [--repeat N]

Processor seconds of whole processes, start of Python included; the fastest of several.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ONE_FACT = ".decl a(x: number)\n.decl b(x: number)\n.output b\na(1).\nb(x) :- a(x).\n"


def program(rules: int, relations: int) -> str:
    """A program of layers, with recursion here and there; every relation has facts in the end."""
    rng = random.Random(rules)
    lines = [f".decl r{at}(x: number, y: number)" for at in range(relations)]
    given = max(1, relations // 10)
    lines += [f"r{at}({number}, {number + 1})." for at in range(given) for number in range(4)]
    for number in range(rules):
        head = given + number % (relations - given)
        atoms = rng.randint(1, 3)
        reach = head + 2 if head % 7 == 0 else head - 1
        read = [rng.randint(max(0, head - 20), min(relations - 1, reach) if at else head - 1) for at in range(atoms)]
        body = [f"r{relation}(v{at}, v{at + 1})" for at, relation in enumerate(read)]
        if number < relations - given or rng.random() < 0.2:
            body = [f"r{head - 1}(v0, v{atoms})", f"v0 < {rng.randint(5, 500)}"]
        lines.append(f"r{head}(v0, v{atoms}) :- {', '.join(body)}.")
    return "\n".join([*lines, f".output r{relations - 1}", ""])


COMPONENTS = """\
.decl shared(x: number, y: number)
shared(1, 2). shared(2, 3).
.comp Part<T> {
  .decl e(x: T, y: T)
  .decl r(x: T, y: T)
  .decl s(x: T)
  r(x, y) :- e(x, y).
  r(x, z) :- r(x, y), e(y, z).
  s(x) :- r(x, _).
  s(y) :- r(_, y).
  s(x) :- e(x, x).
}
.comp Wide<T> : Part<T> {
  r(y, x) :- e(x, y), s(x).
  s(x) :- r(x, y), r(y, x), x != y.
  s(x) :- e(x, y), !e(y, x).
  e(x, y) :- shared(x, y).
  e(x, x) :- shared(x, _).
}
"""


def instances(rules: int) -> str:
    """A program of instances, each with ten rules for three relations, most of them inherited."""
    made = (f".init c{at} = Wide<number>\n.output c{at}.s\n" for at in range(rules // 10))
    return COMPONENTS + "".join(made)


def measure(command: list[str], repeat: int) -> tuple[float, float]:
    """Processor and wall seconds of the fastest run."""
    found = []
    for _ in range(repeat):
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0, f"failed: {' '.join(command)}"
        found.append((usage.ru_utime + usage.ru_stime, time.perf_counter() - started))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    sempre = [sys.executable, "-m", "sempre.cli"]
    with tempfile.TemporaryDirectory() as scratch:
        texts = {"one fact": ONE_FACT}
        texts |= {f"{rules:,} rules": program(rules, 3 * rules // 10) for rules in (1_000, 4_000, 5_000)}
        texts |= {f"{rules:,} of components": instances(rules) for rules in (1_000, 2_500, 5_000)}
        for name, text in texts.items():
            path = Path(scratch) / f"{name}.dl"
            path.write_text(text, "utf-8")
            for words in (["check", str(path)], ["run", str(path), "--on", "local", "-D", scratch]):
                processor, wall = measure([*sempre, *words], repeat)
                print(f"{words[0]:<6} {name:<19} {processor:6.2f} s of processor, {wall:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
