"""How workers would divide rules, as `sempre check --show distribution` says it."""

from __future__ import annotations

import sempre
from sempre.explain.distribution import distribution
from sempre.modules.find import modularize

TEXT = """
.decl edge(x: number, y: number)
.decl block(x: number)
.decl path(x: number, y: number)
.decl none()
.decl total(x: number, n: number)
.output path, total, none
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z), !block(z).
none() :- path(7, x), edge(3, x).
total(x, n) :- edge(x, _), n = count : { path(x, y), edge(y, _z) }.
"""
FOUND = """
edge: each row at the owner of its x; at every worker up to 131,072 rows
block: each row at the owner of its x; at every worker up to 131,072 rows
path: each row at the owner of its x
none: at one worker
total: each row at the owner of its x; at every worker up to 131,072 rows
rule 0: path(x, y) :- edge(x, y).
  each worker begins with its rows of edge
  heads are at home
rule 1, new facts in literal 1: path(x, z) :- path(x, y), edge(y, z), !block(z).
  each worker begins with its rows of path
  bindings travel to the owner of y: x, y
  local lookups: edge
  bindings travel to the owner of z: x, z
  local lookups: block
  heads travel to the owner of x
"""


def test_what_is_local_and_what_travels() -> None:
    assert distribution(sempre.Program(TEXT).checked).startswith(FOUND.lstrip())


def test_nested_bodies_and_heads_without_columns() -> None:
    found = distribution(sempre.Program(TEXT).checked)
    assert "heads travel to one worker" in found
    assert "a nested body is decided elsewhere: what it shares travels there, and the answer comes back" in found


CLOSURES = """
.decl edge(x: number, y: number)
.decl path(x: number, y: number)
.decl near(x: number, y: number)
.output path, near
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), path(y, z).
near(x, y) :- edge(x, y).
near(x, z) :- near(x, y), near(y, z).
near(x, y) :- near(y, x), edge(y, _), edge(x, _).
"""


def test_modules_say_how_they_are_shared() -> None:
    parts = modularize(sempre.Program(CLOSURES).checked)
    found = distribution(parts.program, parts.modules).splitlines()
    assert "tc(path): its edges go to all workers, and each finds what begins with the values it owns" in found
    assert "tc(near) is left out: on workers one module must do all the recursion of a stratum" in found
