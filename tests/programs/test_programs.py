"""Programs as Soufflé's users write them, with results that a person has worked out.

`NAME.dl` is the program, `NAME.expected` the rows of its outputs: `== relation`, and then a line for each row, sorted,
with tabs between the columns. Facts stand in the program. Every strategy must come to these rows, and keep to the state
of a run from scratch while the explicit facts go one by one and come back.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import sempre
from tests.engine import STRATEGIES, UNHURRIED
from tests.rows import plain

HERE = Path(__file__).parent
PROGRAMS = sorted(HERE.glob("*.dl"))
MOST_FACTS = 12


def expected(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.with_suffix(".expected").read_text("utf-8").splitlines():
        if line.startswith("== "):
            rows = found.setdefault(line[3:], [])
        else:
            rows.append(line)
    return found


def outputs(db: sempre.Database) -> dict[str, list[str]]:
    wanted = [name for name, relation in db.program.relations.items() if relation.outputs]
    return {name: sorted("\t".join(str(plain(value)) for value in row) for row in db[name]) for name in wanted}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_strategy_finds_and_keeps_the_results(path: Path, strategy: str) -> None:
    program = sempre.Program.from_file(path)
    with sempre.Database(program, strategy=strategy, limits=UNHURRIED) as db:
        db.materialise({})
        assert outputs(db) == expected(path)
        stated: dict[str, list[tuple[object, ...]]] = {}
        for fact in program.checked.facts[:MOST_FACTS]:
            if not all(hasattr(arg, "value") for arg in fact.args):
                continue
            row = tuple(arg.value for arg in fact.args)  # type: ignore[union-attr]  # constants, as just seen
            db.apply(delete={fact.relation: [row]})
            assert db.verify().ok, f"after the deletion of {fact}"
            stated.setdefault(fact.relation, []).append(row)
        db.apply(insert=stated)
        assert outputs(db) == expected(path)
