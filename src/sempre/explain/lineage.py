"""Explanations of whole relations: for every fact an instance of least height, by passes over sets of facts.

Rule after rule is asked for the instances that derive the facts that no rule before it explained, a few thousand at a
time. In a stratum with recursion its rounds say which instances will do: those whose premises were all found before.
Nothing here is done fact by fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sempre.analysis.model import Kind, Type
from sempre.data import dataclass
from sempre.explain.inquiries import EvidenceState, tuples_of
from sempre.explain.prover import DerivingRule, Prover
from sempre.explain.rounds import StratumRounds
from sempre.explain.wording import value_text
from sempre.kernel.join import Mask
from sempre.kernel.trace import RowSet
from sempre.results import Decoder

if TYPE_CHECKING:
    import pyarrow as pa

    from sempre.kernel.layout import Column

# Facts that a rule is asked about at once.
CHUNK_FACTS = 1 << 13


@dataclass(frozen=True, slots=True)
class ExplainedRows:
    """Facts with an instance each: the columns of the facts, of each premise, and the heights."""

    rule: int
    fact: tuple[Column, ...]
    premises: tuple[tuple[str, tuple[Column, ...]], ...]
    heights: Column


class Lineage:
    """Explains all facts of one relation in one state."""

    def __init__(self, state: EvidenceState, name: str) -> None:
        self.state, self.name = state, name
        self.prover = Prover(state)
        self.stratum = self.prover.strata[name]
        self.decoder = Decoder(state.values, state.program.types)
        self._texts = _Texts(self.decoder, state)
        # Rounds of aggregates in heads find values that do not stay.
        aggregates = any(state.program.relations[each].aggregate for each in self.stratum.relations)
        self._is_searched = bool(self.stratum.recursive) and aggregates
        by_rounds = self.stratum.recursive and not aggregates
        self._rounds = StratumRounds.of(self.prover.bench, self.stratum) if by_rounds else None

    def close(self) -> None:
        """Give back the threads."""
        self.prover.close()

    def parts(self) -> Iterator[ExplainedRows]:
        """All facts of the relation, each once: the explicit ones first."""
        backend = self.prover.bench.backend
        left: Any = self.state.version(self.name).rows()
        explicit = self.state.explicit(self.name)
        given = backend.intersection(left, explicit)
        yield ExplainedRows(-1, tuple(given.columns()), (), np.ones(len(given), np.int64))
        left = backend.difference(left, explicit)
        if self._is_searched:
            yield from self._searched(left)
            return
        for at in self.prover.of_relation.get(self.name, ()):
            found: list[RowSet] = []
            for chunk in _chunks(left):
                part, explained = self._explained(at, chunk)
                if part is not None and explained is not None:
                    found.append(explained)
                    yield part
            if found:
                left = backend.difference(left, backend.version(backend.union(found)))
        yield ExplainedRows(-1, tuple(left.columns()), (), np.ones(len(left), np.int64))  # totals of explicit facts

    def _searched(self, facts: RowSet) -> Iterator[ExplainedRows]:
        """Each fact by a proof of its own, all of them looked for together."""
        coded = [(self.name, codes) for codes in tuples_of(facts.columns(), len(facts))]
        steps = self.prover.prove(coded)
        for at in self.prover.of_relation.get(self.name, ()):
            chosen = [steps[fact] for fact in coded if steps[fact].rule == at]
            if chosen:
                table = np.array([step.fact[1] for step in chosen], np.int64).reshape(len(chosen), -1).T
                premises = []
                for place, (name, _) in enumerate(self.prover.rules[at].atoms):
                    codes = np.array([step.premises[place][1] for step in chosen], np.int64)
                    premises.append((name, tuple(map(np.ascontiguousarray, codes.reshape(len(chosen), -1).T))))
                heights = np.array([step.height for step in chosen], np.int64)
                yield ExplainedRows(at, tuple(map(np.ascontiguousarray, table)), tuple(premises), heights)

    def _explained(self, at: int, goals: RowSet) -> tuple[ExplainedRows | None, RowSet | None]:
        """One instance of a rule for each of the goals that has one of least height."""
        each, bench = self.prover.rules[at], self.prover.bench
        rows = bench.ask_rows(each.question, goals)
        if not len(rows):
            return None, None
        columns = rows.columns()
        heads = [columns[place] for place in each.head]
        premises = [(name, self._premise(each, columns, args, len(rows))) for name, args in each.atoms]
        keep, heights = self._least(heads, premises, len(rows))
        places = np.flatnonzero(keep)
        if not places.size:
            return None, None
        first = _first_of_each([head[places] for head in heads], places.size)
        places = places[first]
        fact = tuple(head[places] for head in heads)
        taken = tuple((name, tuple(part[places] for part in parts)) for name, parts in premises)
        explained = bench.backend.rows(self.name, list(fact), int(places.size))
        return ExplainedRows(at, fact, taken, heights[places]), explained

    def _premise(
        self, each: DerivingRule, columns: Sequence[Column], args: Sequence[tuple[bool, int]], size: int
    ) -> tuple[Column, ...]:
        return tuple(np.full(size, value) if constant else columns[value] for constant, value in args)

    def _least(
        self, heads: Sequence[Column], premises: Sequence[tuple[str, tuple[Column, ...]]], size: int
    ) -> tuple[Mask, Column]:
        """Which instances are of least height, and the height of each."""
        heights = np.ones(size, np.int64)
        if self._rounds is None:
            return np.ones(size, np.bool_), heights
        wanted = self._heights_of(self.name, heads, size)
        for name, parts in premises:
            if name in self.stratum.relations:
                heights = np.maximum(heights, 1 + self._heights_of(name, parts, size))
        return heights == wanted, heights

    def _heights_of(self, name: str, columns: Sequence[Column], size: int) -> Column:
        assert self._rounds is not None
        return self._rounds.tallies[name].of_columns(list(columns), size)

    # ----------------------------------------------------------------------------------------------------- table

    def table(self) -> pa.Table:
        """A row for every fact: the fact and its values, its height, the rule, and the premises as texts."""
        import pyarrow as pa

        relation = self.state.program.relations[self.name]
        tables = [self._table_of(part) for part in self.parts()]
        tables = [table for table in tables if table.num_rows]
        if tables:
            return pa.concat_tables(tables).combine_chunks()
        return self._table_of(
            ExplainedRows(-1, tuple([np.empty(0, np.int64)] * relation.arity), (), np.empty(0, np.int64))
        )

    def _table_of(self, part: ExplainedRows) -> pa.Table:
        import pyarrow as pa

        relation = self.state.program.relations[self.name]
        size = part.heights.size
        values = self.decoder.table(relation, list(part.fact), size) if relation.arity else None
        arrays = [] if values is None else [column.combine_chunks() for column in values.columns]
        rule = self.prover.rules[part.rule].rule if part.rule >= 0 else None
        facts = [self._texts.facts(name, columns, size) for name, columns in part.premises]
        flat = pa.concat_arrays(facts).take(_interleaved(len(facts), size)) if facts else pa.array([], pa.string())
        premises = pa.ListArray.from_arrays(pa.array(np.arange(size + 1, dtype=np.int32) * len(facts)), flat)
        arrays += [
            self._texts.facts(self.name, part.fact, size),
            pa.array(part.heights),
            pa.array([None if rule is None else rule.text], pa.string()).take(pa.array(np.zeros(size, np.int64))),
            pa.array([None if rule is None else str(rule.span)], pa.string()).take(pa.array(np.zeros(size, np.int64))),
            premises,
        ]
        return pa.table(arrays, [*relation.columns, "_fact", "_height", "_rule", "_place", "_premises"])


def _interleaved(count: int, size: int) -> Any:
    """Positions that put the first of every premise first, then the second of every one, ..."""
    import pyarrow as pa

    return pa.array(np.arange(count * size).reshape(count, size).T.reshape(-1))


def _chunks(rows: Any) -> Iterator[RowSet]:
    for start in range(0, len(rows), CHUNK_FACTS):
        yield RowSet(rows.packing, rows.keys[start : start + CHUNK_FACTS])


def _first_of_each(columns: Sequence[Column], size: int) -> Column:
    """The position of the first row of each kind."""
    if not columns:
        return np.zeros(min(size, 1), np.int64)
    order = np.lexsort(columns[::-1])
    changed = np.zeros(size, np.bool_)
    changed[0] = True
    for column in columns:
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    return np.sort(order[changed])


class _Texts:
    """Facts as texts, column by column."""

    def __init__(self, decoder: Decoder, state: EvidenceState) -> None:
        self._decoder, self._state = decoder, state

    def facts(self, name: str, columns: Sequence[Column], size: int) -> Any:
        """The facts of a relation as an Arrow array of texts."""
        import pyarrow as pa
        import pyarrow.compute as pc

        relation = self._state.program.relations[name]
        if not relation.arity:
            return pa.array([f"{name}()"] * size, pa.string())
        texts = [self._values(column, type_) for column, type_ in zip(columns, relation.types, strict=True)]
        texts[0] = pc.binary_join_element_wise(pa.scalar(f"{name}("), texts[0], "")
        texts[-1] = pc.binary_join_element_wise(texts[-1], pa.scalar(")"), "")
        return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, ", ")

    def _values(self, column: Column, type_: Type) -> Any:
        """The values of a column as a program has them; those that need work once for each of them."""
        import pyarrow as pa

        if type_.kind is Kind.NUMBER:
            return pa.array(column).cast(pa.string())
        if type_.kind is Kind.UNSIGNED:
            return pa.array(column.view(np.uint64)).cast(pa.string())
        codes, places = np.unique(column, return_inverse=True)
        texts = [value_text(value) for value in self._decoder.python(codes, type_)]
        return pa.array(texts, pa.string()).take(pa.array(places))
