"""Rows out: encoded columns as Arrow tables and Python tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sempre.analysis.model import Kind, Relation, Type
from sempre.data import dataclass
from sempre.files.arrays import bytes_to_arrow, to_arrow
from sempre.files.coded_rows import CodedRows
from sempre.files.record_codes import texts_of
from sempre.files.records import BranchValue, Value
from sempre.files.symbols import pool_to_arrow
from sempre.kernel.layout import Column
from sempre.kernel.values import Symbols, Values, floats_of

# Beyond this share of the symbol table it is quicker to take from an Arrow array of all texts.
BULK_ROWS = 4096
NO_ROWS = np.empty(0, np.intp)


@dataclass(frozen=True, slots=True)
class RelationShape:
    """How rows of one relation are shown: see `sempre.plan.backend.Shape`."""

    relation: Relation
    decoder: Decoder

    def decoded(self, columns: Sequence[Column], size: int) -> Any:
        return self.decoder.table(self.relation, columns, size)

    def streamed(self, columns: Callable[[int, int], Sequence[Column]], size: int) -> CodedRows:
        return CodedRows(self.relation, size, columns, self.decoded, self.decoder.symbols)


def _strings(texts: Any) -> Any:
    """The texts as Arrow's `string`, if they fit; then offsets are half as wide."""
    import pyarrow as pa

    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        return texts


def _taken(texts: Any, others: Any, column: Column) -> Any:
    """The texts of codes; those after the last of `texts` are in `others`, which are few where there are many texts."""
    import pyarrow as pa

    beyond = np.flatnonzero(column >= len(texts)) if len(others) else NO_ROWS
    if not beyond.size:
        return _strings(texts.take(to_arrow(column, pa.int64())))
    if beyond.size == column.size:
        return _strings(others.take(to_arrow(column - len(texts), pa.int64())))
    # Those in question stand side by side: one array of each, and then in their places.
    within = np.flatnonzero(column < len(texts))
    here, there = to_arrow(column[within], pa.int64()), to_arrow(column[beyond] - len(texts), pa.int64())
    both = pa.concat_arrays([part.cast(pa.large_string()) for part in (texts.take(here), others.take(there))])
    order = np.empty(column.size, np.int64)
    order[within], order[beyond] = np.arange(within.size), np.arange(within.size, column.size)
    return _strings(both.take(to_arrow(order, pa.int64())))


class Decoder:
    """Turns codes of one database back into values.

    With `remembering`, records stay known from one call to the next: for somebody who decodes rows of one state one by
    one, since many of them may hold parts of the same list.
    """

    def __init__(self, values: Values, types: Mapping[str, Type], *, remembering: bool = False) -> None:
        self._remembered: dict[tuple[str, int], Value] | None = {} if remembering else None
        self._values = values
        self._types = types
        # The texts of the first codes and those after them, as Arrow arrays; and what the table of texts was like then:
        # how often codes had been taken back, and how many there were.
        self._texts: tuple[Any, Any] | None = None
        self._known = (0, 0)

    @property
    def symbols(self) -> Symbols:
        """The texts of codes."""
        return self._values.symbols

    def table(self, relation: Relation, columns: Sequence[Column], size: int) -> Any:
        """An Arrow table of the rows."""
        import pyarrow as pa

        from sempre.files.columns import schema_of, unit_table

        if not relation.arity:
            return unit_table(size > 0)
        arrays = [self._array(column, type_) for column, type_ in zip(columns, relation.types, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema_of(relation))

    def _array(self, column: Column, type_: Type) -> Any:
        import pyarrow as pa

        if type_.kind is Kind.NUMBER:
            return to_arrow(column, pa.int64())
        if type_.kind is Kind.UNSIGNED:
            return to_arrow(column, pa.uint64())
        if type_.kind is Kind.FLOAT:
            return to_arrow(column, pa.float64())
        if type_.kind is Kind.SYMBOL:
            return self._symbols(column)
        unique, where = np.unique(column, return_inverse=True)
        texts = texts_of(self._values, unique, type_, self._types)
        return pa.array(texts, pa.string()).take(pa.array(where))

    def _symbols(self, column: Column) -> Any:
        import pyarrow as pa

        symbols = self._values.symbols
        if column.size < BULK_ROWS:
            return bytes_to_arrow([text.encode() for text in symbols.decode(column)], pa.string())
        known = symbols.forgotten, len(symbols)
        if self._texts is None or self._known != known:
            pool, others = symbols.pools()
            self._texts, self._known = (_strings(pool_to_arrow(pool)), _strings(pool_to_arrow(others))), known
        return _taken(*self._texts, column)

    def tuples(self, relation: Relation, columns: Sequence[Column], size: int) -> Iterator[tuple[Any, ...]]:
        """The rows as Python tuples."""
        if not relation.arity:
            return iter([()] * min(size, 1))
        lists = [self.python(column, type_) for column, type_ in zip(columns, relation.types, strict=True)]
        return zip(*lists, strict=True)

    def python(self, column: Column, type_: Type) -> list[Any]:
        if type_.kind is Kind.NUMBER:
            return list(column.tolist())
        if type_.kind is Kind.UNSIGNED:
            return list(column.view(np.uint64).tolist())
        if type_.kind is Kind.FLOAT:
            return list(floats_of(column).tolist())
        if type_.kind is Kind.SYMBOL:
            return self._values.symbols.decode(column)
        return self._records(column, type_)

    def _records(self, column: Column, type_: Type) -> list[Value]:
        """Records as nested tuples, level by level, so that long lists do not exhaust the stack."""
        known: dict[tuple[str, int], Value] = {} if self._remembered is None else self._remembered
        # Fields of a record have smaller codes within one table only; order by need instead.
        stack = [(type_.name, int(code)) for code in column]
        while stack:
            place = stack[-1]
            if place in known:
                stack.pop()
                continue
            if not place[1]:
                known[place] = None
                continue
            parts, lead = self._parts(*place)
            waiting = [part for part in parts if isinstance(part, _Inner) and part not in known]
            if waiting:
                stack.extend(waiting)
                continue
            held = (*lead, *(known[part] if isinstance(part, _Inner) else part for part in parts))
            known[place] = BranchValue(held) if lead else held
            stack.pop()
        return [known[type_.name, int(code)] for code in column]

    def _parts(self, name: str, code: int) -> tuple[list[Any], tuple[str, ...]]:
        """The fields of a record, with the place of each record among them, and what stands before them."""
        type_ = self._types[name]
        lead: tuple[str, ...] = ()
        if type_.branches:
            number, code = (int(self._values.records(2).field(np.array([code]), at)[0]) for at in (0, 1))
            lead = (type_.branches[number][0],)
            type_ = self._types[type_.branches[number][1]]
        table = self._values.records(len(type_.fields))
        parts: list[Any] = []
        for at, (_, inner) in enumerate(type_.fields):
            column = table.field(np.array([code]), at)
            wanted = self._types[inner]
            parts.append(
                _Inner((inner, int(column[0]))) if wanted.kind is Kind.RECORD else self.python(column, wanted)[0]
            )
        return parts, lead


class _Inner(tuple[str, int]):
    """The place of a record inside of another: the name of its type, and its code."""

    __slots__ = ()
