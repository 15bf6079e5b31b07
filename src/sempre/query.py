"""Answers to a single atom over a relation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sempre.analysis.model import Relation
from sempre.diagnostics import DataError, Diagnostic
from sempre.lang.syntax import Apply, Atom, Float, Nil, Number, Record, String, Term, Unsigned, Variable, Wildcard
from sempre.results import Decoder

Encode = Callable[[Relation, int, Any], int]


def answer(atom: Atom, relation: Relation, rows: Any, encode: Encode, decoder: Decoder) -> Any:
    """An Arrow table of the distinct bindings that make `atom` true, a column per variable in order of appearance.

    An atom without variables gives one row without columns if it holds, else none.
    """
    import pyarrow as pa

    if len(atom.args) != relation.arity:
        raise DataError(
            Diagnostic("E502", f"`{relation.name}` has {relation.arity} columns, not {len(atom.args)}", atom.span)
        )
    columns, size = rows.columns(), len(rows)
    keep: Any = np.ones(size, np.bool_)
    first: dict[str, int] = {}
    for index, arg in enumerate(atom.args):
        if isinstance(arg, Variable):
            if arg.name in first:
                keep &= columns[index] == columns[first[arg.name]]
            else:
                first[arg.name] = index
        elif not isinstance(arg, Wildcard):
            keep &= columns[index] == encode(relation, index, constant(arg))
    if not first:
        return pa.table({"": pa.nulls(int(keep.any()))}).select([])
    whole = decoder.table(relation, [column[keep] for column in columns], int(keep.sum()))
    found = whole.select(list(first.values())).rename_columns(list(first))
    return found if len(first) == relation.arity else found.group_by(list(first), use_threads=False).aggregate([])


def constant_row(atom: Atom, relation: Relation, encode: Encode) -> list[Any]:
    """The columns of the one row that an atom without variables stands for."""
    if len(atom.args) != relation.arity:
        raise DataError(
            Diagnostic("E502", f"`{relation.name}` has {relation.arity} columns, not {len(atom.args)}", atom.span)
        )
    codes = [encode(relation, index, constant(arg)) for index, arg in enumerate(atom.args)]
    return [np.array([code], np.int64) for code in codes]


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
