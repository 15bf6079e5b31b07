"""Semi-naive evaluation considers every rule instance exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import sempre
from sempre.backends.bindings import Bindings, Views
from sempre.backends.local import CompiledPlan, LocalBackend
from sempre.lang.printer import to_text
from sempre.limits import Limits
from tests.engine import lists, updated
from tests.oracle.clauses import clauses_of
from tests.oracle.counters import aggregated, instances
from tests.oracle.naive import explicit_facts, materialize
from tests.property.programs import Case, random_case

pytestmark = pytest.mark.oracle


class Considered:
    """Counts the instances that plans find, per relation; rules that close an `eqrel` are not counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total: Counter[str] = Counter()
        self.rules = 0
        run = LocalBackend._run

        def counting(
            backend: LocalBackend,
            prepared: CompiledPlan,
            views: Views,
            sink: Callable[[Bindings], None],
            counted: bool,
            counts: bool = True,
        ) -> None:
            def observe(rows: Bindings) -> None:
                assert rows.weights is not None
                if prepared.plan.rule.number < self.rules:
                    self.total[prepared.plan.relation] += int(rows.weights.sum())
                sink(rows)

            run(backend, prepared, views, observe, True)

        monkeypatch.setattr(LocalBackend, "_run", counting)

    def by(self, case: Case) -> Counter[str]:
        """The instances considered while the facts of a case are materialized."""
        program = sempre.Program(to_text(case.program))
        self.total, self.rules = Counter(), len(program.checked.rules)
        # A walk finds instances without running plans; its counts are compared where counters are.
        limits = Limits(walk_after=1 << 30)
        with sempre.Database(program, strategy="recompute", modules="off", limits=limits) as db:
            db.materialise(lists(case.facts))
        return self.total


def held(case: Case) -> Counter[str]:
    """The instances that hold in the final state."""
    explicit = updated(explicit_facts(case.program), case.facts, {})
    counts = instances(case.program, explicit, materialize(case.program, explicit))
    total = Counter({name: sum(map(sum, rows.values())) for name, rows in counts.items()})
    total.subtract({name: len(rows) for name, rows in explicit.items()})
    return +total


def test_every_instance_is_considered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    considered: Any = Considered(monkeypatch)
    compared = 0
    for seed in range(250):
        case = random_case(random.Random(seed))
        if not aggregated(clauses_of(case.program)):  # better values replace others there, with their instances
            assert +considered.by(case) == held(case), f"seed {seed}\n{to_text(case.program)}"
            compared += 1
    assert compared > 200
