"""Values of every type mean the same to every evaluator: the oracle, `run` with every strategy, and nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sempre
from sempre.kernel import functors, reduce
from sempre.kernel.float_sums import float_sum
from sempre.network import python_functors
from sempre.network.assembly import make_network
from sempre.network.simulate import Adversary, Rounds
from tests.engine import STRATEGIES
from tests.oracle.values import OracleError, canonical
from tests.property.networks import Case, difference
from tests.property.valued import by_relation, registered, valued_case

pytestmark = pytest.mark.oracle


@pytest.fixture(autouse=True)
def python() -> Iterator[None]:
    with registered():
        yield


def check_nodes(case: Case, meant: Case, seed: int) -> bool:
    """Runs a case on nodes, in two orders; whether it has a result at all."""
    try:
        expected = meant.central()
    except OracleError:
        return False
    for schedule in (Rounds(), Adversary(seed, overlap=0.1)):
        network = make_network(case.checked, limit=400_000)
        network.run(case.bursts, schedule)
        assert difference(case, network, expected) == "", seed
    return True


def test_nodes_give_the_central_result() -> None:
    done = sum(check_nodes(*valued_case(random.Random(seed)), seed) for seed in range(150))
    assert done > 75


def check_strategies(case: Case, meant: Case, strategy: str) -> bool:
    """Runs a case in one place, burst by burst; whether every state has a result."""
    try:
        truths = [meant.central(upto) for upto in range(1, len(case.bursts) + 1)]
    except OracleError:
        return False
    with sempre.Database(case.text, strategy=strategy) as db:
        for burst, expected in zip(case.bursts, truths, strict=True):
            db.apply(insert=by_relation(burst.insert), delete=by_relation(burst.delete))
            for name, rows in expected.items():
                have = {canonical(row) for row in db[name]}
                assert have == rows, f"{case.text}\n{case.bursts}\n{name}: {have ^ rows}"
        assert db.verify().ok
    return True


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_gives_what_the_oracle_gives(strategy: str) -> None:
    cases = [valued_case(random.Random(f"{strategy} {seed}")) for seed in range(12)]
    assert sum(check_strategies(*pair, strategy) for pair in cases) > 6


# ----------------------------------------------------------------------------------------------- planted defects


def found(check: Callable[[int], bool]) -> bool:
    """Whether one of the cases fails."""
    for seed in range(400):
        try:
            check(seed)
        except AssertionError:
            return True
    return False


def rounded_parts(patch: pytest.MonkeyPatch) -> None:
    """What a node tells of a sum is rounded."""
    patch.setattr(reduce, "float_parts", lambda terms: (float_sum(terms),))


def sums_in_order(patch: pytest.MonkeyPatch) -> None:
    """Nodes add floats in the order in which they come."""
    patch.setattr(reduce, "float_sum", lambda terms: python_functors.canonical(sum(terms)))


def nan_first(patch: pytest.MonkeyPatch) -> None:
    """NaN is the least float for nodes."""
    original = reduce.float_rank
    patch.setattr(reduce, "float_rank", lambda value: original(value) if value == value else -(1 << 62))


def other_nans(patch: pytest.MonkeyPatch) -> None:
    """Every NaN of a functor is an object of its own."""
    patch.setattr(python_functors, "NAN", float("nan"))


@pytest.mark.parametrize("defect", [rounded_parts, sums_in_order, nan_first, other_nans])
def test_a_defect_of_nodes_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    assert found(lambda seed: check_nodes(*valued_case(random.Random(seed)), seed))


def rows_in_order(patch: pytest.MonkeyPatch) -> None:
    """The kernel adds floats in the order of the rows."""

    def naive(values: Any, starts: Any, _: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.add.reduceat(values, starts)

    patch.setattr(reduce, "float_sums", naive)


def codes_order_symbols(patch: pytest.MonkeyPatch) -> None:
    """The least symbol is the one that was numbered first."""
    patch.setattr(reduce, "_text_ranks", lambda _, column: np.unique(column, return_inverse=True))


def nan_in_everything(patch: pytest.MonkeyPatch) -> None:
    """The lesser of a number and NaN is NaN."""
    patch.setitem(functors.NUMERIC, ("float", "min"), functors._float2(np.minimum))


@pytest.mark.parametrize("defect", [rows_in_order, codes_order_symbols, nan_in_everything])
def test_a_defect_of_the_kernel_is_found(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    assert found(lambda seed: check_strategies(*valued_case(random.Random(seed)), "auto"))
