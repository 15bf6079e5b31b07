"""Why a fact came or went between two epochs of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.api.causes import CauseFinder, EffectFact, InputChange
from sempre.api.explanations import Proof, WhyNot, asked_fact, in_driver, why, why_not
from sempre.api.views import contains
from sempre.diagnostics import Diagnostic, StateError
from sempre.explain.document import EXPLICIT, FORMAT, plain_json
from sempre.explain.page import document_page

if TYPE_CHECKING:
    from sempre.analysis.model import Relation
    from sempre.api.database import Database

Row = tuple[Any, ...]


class Between:
    """What made a fact come or go between two epochs: `causes`, and why it was and is there or not."""

    def __init__(
        self,
        fact: str,
        epochs: tuple[int, int],
        before: Proof | WhyNot,
        after: Proof | WhyNot,
        causes: list[InputChange],
    ) -> None:
        self.fact, self.epochs, self.before, self.after, self.causes = fact, epochs, before, after, causes

    @property
    def change(self) -> str:
        """`appeared`, `vanished`, `held` or `absent`."""
        now, then = isinstance(self.after, Proof), isinstance(self.before, Proof)
        return ("held" if then else "appeared") if now else "vanished" if then else "absent"

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {
            "format": FORMAT,
            "kind": "between",
            "fact": self.fact,
            "epochs": list(self.epochs),
            "change": self.change,
            "causes": [
                {"text": c.text, "change": c.how, "relation": c.relation, "values": plain_json(c.row)}
                for c in self.causes
            ],
            "before": self.before.to_json(),
            "after": self.after.to_json(),
        }

    def to_html(self) -> str:
        """A page that holds all it needs."""
        return document_page(self.to_json(), str(self))

    def to_dot(self) -> str:
        """The later state as a graph for Graphviz."""
        return self.after.to_dot()

    def check(self) -> list[str]:
        """What a checker finds wrong with the proofs: both states must be open."""
        return [fault for each in (self.before, self.after) if isinstance(each, Proof) for fault in each.check()]

    def __str__(self) -> str:
        first, last = self.epochs
        words = {
            "appeared": f"{self.fact} appeared between epoch {first} and epoch {last}",
            "vanished": f"{self.fact} vanished between epoch {first} and epoch {last}",
            "held": f"{self.fact} holds in epoch {first} and in epoch {last}",
            "absent": f"{self.fact} is absent in epoch {first} and in epoch {last}",
        }
        lines = [words[self.change] + (", because of:" if self.causes else "")]
        lines += [f"  {cause.text} was {cause.how}" for cause in self.causes]
        for number, told in zip(self.epochs, (self.before, self.after), strict=True):
            lines += ["", f"epoch {number}:", *(f"  {line}" for line in str(told).splitlines())]
        return "\n".join(lines)


@contextmanager
def between(database: Database, text: str, first: int, last: int) -> Iterator[Between]:
    """Why a fact came or went between two epochs of the store of a database; the two are open as long as this is."""
    _, relation, row = asked_fact(database, text)
    if first >= last:
        hint = "Give the earlier epoch first: --between 3 7."
        raise StateError(Diagnostic("E643", f"epoch {first} does not come before epoch {last}", hint=hint))
    with database.at_epoch(first) as then, database.at_epoch(last) as now:
        yield between_states(then, now, text, relation, row)


def between_states(then: Database, now: Database, text: str, relation: Relation, row: Row) -> Between:
    """The same between two databases of one program, of which the second has the later state."""
    tellings: list[Proof | WhyNot] = []
    present = [contains(each, each._version, relation, row) for each in (then, now)]
    for database, holds in zip((then, now), present, strict=True):
        tellings.append(why(database, text) if holds else why_not(database, text))
    causes: list[InputChange] = []
    if present[0] != present[1]:

        def proof_before(fact: EffectFact) -> Iterable[tuple[str, Row]]:
            proof = tellings[0]
            assert isinstance(proof, Proof)
            return [(node.relation, node.values) for node in proof.document.nodes if node.kind == EXPLICIT]

        finder = CauseFinder(now, input_changes(then, now), proof_before)
        causes = finder.causes(EffectFact(relation, row, present[1]))
    return Between(text, (then.epoch, now.epoch), tellings[0], tellings[1], causes)


def input_changes(then: Database, now: Database) -> list[InputChange]:
    """How the explicit facts of two states of one program differ."""
    found: list[InputChange] = []
    alike = _same_numbers(then, now)
    for name, relation in now.program.relations.items():
        old, new = (in_driver(each._backend, name, each._engine.snapshot.explicit[name]) for each in (then, now))
        if alike:
            pairs = (
                (now, now._backend.difference(new.rows(), old), True),
                (then, then._backend.difference(old.rows(), new), False),
            )
            for database, rows, inserted in pairs:
                decoded = database._decoder.tuples(relation, rows.columns(), len(rows))
                found += [InputChange(name, row, inserted) for row in decoded]
            continue
        sets = (
            [set(each[name]) for each in (then, now)]
            if relation.name not in _derived(now)
            else [
                set(each._decoder.tuples(relation, rows.columns(), len(rows)))
                for each, rows in ((then, old.rows()), (now, new.rows()))
            ]
        )
        found += [InputChange(name, row, True) for row in sorted(sets[1] - sets[0], key=repr)]
        found += [InputChange(name, row, False) for row in sorted(sets[0] - sets[1], key=repr)]
    return found


def _derived(database: Database) -> set[str]:
    return {rule.relation for rule in database.program.checked.rules}


def _same_numbers(then: Database, now: Database) -> bool:
    """Whether the values of the earlier state have the same numbers in the later one."""
    old, new = then._backend.values, now._backend.values
    if old.record_tables() or new.record_tables():
        return False
    count = min(len(old.symbols), len(new.symbols))
    codes = np.arange(count)
    return old.symbols.decode(codes) == new.symbols.decode(codes)
