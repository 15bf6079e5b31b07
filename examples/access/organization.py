"""Makes the tables of an organization, and what changes there in three days."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DEPARTMENTS = ("engineering", "finance", "legal", "marketing", "operations", "people", "research", "sales")
PLACES = ("berlin", "boston", "lagos", "lima", "oslo", "pune", "quito", "seoul")
FIRST = ("ada", "ben", "chi", "dora", "eli", "fay", "gus", "hana", "ivo", "june", "kofi", "lena", "max", "nia", "omar")
LAST = ("abe", "blum", "cruz", "diaz", "eze", "falk", "gray", "hart", "ito", "jung", "khan", "lind", "moss", "novak")
COLUMNS = {
    "member": ("person", "team"),
    "within": ("inner", "outer"),
    "grant": ("team", "dataset"),
    "blocked": ("person", "dataset"),
}

Facts = dict[str, list[tuple[str, ...]]]
# What a day deletes and what it inserts.
Day = tuple[str, Facts, Facts]


def organization(people: int, seed: int = 7) -> Facts:
    """Every relation of access.dl; the same for the same seed."""
    rng = random.Random(seed)
    squads = [f"{d}-{p}-{n}" for d in DEPARTMENTS for p in PLACES for n in (1, 2, 3)]
    within: list[tuple[str, ...]] = [(squad, squad[:-2]) for squad in squads]
    within += [(f"{d}-{p}", d) for d in DEPARTMENTS for p in PLACES]
    within += [(d, "everyone") for d in DEPARTMENTS]
    names = [f"{rng.choice(FIRST)}.{rng.choice(LAST)}.{n}" for n in range(people)]
    datasets = [f"dataset-{n}" for n in range(400)]
    # Wide teams are granted little.
    wide = [*DEPARTMENTS, *(f"{d}-{p}" for d in DEPARTMENTS for p in PLACES), "everyone"]
    grants = {(rng.choice(squads if rng.random() < 0.85 else wide), d) for d in datasets for _ in range(4)}
    return {
        "member": [(name, rng.choice(squads)) for name in names],
        "within": within,
        "grant": sorted(grants),
        "blocked": sorted({(rng.choice(names), rng.choice(datasets)) for _ in range(people // 5)}),
    }


def three_days(facts: Facts) -> list[Day]:
    """What happens after the first load, a day at a time."""
    (mover, old_team), (leaver, last_team) = facts["member"][:2]
    revoked = [pair for pair in facts["grant"] if pair[0].startswith("finance-")][:3]
    blocked = facts["blocked"][0]
    return [
        (
            "two people join, one moves, one leaves",
            {"member": [(mover, old_team), (leaver, last_team)]},
            {"member": [("new.hire.1", "research-oslo-1"), ("new.hire.2", "sales-lima-2"), (mover, "legal-oslo-1")]},
        ),
        (
            "three grants are revoked, one is given",
            {"grant": revoked},
            {"grant": [("legal-oslo", "dataset-0")]},
        ),
        (
            "sales in Lima now reports to marketing; one block is lifted, one is put",
            {"within": [("sales-lima", "sales")], "blocked": [blocked]},
            {"within": [("sales-lima", "marketing")], "blocked": [(mover, "dataset-0")]},
        ),
    ]


def write_tables(folder: Path, facts: Facts, parts: int = 2) -> None:
    """Write each relation as a folder of Parquet files, as a job on a cluster would have left it."""
    for relation, rows in facts.items():
        table = _table(relation, rows)
        target = folder / f"{relation}.parquet"
        target.mkdir(parents=True, exist_ok=True)
        step = -(-table.num_rows // parts)
        for part in range(parts):
            pq.write_table(table.slice(part * step, step), target / f"part-{part}.parquet")


def write_day(folder: Path, day: Day) -> None:
    """Write a change folder: `R.insert.parquet` and `R.delete.parquet`."""
    _, delete, insert = day
    folder.mkdir(parents=True, exist_ok=True)
    for word, facts in (("delete", delete), ("insert", insert)):
        for relation, rows in facts.items():
            pq.write_table(_table(relation, rows), folder / f"{relation}.{word}.parquet")


def _table(relation: str, rows: list[tuple[str, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({name: pa.array(values) for name, values in zip(COLUMNS[relation], columns, strict=True)})
