"""How interesting the random cases are: `python -m tests.property.shares [CASES]` prints the shares.

A case counts where something happens, not where a construct is merely written: a recursive rule derives a fact in its
second round or later, a negation removes an instance, an update changes a derived relation, and so on.
"""

from __future__ import annotations

import dataclasses
import random
import sys
from collections import Counter
from collections.abc import Iterator

from tests.engine import updated
from tests.oracle.clauses import Absent, Clause, Fold, clauses_of, variables
from tests.oracle.counters import aggregated, instances, iterations
from tests.oracle.naive import State, explicit_facts, fire, materialize
from tests.oracle.strata import stratify
from tests.property.programs import Case, random_case


def traits(case: Case) -> Iterator[str]:
    """What happens in the case."""
    explicit = updated(explicit_facts(case.program), case.facts, {})
    result = materialize(case.program, explicit)
    clauses = clauses_of(case.program)
    rounds = [row for rows in iterations(case.program, explicit).values() for row in rows.values()]
    counts = instances(case.program, explicit, result)
    if any(iteration > 1 for iteration, _ in rounds):
        yield "derives in the second round"
    if any(iteration > 2 for iteration, _ in rounds):
        yield "derives in the third round"
    if any(sum(row) > 1 for rows in counts.values() for row in rows.values()):
        yield "derives a fact twice"
    if any(len(s.relations) > 1 and all(result[n] for n in s.relations) for s in stratify(clauses)):
        yield "mutual recursion"
    if any(result[name] for name in clauses.schema.equivalences):
        yield "equivalence"
    if any(result[name] for name in aggregated(clauses)):
        yield "aggregate in a head"
    yield from _filters(case, State(result))
    yield from _updates(case)


def _filters(case: Case, state: State) -> Iterator[str]:
    for rule in clauses_of(case.program).rules:
        rest = tuple(literal for literal in rule.body if not isinstance(literal, Absent))
        fired = sum(1 for _ in fire(rule, state))
        if rest != rule.body and sum(1 for _ in fire(dataclasses.replace(rule, body=rest), state)) > fired:
            yield "negation removes"
        if fired and any(isinstance(literal, Fold) for literal in rule.body):
            yield "aggregate in a body"
            if any(_hides(literal, rule) for literal in rule.body if isinstance(literal, Fold)):
                yield "an aggregate's own variable has a name from outside"


def _hides(fold: Fold, rule: Clause) -> bool:
    """Whether what an aggregate ranges over has the name of a variable around it; the oracle marks it by `:own`."""
    own = {name for body in fold.bodies for literal in body for name in variables(literal) if ":own" in name}
    outside = {name for literal in rule.body for name in variables(literal)}
    return any(name.split(":own")[0] in outside for name in own)


def _updates(case: Case) -> Iterator[str]:
    explicit = updated(explicit_facts(case.program), case.facts, {})
    derived = {rule.relation for rule in clauses_of(case.program).rules}
    before = materialize(case.program, explicit)
    for insert, delete in case.updates:
        explicit = updated(explicit, insert, delete)
        after = materialize(case.program, explicit)
        if any(after[name] - before[name] for name in derived):
            yield "an update adds derived facts"
        if any(before[name] - after[name] for name in derived):
            yield "an update removes derived facts"
        before = after


def shares(count: int) -> dict[str, float]:
    """The share of cases, from seeds 0 to `count`, that have each trait."""
    found = Counter(trait for seed in range(count) for trait in set(traits(random_case(random.Random(seed)))))
    return {trait: number / count for trait, number in found.most_common()}


if __name__ == "__main__":
    for trait, share in shares(int(sys.argv[1]) if len(sys.argv) > 1 else 500).items():
        print(f"{share:6.1%}  {trait}")
