"""How much the order of atoms in the text matters: programs with the bodies of their rules in random orders.

What is counted is work, not seconds: the rows that plans start from, look up and find. All orders find the same facts.

python benchmarks/orders.py [--only NAME ...] [--orders N]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import java
import numpy as np
from numpy.typing import NDArray

import sempre
from sempre.backends import lookups
from sempre.lang import syntax as s
from sempre.lang.parser import parse
from sempre.lang.printer import to_text

PROGRAMS = Path(__file__).parent / "programs"
Rows = NDArray[np.int64] | list[tuple[Any, ...]]
Facts = dict[str, Rows]
EL = """
.decl p(x: number, y: number)
.decl q(x: number, r: number, y: number)
.decl c(a: number, b: number, z: number)
.decl u(y: number, r: number, z: number)
.decl s(r: number, t: number)
.decl r(a: number, b: number, t: number)
p(x, z) :- p(x, y), p(y, z).
q(x, t, z) :- p(x, y), q(y, t, z).
p(x, z) :- q(x, t, y), p(y, w), u(w, t, z).
p(x, z) :- p(x, a), p(x, b), c(a, b, z).
q(x, t, z) :- q(x, a, z), s(a, t).
q(x, t, z) :- q(x, a, y), q(y, b, z), r(a, b, t).
"""


def _pairs(rng: np.random.Generator, number: int, clusters: int, left: int, right: int) -> Rows:
    """Pairs within clusters of so many values."""
    cluster = rng.integers(0, clusters, number)
    first, second = rng.integers(0, left, number), rng.integers(0, right, number)
    return np.unique(np.column_stack([cluster * left + first, cluster * right + second]), axis=0)


def el() -> Facts:
    """A hierarchy of classes with roles, conjunctions and chains."""
    rng = np.random.default_rng(1)
    classes, roles = 120, 12
    child = np.arange(1, classes)
    parent = (child * rng.random(child.size)).astype(np.int64)

    def some(number: int, *bounds: int) -> Rows:
        return np.unique(np.column_stack([rng.integers(0, bound, number) for bound in bounds]), axis=0)

    return {
        "p": np.column_stack([child, parent]),
        "q": some(120, classes, roles, classes),
        "u": some(40, classes, roles, classes),
        "c": some(60, classes, classes // 8, classes),
        "s": some(6, roles, roles),
        "r": some(4, roles, roles, roles),
    }


def andersen() -> Facts:
    rng = np.random.default_rng(2)
    return {
        "new": _pairs(rng, 400, 10, 120, 30),
        "assign": _pairs(rng, 1_100, 10, 120, 120),
        "load": _pairs(rng, 300, 10, 120, 120),
        "store": _pairs(rng, 300, 10, 120, 120),
    }


def cspa() -> Facts:
    rng = np.random.default_rng(3)
    return {"assign": _pairs(rng, 180, 5, 40, 40), "dereference": _pairs(rng, 250, 5, 40, 40)}


def same_generation() -> Facts:
    rng = np.random.default_rng(4)
    layers = [np.column_stack([rng.integers(0, 60, 180), rng.integers(60, 120, 180)]) + 60 * n for n in range(8)]
    return {"parent": np.unique(np.concatenate(layers), axis=0)}


def java_facts() -> Facts:
    return dict(java.Source(2).facts)


def _text(name: str) -> str:
    lines = (PROGRAMS / f"{name}.dl").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith(".input"))


SUBJECTS: dict[str, tuple[Callable[[], str], Callable[[], Facts]]] = {
    "el": (lambda: EL, el),
    "andersen": (lambda: _text("andersen"), andersen),
    "cspa": (lambda: _text("cspa"), cspa),
    "same_generation": (lambda: _text("same_generation"), same_generation),
    "java": (lambda: _text("java"), java_facts),
}


def shuffled(text: str, rng: random.Random) -> str:
    """The program with the bodies of its rules in random orders."""
    parsed = parse(text)
    items = []
    for item in parsed.items:
        if isinstance(item, s.Rule) and isinstance(item.body, s.Conjunction):
            item = replace(item, body=s.Conjunction(tuple(rng.sample(item.body.parts, len(item.body.parts)))))
        items.append(item)
    return to_text(s.ParsedProgram(tuple(items)))


@contextmanager
def counting() -> Iterator[list[int]]:
    """Counts the rows that plans look up and find."""
    seen = [0]
    runner: Any = lookups.ProbeRunner
    call, gathered, slices = runner.__call__, runner.gathered, lookups.Scan.slices

    def counted_call(probe: Any, rows: Any, views: Any) -> Any:
        result = call(probe, rows, views)
        if not isinstance(result, list):
            seen[0] += int(rows.size + result.size)
        return result

    def counted_gathered(probe: Any, rows: Any, *rest: Any) -> Any:
        result = gathered(probe, rows, *rest)
        if result is not None:
            seen[0] += int(rows.size) + sum(int(join.ends.sum() - join.begins.sum()) for join in result[1])
        return result

    def counted_slices(scan: Any, *rest: Any) -> Iterator[Any]:
        for rows in slices(scan, *rest):
            seen[0] += int(rows.size)
            yield rows

    with (
        mock.patch.object(runner, "__call__", counted_call),
        mock.patch.object(runner, "gathered", counted_gathered),
        mock.patch.object(lookups.Scan, "slices", counted_slices),
    ):
        yield seen


def work(text: str, facts: Mapping[str, Rows], **options: Any) -> tuple[int, dict[str, int]]:
    """The work of a run, and how many facts it finds."""
    with counting() as seen, sempre.Database(text, modules="off", threads=1, **options) as db:
        changes = db.apply(insert=facts)
        return seen[0], dict(changes.report.added)


def spread(name: str, orders: int) -> list[int]:
    """The work of a program in so many random orders, least first."""
    make_text, make_facts = SUBJECTS[name]
    text = make_text()
    facts = {
        relation: [tuple(row) for row in np.asarray(rows, object).tolist()] for relation, rows in make_facts().items()
    }
    found = [work(shuffled(text, random.Random(seed)), facts) for seed in range(orders)]
    assert all(added == found[0][1] for _, added in found), f"{name}: orders find different facts"
    return sorted(effort for effort, _ in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=list(SUBJECTS))
    parser.add_argument("--orders", type=int, default=50)
    arguments = parser.parse_args()
    for name in arguments.only:
        found = spread(name, arguments.orders)
        print(f"{name:16} least {found[0]:12,}  most {found[-1]:12,}  ratio {found[-1] / found[0]:.2f}", flush=True)


if __name__ == "__main__":
    main()
