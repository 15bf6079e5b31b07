"""Is the state what a run from scratch would give? Facts, and whatever strategies have counted.

The explicit facts are evaluated again, on the same backend so that codes mean the same, and compared with the
snapshot. The run from scratch takes another way than updates do, so that it does not repeat their errors: rounds of
arrays, without walks and without modules. Neighbors are sorted by the values they stand for. Counters are counted again
from the recomputed facts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sempre.active.active_engine import ActiveEngine
from sempre.analysis.model import Kind, Relation, Stratum
from sempre.data import dataclass
from sempre.engine import Engine, standing_work
from sempre.maintain.decide import is_guarded
from sempre.maintain.guarded import Guarded
from sempre.maintain.memory import how_many
from sempre.maintain.recompute import Recompute
from sempre.maintain.sequence import Sequence
from sempre.maintain.strategy import Change, DeferredMemory, Outcome, Strategy, Work
from sempre.modules.spec import Module
from sempre.plan.backend import DRIVER, Counted, Rows, Version
from sempre.plan.ops import Neighbors
from sempre.results import Decoder

if TYPE_CHECKING:
    import pyarrow as pa

# Facts that a message shows.
SHOWN_DIFFERENCES = 3


@dataclass(frozen=True)
class Difference:
    """Facts of one relation in which the state and a run from scratch differ.

    `what` is `missing` (facts that should be there), `unexpected` (facts that should not), `nonrec`, `rec` or
    `iteration` (facts whose counter of that name is wrong), `rank` (facts that their ranks do not ground), `order`
    (neighbors that the order kept of their source does not give), or for active rules `cycles`, `added` or `deleted`
    (facts with wrong records). `rows` is an Arrow table of the facts.
    """

    relation: str
    what: str
    size: int
    message: str
    _rows: Any
    _decoder: Decoder
    _declared: Relation

    @cached_property
    def rows(self) -> pa.Table:
        return self._decoder.table(self._declared, self._rows.columns(), self.size)

    def __repr__(self) -> str:
        return f"<Difference: {self.message}>"


@dataclass(frozen=True)
class Verification:
    """What a comparison with a run from scratch found."""

    differences: list[Difference]
    relations: int
    facts: int
    counters: int

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        looked = f"{self.relations:,} relations, {self.facts:,} facts, {self.counters:,} counters"
        if self.ok:
            return f"<Verification: ok; {looked}>"
        lines = [f"  {difference.message}" for difference in self.differences]
        return "\n".join([f"<Verification: {len(self.differences)} differences; {looked}", *lines]) + ">"


def verify(engine: Engine | ActiveEngine, decoder: Decoder) -> Verification:
    """Compare the engine's snapshot with a run from scratch on its explicit facts."""
    if isinstance(engine, ActiveEngine):
        return _verify_chains(engine, decoder)
    return _Comparison(engine, decoder).run()


def _verify_chains(engine: ActiveEngine, decoder: Decoder) -> Verification:
    """Compare the chains: every cycle's facts, and how often they were added and deleted."""
    again = ActiveEngine(engine.program, engine.backend, decoder, engine.limit, phases=engine.phases)
    again.run_with(
        {name: version.rows() for name, version in engine.snapshot.explicit.items() if len(version)},
        engine.timeline.given,
    )
    found = []
    for name, chain in engine.timeline.chains.items():
        other = again.timeline.chains[name]
        differences = {
            "missing": engine.backend.difference(other.now.rows(), chain.now),
            "unexpected": engine.backend.difference(chain.now.rows(), other.now),
            **chain.differences(other),
        }
        for what, rows in differences.items():
            if not len(rows):
                continue
            message = f"`{name}` has {how_many(len(rows))} with the wrong records: {what}"
            declared = engine.program.relations[name]
            found.append(Difference(name, what, len(rows), message, rows, decoder, declared))
    facts = sum(map(len, engine.snapshot.versions.values()))
    return Verification(found, len(engine.program.relations), facts, engine.timeline.records)


class _Plain(Engine):
    """An engine that evaluates everything the plain way; of choices it prefers those in `prior`."""

    prior: Mapping[str, Version] | None = None

    def strategy_of(self, stratum: Stratum, place: str = DRIVER) -> Strategy:
        order = self._order(stratum)
        if order is None and is_guarded(stratum, self.program):
            return Guarded(self.prior)
        if order is None:
            return Recompute(walking=False)
        return Sequence(order) if self.backend.for_modules() is None else _Sorted(order)


@dataclass(slots=True)
class _Sorted:
    """Neighbors by sorting plain values; by their own rule they would take quadratic time."""

    order: Neighbors
    name: str = "sorted"
    forgetful: ClassVar[bool] = True

    def bootstrap(self, work: Work, stratum: Stratum) -> Outcome:
        backend, order, name = work.backend.for_modules(), self.order, self.order.relation
        assert backend is not None
        columns = backend.columns(work.new[order.source].rows())
        values = _values(columns[order.column], order.kind)
        placed = np.flatnonzero(values == values)  # a NaN stands next to nobody
        groups = [columns[group][placed].tolist() for group in order.groups]
        # The codes go along: equal values have equal codes.
        ranked = sorted({*zip(*groups, values[placed].tolist(), columns[order.column][placed].tolist(), strict=True)})
        pairs = [(*a[:-2], a[-1], b[-1]) for a, b in pairwise(ranked) if a[:-2] == b[:-2]]
        found = np.array(pairs, np.int64).reshape(len(pairs), len(order.groups) + 2)
        rows = backend.collect(name, [[np.ascontiguousarray(column) for column in found.T]], None)
        nothing = backend.empty(name)
        return Outcome({name: nothing.adding(rows)}, {name: Change(rows, nothing.rows())}, None, 1)

    def update(self, work: Work, stratum: Stratum, memory: Any) -> Outcome:
        raise AssertionError("there is one epoch")

    def recall(self, standing: Callable[[], Work], stratum: Stratum) -> None:
        """It remembers nothing."""


def _values(codes: Any, kind: Kind) -> Any:
    """What codes of a sorted column stand for."""
    return codes.view({Kind.UNSIGNED: np.uint64, Kind.FLOAT: np.float64}.get(kind, np.int64))


def _sorting(engine: Engine) -> dict[int, tuple[Module, ...]]:
    return {index: found for index, found in engine.modules.items() if found[0].order is not None}


class _Comparison:
    def __init__(self, engine: Engine, decoder: Decoder) -> None:
        self._engine = engine
        self._backend = engine.backend
        self._decoder = decoder
        self._found: list[Difference] = []
        self._counters = 0

    def run(self) -> Verification:
        engine, places = self._engine, self._engine.places
        snapshot = engine.snapshot
        elsewhere = {name for name, version in snapshot.versions.items() if version.place != places.main}
        if elsewhere:
            versions, explicit = (
                {name: places.bring(name, version, places.main) for name, version in sets.items()}
                for sets in (snapshot.versions, snapshot.explicit)
            )
            snapshot = replace(snapshot, versions=versions, explicit=explicit)
        again = _Plain(
            engine.program, engine.backend, "recompute", modules=_sorting(engine), deferred=engine.deferred
        )  # fmt: skip
        again.prior = snapshot.versions
        again.apply({name: version.rows() for name, version in snapshot.explicit.items() if len(version)}, {})
        for name in engine.program.relations:
            self._facts(name, snapshot.versions[name], again.snapshot.versions[name])
        # What is evaluated on demand is compared where somebody has asked for it.
        for name, version in list(snapshot.demanded.items()):
            self._facts(name, version, again.version(name))
        work = standing_work(again, again.snapshot)
        for stratum in engine.program.strata:
            memory = DeferredMemory.settled(snapshot.memories.get(stratum.index))
            if elsewhere & set(stratum.relations):
                continue  # its counters are of another place
            if memory is not None:
                memory.check(work, stratum, self)
        facts = sum(map(len, snapshot.versions.values()))
        return Verification(self._found, len(engine.program.relations), facts, self._counters)

    def _facts(self, name: str, have: Version, want: Version) -> None:
        difference = self._backend.difference
        for what, verb, rows in (
            ("missing", "lacks", difference(want.rows(), have)),
            ("unexpected", "should not have", difference(have.rows(), want)),
        ):
            if len(rows):
                shown = ", ".join(_text(name, row) for row in self._examples(name, rows))
                self._add(name, what, rows, f"`{name}` {verb} {how_many(len(rows))}: {shown}")

    # ------------------------------------------------------------------------------- what memories tell of

    @property
    def strategy(self) -> str:
        return self._engine.strategy

    @property
    def is_clean(self) -> bool:
        return not self._found

    def saw(self, counters: int) -> None:
        self._counters += counters

    def compare(self, relation: str, what: str, label: str, have: Counted, want: Counted) -> bool:
        """Note the facts whose numbers differ; says whether there are any."""
        self._counters += len(have)
        backend = self._backend
        wrong = backend.total(relation, [part for part in (have, want.negated()) if len(part)])
        if not len(wrong):
            return False
        has, should = (self._decoded(relation, backend.restricted(part, wrong.rows())) for part in (have, want))
        shown = [
            f"{_text(relation, row)} has {has.get(row, 0)}, should have {should.get(row, 0)}"
            for row in self._examples(relation, wrong.rows())
        ]
        message = f"{label} is wrong for {how_many(len(wrong))}: {'; '.join(shown)}"
        self._add(relation, what, wrong.rows(), message)
        return True

    def wrong(self, relation: str, what: str, rows: Rows, message: str, examples: bool) -> None:
        """Note facts that are wrong, if any."""
        if len(rows):
            shown = ", ".join(_text(relation, row) for row in self._examples(relation, rows)) if examples else ""
            self._add(relation, what, rows, f"{message}: {shown}" if shown else message)

    def _add(self, name: str, what: str, rows: Rows, message: str) -> None:
        declared = self._engine.program.relations[name]
        self._found.append(Difference(name, what, len(rows), message, rows, self._decoder, declared))

    def _examples(self, name: str, rows: Rows) -> list[tuple[Any, ...]]:
        """The first few rows."""
        declared = self._engine.program.relations[name]
        columns, size = [column[:SHOWN_DIFFERENCES] for column in rows.columns()], min(len(rows), SHOWN_DIFFERENCES)
        return list(self._decoder.tuples(declared, columns, size))

    def _decoded(self, name: str, counted: Counted) -> dict[tuple[Any, ...], int]:
        rows, declared = counted.rows(), self._engine.program.relations[name]
        return dict(
            zip(self._decoder.tuples(declared, rows.columns(), len(rows)), counted.weights.tolist(), strict=True)
        )


def _text(name: str, row: tuple[Any, ...]) -> str:
    values = (f'"{value}"' if isinstance(value, str) else str(value) for value in row)
    return f"{name}({', '.join(values)})"


__all__ = ["Difference", "Verification", "verify"]
