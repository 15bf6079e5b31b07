"""Makes the facts of a company of 2,000 people, and what changes there the next day."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

DEPARTMENTS = ("engineering", "finance", "legal", "marketing", "operations", "people", "research", "sales")
PLACES = ("berlin", "boston", "lagos", "lima", "oslo", "pune", "quito", "seoul")
FIRST = ("ada", "ben", "chi", "dora", "eli", "fay", "gus", "hana", "ivo", "june", "kofi", "lena", "max", "nia", "omar")
LAST = ("abe", "blum", "cruz", "diaz", "eze", "falk", "gray", "hart", "ito", "jung", "khan", "lind", "moss", "novak")
PEOPLE = 2_000
FOLDERS = 300

Facts = dict[str, list[tuple[str, ...]]]


def company(seed: int = 7) -> Facts:
    """Every relation of access.dl; the same for the same seed."""
    rng = random.Random(seed)
    squads = [f"{d}-{p}-{n}" for d in DEPARTMENTS for p in PLACES for n in (1, 2)]
    within = [(squad, squad[:-2]) for squad in squads]
    within += [(f"{d}-{p}", d) for d in DEPARTMENTS for p in PLACES]
    within += [(d, "everyone") for d in DEPARTMENTS]
    people = [f"{rng.choice(FIRST)}.{rng.choice(LAST)}.{n}" for n in range(PEOPLE)]
    teams = sorted({team for pair in within for team in pair})
    folders = [f"folder-{n}" for n in range(FOLDERS)]
    holds = [(folder, f"{folder}/doc-{n}") for folder in folders for n in range(rng.randint(2, 9))]
    # Wide teams are granted little, and some folders were never granted to anyone.
    shared = folders[: FOLDERS * 49 // 50]
    grants = [(rng.choice(squads if rng.random() < 0.8 else teams), folder) for folder in shared for _ in range(3)]
    return {
        "member": [(person, rng.choice(squads)) for person in people],
        "within": within,
        "grant": sorted(set(grants)),
        "holds": holds,
        "blocked": sorted({(rng.choice(people), rng.choice(holds)[1]) for _ in range(400)}),
    }


def next_day(facts: Facts) -> str:
    """A change script: one person moves, a team is closed, a block is lifted."""
    person, team = facts["member"][0]
    blocked = facts["blocked"][0]
    lines = [
        f'-member("{person}", "{team}").',
        f'+member("{person}", "legal-oslo-1").',
        '-within("sales-lima", "sales").',
        f'-blocked("{blocked[0]}", "{blocked[1]}").',
        "commit.",
    ]
    return "\n".join(lines) + "\n"


def write(folder: Path, facts: Facts) -> None:
    """Write `R.facts` for every relation."""
    folder.mkdir(parents=True, exist_ok=True)
    for relation, rows in facts.items():
        (folder / f"{relation}.facts").write_text(_lines(rows), "utf-8")


def _lines(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)
