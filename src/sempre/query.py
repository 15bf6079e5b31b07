"""Answers to a single atom over a relation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sempre.analysis.model import Relation
from sempre.diagnostics import DataError, Diagnostic
from sempre.files.records import BranchValue
from sempre.kernel import join
from sempre.kernel.layout import Column, Field, packing
from sempre.kernel.select import Selection
from sempre.kernel.trace import RowSet
from sempre.lang.syntax import (
    Apply,
    Atom,
    Branch,
    Float,
    Nil,
    Number,
    Record,
    String,
    Term,
    Unsigned,
    Variable,
    Wildcard,
)
from sempre.results import Decoder

Encode = Callable[[Relation, int, Any], int]
Find = Callable[[Selection], RowSet]


def answer(atom: Atom, relation: Relation, find: Find, encode: Encode, decoder: Decoder) -> Any:
    """An Arrow table of the distinct bindings that make `atom` true, a column per variable in order of appearance.

    `find` gives the rows of the relation that are selected. An atom without variables gives one row without columns if
    it holds, else none.
    """
    import pyarrow as pa

    if len(atom.args) != relation.arity:
        raise DataError(
            Diagnostic("E502", f"`{relation.name}` has {relation.arity} columns, not {len(atom.args)}", atom.span)
        )
    first: dict[str, int] = {}
    values: list[tuple[int, int]] = []
    same: list[tuple[int, int]] = []
    for index, arg in enumerate(atom.args):
        if isinstance(arg, Variable):
            if arg.name in first:
                same.append((first[arg.name], index))
            else:
                first[arg.name] = index
        elif not isinstance(arg, Wildcard):
            values.append((index, encode(relation, index, constant(arg))))
    rows = find(Selection(tuple(values), tuple(same)))
    if not first:
        return pa.table({"": pa.nulls(min(len(rows), 1))}).select([])
    names, at = tuple(first), tuple(first.values())
    columns = [rows.packing.unpack(rows.keys, index) for index in at]
    if any(isinstance(arg, Wildcard) for arg in atom.args):
        columns = _distinct(columns, tuple(rows.packing.fields[index] for index in at))
    answers = replace(relation, columns=names, types=tuple(relation.types[index] for index in at))
    return decoder.table(answers, columns, int(columns[0].size))


def _distinct(columns: Sequence[Column], fields: tuple[Field, ...]) -> list[Column]:
    layout = packing(fields, tuple(range(len(fields))))
    return layout.columns(join.distinct(layout.pack(columns, columns[0].size).copy()))


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
    if isinstance(term, Branch):
        return BranchValue((term.name, *(constant(arg) for arg in term.args)))
    if isinstance(term, Apply) and term.functor == "neg":
        return -constant(term.args[0])
    raise DataError(Diagnostic("E503", "a query may hold only variables and constants", term.span))
