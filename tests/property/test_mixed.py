"""Everything in one component, up to hundreds of relations, and values that outgrow their columns.

Some cases walk from the first round on, so that compiled code sees what else only long chains would bring to it. The
defects that these programs were made for are planted again, and found; `verify()` finds them as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.analysis.model import Kind
from sempre.backends import ordering
from sempre.backends import walk_code as walks
from sempre.kernel import compiled, join
from sempre.kernel.trace import within
from sempre.lang.printer import to_text
from tests.budget import seeds
from tests.engine import STRATEGIES, UNHURRIED, check_epochs, lists, truths
from tests.property.mixed import MANY, mixed_case
from tests.property.programs import Case

pytestmark = pytest.mark.oracle
CASES = 6
WALKING = replace(UNHURRIED, walk_after=0)
SEEDS = {strategy: 10_000 * number for number, strategy in enumerate(STRATEGIES)}


@pytest.fixture(autouse=True)
def ready() -> None:
    compiled.load(wait=True)


def epochs_of(case: Case) -> list[Any]:
    return [(case.facts, {}), *case.updates]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_mixed_cases(strategy: str) -> None:
    for seed in range(SEEDS[strategy], SEEDS[strategy] + CASES):
        rng = random.Random(seed)
        case = mixed_case(rng, rng.randint(1, 5))
        modules = rng.choice(("auto", "auto", "off"))
        check_epochs(case.program, epochs_of(case), strategy, verifying=seed % 3 == 0, modules=modules)


@pytest.mark.parametrize("strategy", ["recompute", "dredc", "bfc", "auto"])
def test_hundreds_of_relations(strategy: str) -> None:
    rng = random.Random(f"hundreds {strategy}")
    case = mixed_case(rng, rng.choice(MANY))
    check_epochs(case.program, epochs_of(case), strategy, limits=WALKING)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200_000, 205_000, 1_000))
def test_many_mixed_cases(first: int) -> None:
    """Every case with every strategy."""
    for seed in seeds(first, 80):
        rng = random.Random(seed)
        case = mixed_case(rng)
        epochs = epochs_of(case)
        expected = truths(case.program, epochs)
        for strategy in STRATEGIES:
            check_epochs(case.program, epochs, strategy, expected, verifying=seed % 4 == 0, limits=WALKING)


# --------------------------------------------------------------------------------------------- planted defects


def relations_in_eight_bits(patch: pytest.MonkeyPatch) -> None:
    """A walk tells relations apart by eight bits."""
    original = walks.WalkWriter.plan

    def plan(writer: Any, plan: Any, relations: Any, targets: Any) -> Any:
        first = len(writer.starts)
        found = original(writer, plan, relations, targets)
        emit = writer.starts[found[1]]
        assert found[0] == first
        assert writer.code[emit] == walks.EMIT
        writer.code[emit + 1] = (writer.code[emit + 1] + 128) % 256 - 128
        if writer.code[emit + 1] < 0:
            writer.code[emit + 1] += len(relations)  # stay inside of the arrays: another relation, not another memory
        return found

    patch.setattr(walks.WalkWriter, "plan", plan)


def one_set_of_slots(patch: pytest.MonkeyPatch) -> None:
    """Variables of all plans share slots, of which there are too few: later ones take those of earlier ones."""

    def slot(writer: Any, name: str) -> int:
        return int(writer.slots.setdefault(name, min(len(writer.slots), 0)))

    patch.setattr(walks.WalkWriter, "slot", slot)


def orderings_that_are_not_fitted(patch: pytest.MonkeyPatch) -> None:
    """A row with a value that some column has no room for is taken to stand nowhere."""
    original = ordering.Ordering.around

    def around(self: Any, rows: Any) -> Any:
        fits = within(ordering._sortable(rows.columns(), self._order), self._packing.fields)
        if self._order.kind is Kind.FLOAT:
            return original(self, rows)
        return original(self, type(rows)(rows.packing, rows.keys[fits]))

    patch.setattr(ordering.Ordering, "around", around)


def values_in_32_bits(patch: pytest.MonkeyPatch) -> None:
    """Memories hold what they have in 32 bits."""
    original = join.distinct

    def distinct(keys: Any) -> Any:
        found = original(keys)
        return original(found.astype(np.int32).astype(np.int64)) if found.dtype == np.int64 else found

    patch.setattr(join, "distinct", distinct)


Plant = Callable[[pytest.MonkeyPatch], None]
DEFECTS: dict[Plant, tuple[str, int | None]] = {
    relations_in_eight_bits: ("dredc", 200),
    one_set_of_slots: ("recompute", 3),
    orderings_that_are_not_fitted: ("dredc", 2),
    values_in_32_bits: ("recompute", 2),
}


def cases_for(relations: int | None) -> Iterator[Case]:
    for seed in range(4 if relations and relations > 100 else 90):
        yield mixed_case(random.Random(seed), relations)


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, relations = DEFECTS[plant]
    plant(monkeypatch)

    def is_wrong(case: Case) -> bool:
        try:
            check_epochs(case.program, epochs_of(case), strategy, limits=WALKING)
        except Exception:  # noqa: BLE001  # a defect may show as a wrong result or as any error
            return True
        return False

    assert any(map(is_wrong, cases_for(relations)))


@pytest.mark.parametrize("plant", [relations_in_eight_bits, orderings_that_are_not_fitted], ids=lambda p: p.__name__)
def test_verify_finds_a_planted_defect(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, relations = DEFECTS[plant]
    plant(monkeypatch)

    def finds(case: Case) -> bool:
        with sempre.Database(to_text(case.program), strategy=strategy, limits=WALKING) as db:
            for insert, delete in epochs_of(case):
                db.apply(insert=lists(insert), delete=lists(delete))
                if not db.verify().ok:
                    return True
        return False

    assert any(finds(case) for case in cases_for(relations))
