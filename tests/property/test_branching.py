"""Algebraic types: the engine equals the oracle after every epoch, and what is written is read again."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

import sempre
from sempre.analysis.model import Kind
from sempre.cli import main
from sempre.files.records import format_record
from sempre.lang.printer import to_text
from tests.budget import seeds
from tests.engine import STRATEGIES, check_epochs, lists
from tests.property.branching import BASES, branching_case
from tests.rows import plain

pytestmark = pytest.mark.oracle
CASES = 4
SEEDS = {strategy: 1_000 * number for number, strategy in enumerate(STRATEGIES)}


def check(seed: int, strategy: str, **options: Any) -> None:
    case = branching_case(random.Random(seed))
    check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, verifying=seed % 3 == 0, **options)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_values_of_algebraic_types(strategy: str) -> None:
    for seed in range(SEEDS[strategy], SEEDS[strategy] + CASES):
        check(seed, strategy)


@pytest.mark.slow
@pytest.mark.parametrize("first", [100_000, 200_000])
def test_many_programs_with_algebraic_types(first: int) -> None:
    for seed in seeds(first, 60):
        for strategy in STRATEGIES:
            check(seed, strategy)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_is_read_again(seed: int, tmp_path: Path) -> None:
    """Through Arrow, tuples, a store and its reopening, text and JSON."""
    case = branching_case(random.Random(seed))
    text = to_text(case.program)
    store = tmp_path / "store"
    with sempre.Database(text, store=store) as db:
        db.apply(insert=lists(case.facts))
        expected = {name: sorted(map(plain, db[name]), key=repr) for name in db.program.relations}
        tables = {name: db[name].to_arrow() for name in case.facts}
    with sempre.Database(text, store=store) as again:
        assert {name: sorted(map(plain, again[name]), key=repr) for name in expected} == expected
        assert again.verify().ok
        for row in case.facts["tree"]:
            assert row in again["tree"]
    with sempre.Database(text) as db:
        db.apply(insert=tables)
        assert {name: sorted(map(plain, db[name]), key=repr) for name in expected} == expected


@pytest.mark.parametrize("seed", range(4))
def test_files_of_every_layout_say_the_same(seed: int, tmp_path: Path) -> None:
    """From text to JSON, from JSON to text between commas, from there to Parquet and back."""
    case = branching_case(random.Random(seed))
    declarations = to_text(case.program).split("made(t)")[0].rsplit("\n", 1)[0]
    checked = sempre.Program(declarations)
    given = tmp_path / "0"
    given.mkdir()
    for name in BASES:
        relation = checked.relations[name]
        lines = [
            "\t".join(
                format_record(value, type_, checked.checked.types) if type_.kind is Kind.RECORD else str(value)
                for value, type_ in zip(row, relation.types, strict=True)
            )
            for row in case.facts[name]
        ]
        (given / f"{name}.facts").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    layouts = [
        "",
        '(IO=json, filename="{}.json")',
        '(delimiter=",", filename="{}.x")',
        '(IO=parquet, filename="{}.p")',
        "",
    ]
    for number, (before, after) in enumerate(itertools.pairwise(layouts)):
        source, target = tmp_path / str(number), tmp_path / str(number + 1)
        options = after or '(filename="{}.facts")'
        directives = "".join(
            f".input {name}{before.format(name)}\n.output {name}{options.format(name)}\n" for name in BASES
        )
        (tmp_path / "copy.dl").write_text(declarations + "\n" + directives, "utf-8")
        assert main(["run", str(tmp_path / "copy.dl"), "-F", str(source), "-D", str(target), "--on", "local"]) == 0
    for name in BASES:
        first, last = ((tmp_path / at / f"{name}.facts").read_text("utf-8") for at in ("0", "4"))
        assert sorted(first.split("\n")) == sorted(last.split("\n"))
