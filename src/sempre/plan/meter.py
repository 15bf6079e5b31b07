"""What rules and rounds cost, measured while strata are evaluated, for whoever asks for a profile."""

from __future__ import annotations

import time
from dataclasses import field
from typing import Any

from sempre.analysis.model import NormalRule
from sempre.data import dataclass


@dataclass(slots=True)
class RuleCost:
    """What the plans of one rule have cost: how often they ran, for how long, and how many instances they found."""

    rule: NormalRule
    runs: int = 0
    seconds: float = 0.0
    instances: int = 0


@dataclass(slots=True)
class Meter:
    """What has been measured of one stratum: its rules, and what every round found and when it ended.

    Rules are measured where they run one by one, which is in the driver. What a module does, or a search that follows
    facts one by one through all rules, belongs to no rule.
    """

    rules: dict[int, RuleCost] = field(default_factory=dict)
    rounds: list[tuple[int, float]] = field(default_factory=list)
    _began: float = 0.0

    def begin(self) -> None:
        """A stratum begins, perhaps again at another place."""
        self.rules.clear()
        self.rounds.clear()
        self._began = time.perf_counter()

    def ran(self, rule: NormalRule, seconds: float, instances: int) -> None:
        """A plan of a rule was run."""
        cost = self.rules.get(rule.number)
        if cost is None:
            cost = self.rules[rule.number] = RuleCost(rule)
        cost.runs += 1
        cost.seconds += seconds
        cost.instances += instances

    def round(self, facts: int) -> None:
        """A round has found so many facts."""
        self.rounds.append((facts, time.perf_counter() - self._began))

    def taken(self, rules: tuple[NormalRule, ...]) -> dict[str, Any]:
        """What was measured, as a report has it; `rules` are those of the stratum, in their order."""
        known = [self.rules.get(rule.number, RuleCost(rule)) for rule in rules]
        numbers = {rule.number for rule in rules}
        others = [cost for number, cost in self.rules.items() if number not in numbers]
        return {
            "rules": [
                {
                    "rule": cost.rule.text or f"{cost.rule.relation}(...)",
                    "line": str(cost.rule.span) if cost.rule.span.line else "",
                    "runs": cost.runs,
                    "seconds": cost.seconds,
                    "instances": cost.instances,
                }
                for cost in (*known, *others)
            ],
            "found": [list(each) for each in self.rounds],
        }
