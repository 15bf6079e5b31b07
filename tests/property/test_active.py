"""Active rules equal the oracle: every cycle's facts and numbers, whenever and wherever updates change the past."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from sempre.active.active_engine import ActiveEpoch
from sempre.diagnostics import DataError
from sempre.lang.printer import to_text
from tests.budget import seeds
from tests.chains import Subject, check_chains
from tests.engine import updated
from tests.oracle.active import Given, Run, own_facts, put, run
from tests.oracle.naive import Facts
from tests.oracle.values import OracleError
from tests.property.active_programs import ActiveCase, Wait, random_case

pytestmark = pytest.mark.oracle
BATCH = 50
CASES = 400


class Check:
    """One case, driven cycle by cycle."""

    def __init__(self, case: ActiveCase) -> None:
        self.case = case
        self.subject = Subject(case.program)
        self.given: Given = {}
        self.records = 0

    def run(self) -> str:
        """`ended` or `endless`, after comparing everything."""
        explicit = updated(own_facts(self.case.program), self.case.facts, {})
        epoch = self.subject.engine.begin()
        epoch.absorb(self.subject.encoded(explicit), {})
        where = f"\n{to_text(self.case.program)}\ninput {explicit}"
        for step in self.case.script:
            if not self._advance(epoch, explicit, step.wait, where):
                return "endless"
            insert, delete = step.update
            if step.cycle:
                self.given = put(self.given, step.cycle, insert, delete)
            else:
                explicit = updated(explicit, insert, delete)
            epoch.absorb(self.subject.encoded(insert), self.subject.encoded(delete), step.cycle)
            cycles = epoch.inference.timeline.cycles
            where += f"\nafter {cycles} cycles, in cycle {step.cycle}: insert {insert}, delete {delete}"
        if not self._advance(epoch, explicit, None, where):
            return "endless"
        expected = run(self.case.program, explicit, given=self.given)
        assert expected.ended, where
        assert epoch.inference.timeline.cycles == expected.cycles, where
        self.records = check_chains(self.subject, epoch.inference.timeline, expected, where)
        self._check_changes(epoch, expected)
        return "ended"

    def _advance(self, epoch: ActiveEpoch, explicit: Facts, wait: Wait, where: str) -> bool:
        """Some cycles, or all; False if the run on this input repeats itself, as the oracle says too."""
        try:
            while (wait is None or wait > 0) and epoch.advance():
                wait = None if wait is None else wait - 1
        except DataError as error:
            message = str(error)
        else:
            return True
        if "E510" in message:  # a sum that grows until it does not fit
            with pytest.raises(OracleError):
                run(self.case.program, explicit, given=self.given)
            return False
        expected = run(self.case.program, explicit, given=self.given)
        assert not expected.ended, where
        assert ("E541" if not expected.period else f"period of {expected.period}:") in message, where
        return False

    def _check_changes(self, epoch: ActiveEpoch, expected: Run) -> None:
        result = self.subject.engine.commit(epoch)
        found = {
            (name, row) for name, change in result.changes.items() for row in self.subject.decoded(name, change.plus)
        }
        assert found == expected.databases[-1]
        assert not any(len(change.minus) for change in result.changes.values())


@pytest.mark.parametrize("start", range(0, CASES, BATCH))
def test_random_cases(start: int) -> None:
    outcomes = Counter(Check(random_case(random.Random(seed))).run() for seed in range(start, start + BATCH))
    assert outcomes["ended"] > BATCH / 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 40_000, 10_000))
def test_thousands_of_random_cases(first: int) -> None:
    for seed in seeds(first, 40):
        Check(random_case(random.Random(seed))).run()
