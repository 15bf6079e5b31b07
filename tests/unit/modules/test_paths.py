"""Paths searched from chosen first values are the facts that a database derives."""

from __future__ import annotations

import random

import numpy as np

import sempre
from sempre.modules.find import modularize
from sempre.modules.graph import Paths

PROGRAM = """
.decl e(x: number, y: number)
.decl d(x: number, y: number)
.decl c(x: number, y: number)
c(x, y) :- e(x, y).
c(x, z) :- c(x, y), c(y, z).
.decl p(x: number, y: number)
p(x, y) :- d(y, x).
p(x, z) :- p(x, y), c(y, z).
p(x, z) :- p(x, y), d(y, z).
"""


def test_values_in_several_final_states_come_once() -> None:
    rng = random.Random(1)
    facts = {name: {(rng.randrange(12), rng.randrange(12)) for _ in range(15)} for name in "ed"}
    with sempre.Database(PROGRAM) as db:
        db.apply(insert={name: sorted(rows) for name, rows in facts.items()})
        parts = modularize(db.program.checked)
        module = next(m for modules in parts.modules.values() for m in modules if m.heads == ("p",))
        assert module.paths is not None
        assert len(module.paths.finals["p"]) == 2
        given = {"c": sorted(db["c"]), "d": sorted(db["d"]), "p": sorted((y, x) for x, y in db["d"])}
        paths = Paths(module, {name: _columns(rows) for name, rows in given.items()})
        for share in (0, 1):
            found = [
                (int(x), int(y))
                for xs, ys in paths.leading_from("p", paths.values % 2 == share)
                for x, y in zip(xs, ys, strict=True)
            ]
            assert len(found) == len(set(found))
            assert set(found) == {row for row in db["p"] if row[0] % 2 == share}


def _columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(rows, np.int64)
    return table[:, 0], table[:, 1]
