"""A genealogy and rules about it: many roles with their inverses, and a few closures that are most of the work.

160 recursive rules. Five relations are transitive (`has_ancestor`, `is_ancestor`, `has_forefather`, `is_forefather`,
`has_foremother`), three symmetric and transitive (`sibling`, `clan`, `related`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

GENERATIONS, UNCLES, COUSINS = 5, 4, 4
GENDERS = {"": "", "_m": ", male(y)", "_f": ", female(y)"}
SIDES = {"": "has_gen1", "_paternal": "has_father", "_maternal": "has_mother"}
FOUNDED, GROWN = 1700, 30
BASE = """
.decl has_father(x: number, y: number)
.decl has_mother(x: number, y: number)
.decl male(x: number)
.decl female(x: number)
.decl partner(x: number, y: number)
.decl twin(x: number, y: number)
.decl born(x: number, year: number)
.decl lives_in(x: number, place: number)
"""
CLOSED = """
.decl sibling(x: number, y: number)
sibling(x, y) :- has_father(x, z), has_father(y, z).
sibling(y, x) :- sibling(x, y).
sibling(x, z) :- sibling(x, y), sibling(y, z).
.decl clan(x: number, y: number)
clan(x, y) :- has_father(x, y).
clan(y, x) :- clan(x, y).
clan(x, z) :- clan(x, y), clan(y, z).
clan(x, z) :- clan(x, y), twin(y, z).
.decl related(x: number, y: number)
related(x, y) :- has_gen1(x, y).
related(x, y) :- partner(x, y).
related(y, x) :- related(x, y).
related(x, z) :- related(x, y), related(y, z).
"""


def program() -> str:
    """The rules."""
    return BASE + "\n".join((*_roles(), *_ancestors("ancestor", "has_gen1"), CLOSED))


def _roles() -> Iterator[str]:
    """71 roles, each with its inverse: `has_R(x, y)` and `is_R(y, x)` say that `y` is the R of `x`."""
    bodies = ("has_father(x, y)", "has_mother(x, y)")
    for generation in range(1, GENERATIONS + 1):
        for suffix, test in GENDERS.items():
            above = (f"has_gen{generation - 1}(x, z), has_gen1(z, y)",) if generation > 1 else bodies
            yield from _role(f"gen{generation}{suffix}", *(body + test for body in above))
    for name, gender in (("brother", "male"), ("sister", "female")):
        yield from _role(name, f"sibling(x, y), {gender}(y), x != y")
    for generation in range(1, UNCLES + 1):
        for (side, parent), (suffix, test) in ((s, g) for s in SIDES.items() for g in GENDERS.items()):
            up = f"{parent}(x, z)" if generation == 1 else f"{parent}(x, w), has_gen{generation - 1}(w, z)"
            yield from _role(f"uncle{generation}{side}{suffix}", f"{up}, sibling(z, y), z != y{test}")
    for degree in range(1, COUSINS + 1):
        for suffix, test in GENDERS.items():
            shared = f"has_gen{degree}(x, a), sibling(a, b), a != b, has_gen{degree}(y, b)"
            yield from _role(f"cousin{degree}{suffix}", shared + test)
    for suffix, test in GENDERS.items():
        yield from _role(f"parent_in_law{suffix}", f"partner(x, z), has_gen1(z, y){test}")
        yield from _role(f"sibling_in_law{suffix}", f"partner(x, z), sibling(z, y), z != y{test}")


def _role(name: str, *bodies: str) -> Iterator[str]:
    yield f".decl has_{name}(x: number, y: number)\n.decl is_{name}(x: number, y: number)"
    for body in bodies:
        yield f"has_{name}(x, y) :- {body}."
    yield f"is_{name}(y, x) :- has_{name}(x, y).\nhas_{name}(x, y) :- is_{name}(y, x)."


def _ancestors(name: str, parent: str) -> Iterator[str]:
    """Ancestors and the lines of fathers and of mothers, each transitive, with their inverses."""
    lines = ((name, parent, True), ("forefather", "has_father", True), ("foremother", "has_mother", False))
    for line, step, both in lines:
        yield from _role(line, f"{step}(x, y)")
        yield f"has_{line}(x, z) :- has_{line}(x, y), has_{line}(y, z)."
        if both:
            yield f"is_{line}(x, z) :- is_{line}(x, y), is_{line}(y, z)."


# -------------------------------------------------------------------------------------------------------- facts


def facts(people: int, family: int, seed: int = 7) -> dict[str, pa.Table]:
    """A genealogy of families that have nothing to do with each other; about seven facts for each of the people."""
    dice = random.Random(seed)
    rows: dict[str, list[tuple[int, ...]]] = {
        name: [] for name in ("has_father", "has_mother", "male", "female", "partner", "twin", "born", "lives_in")
    }
    person = 0
    while person < people:
        person = _family(person, min(family, people - person), rows, dice)
    columns = {name: ("x", "year" if name == "born" else "place" if name == "lives_in" else "y") for name in rows}
    tables = {}
    for name, found in rows.items():
        array = np.array(found, np.int64).reshape(len(found), len(found[0]) if found else 2)
        tables[name] = pa.table({columns[name][i]: array[:, i] for i in range(array.shape[1])})
    return tables


def _family(first: int, size: int, rows: dict[str, list[tuple[int, ...]]], dice: random.Random) -> int:
    """One family of `size` people from `first` on; returns the number after its last."""
    end = first + size
    person = first

    def made(year: int) -> tuple[int, int]:
        nonlocal person
        person += 1
        new = person - 1
        rows["born"].append((new, year))
        rows["lives_in"].append((new, dice.randrange(500)))
        return new, year

    def couple(one: tuple[int, int], is_male: bool) -> None:
        """A partner for somebody, and the two in line for children."""
        rows["male" if is_male else "female"].append((one[0],))
        if person < end:
            other = made(one[1])
            rows["female" if is_male else "male"].append((other[0],))
            rows["partner"] += [(one[0], other[0]), (other[0], one[0])]
            couples.append((one[0], other[0], one[1]) if is_male else (other[0], one[0], one[1]))

    couples: list[tuple[int, int, int]] = []
    couple(made(FOUNDED), True)
    while couples and person < end:
        father, mother, year = couples.pop(0)
        for number in range(dice.randint(2, 4)):
            if person < end:
                child = made(year + GROWN + number)
                rows["has_father"].append((child[0], father))
                rows["has_mother"].append((child[0], mother))
                if number and dice.random() < 0.02:
                    rows["twin"].append((child[0], rows["has_father"][-2][0]))
                couple(child, dice.random() < 0.5)
    return person
