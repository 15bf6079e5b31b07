"""Answers to a single atom over a relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sempre.analysis.model import Relation
from sempre.diagnostics import DataError, Diagnostic
from sempre.kernel.layout import Keys, Packing
from sempre.kernel.trace import RowSet
from sempre.lang.syntax import Apply, Atom, Float, Nil, Number, Record, String, Term, Unsigned, Variable, Wildcard
from sempre.results import Decoder

Encode = Callable[[Relation, int, Any], int]
# Rows that are compared at once.
STRETCH = 1 << 18


def answer(atom: Atom, relation: Relation, rows: RowSet, encode: Encode, decoder: Decoder) -> Any:
    """An Arrow table of the distinct bindings that make `atom` true, a column per variable in order of appearance.

    An atom without variables gives one row without columns if it holds, else none.
    """
    import pyarrow as pa

    if len(atom.args) != relation.arity:
        raise DataError(
            Diagnostic("E502", f"`{relation.name}` has {relation.arity} columns, not {len(atom.args)}", atom.span)
        )
    first: dict[str, int] = {}
    wanted: dict[int, int] = {}
    same: list[tuple[int, int]] = []
    for index, arg in enumerate(atom.args):
        if isinstance(arg, Variable):
            if arg.name in first:
                same.append((first[arg.name], index))
            else:
                first[arg.name] = index
        elif not isinstance(arg, Wildcard):
            wanted[index] = encode(relation, index, constant(arg))
    packing, keys = rows.packing, _matching(rows, wanted, same)
    if not first:
        return pa.table({"": pa.nulls(min(int(keys.size), 1))}).select([])
    whole = decoder.table(relation, packing.columns(keys), int(keys.size))
    found = whole.select(list(first.values())).rename_columns(list(first))
    return found if len(first) == relation.arity else found.group_by(list(first), use_threads=False).aggregate([])


def _matching(rows: RowSet, wanted: Mapping[int, int], same: Sequence[tuple[int, int]]) -> Keys:
    """The keys of the rows that have the wanted values, and equal values in columns that are to be the same.

    What is wanted of the first columns is looked up; the rest is compared, a stretch of rows at a time.
    """
    packing, keys = rows.packing, rows.keys
    if any(not packing.fields[column].holds(value, value) for column, value in wanted.items()):
        return keys[:0]
    lead = 0
    while lead in wanted:
        lead += 1
    if lead:
        low, high = packing.bounds([np.array([wanted[column]]) for column in range(lead)], 1)
        keys = keys[keys.searchsorted(low[0]) : keys.searchsorted(high[0], side="right")]
    tests = [(column, value) for column, value in wanted.items() if column >= lead]
    if not tests and not same:
        return keys
    return np.concatenate([_tested(packing, keys[at : at + STRETCH], tests, same) for at in range(0, keys.size, STRETCH)] or [keys])


def _tested(packing: Packing, keys: Keys, tests: Sequence[tuple[int, int]], same: Sequence[tuple[int, int]]) -> Keys:
    keep: Any = np.ones(keys.size, np.bool_)
    for column, value in tests:
        keep &= packing.unpack(keys, column) == value
    for left, right in same:
        keep &= packing.unpack(keys, left) == packing.unpack(keys, right)
    return keys[keep]


def constant(term: Term) -> Any:
    """The Python value of a constant term."""
    if isinstance(term, Number | Unsigned | Float | String):
        return term.value
    if isinstance(term, Nil):
        return None
    if isinstance(term, Record):
        return tuple(constant(arg) for arg in term.args)
    if isinstance(term, Apply) and term.functor == "neg":
        return -constant(term.args[0])
    raise DataError(Diagnostic("E503", "a query may hold only variables and constants", term.span))
