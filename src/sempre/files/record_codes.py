"""Texts of records as codes and back, many at a time.

A code means something only to the tables that handed it out; the text of a record is the same everywhere, and equal
exactly for equal records. Work is done once per different record, columns at a time; lists may be of any length.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sempre.analysis.model import Kind, Type
from sempre.files.records import Value, format_scalar, read_record
from sempre.kernel.layout import Column
from sempre.kernel.values import Values, float_codes, floats_of

Types: TypeAlias = Mapping[str, Type]
# A record as text, with a place (type and code) for each record inside of it.
_Outline: TypeAlias = "list[str | tuple[str, int]]"


# -------------------------------------------------------------------------------------------------- codes in


def codes_of(values: Values, texts: Sequence[str], type_: Type, types: Types) -> Column:
    """The codes of the records that the texts spell; raises `RecordError` for the first text that is none."""
    unknown = _Uncoded(types)
    numbers = [read_record(text, type_, types, unknown.number) or 0 for text in texts]
    return unknown.codes(values)[np.array(numbers, np.intp)]


class _Uncoded:
    """Different records that have numbers here, from 1, and no codes yet; 0 is nil.

    A record is one level above the highest of the records inside of it: those of a level get their codes together.
    """

    def __init__(self, types: Types) -> None:
        self._types = types
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._levels: list[dict[str, list[tuple[int, list[Any]]]]] = []
        self._level_of = [-1]

    def number(self, type_: Type, parts: list[Any]) -> int:
        """The number of a record with these fields; a record among them is its number, or None."""
        key = (type_.name, *parts)
        known = self._numbers.get(key)
        if known is not None:
            return known
        inner = [
            self._level_of[part or 0]
            for part, (_, name) in zip(parts, type_.fields, strict=True)
            if self._types[name].kind is Kind.RECORD
        ]
        level = max(inner, default=-1) + 1
        if level == len(self._levels):
            self._levels.append({})
        number = self._numbers[key] = len(self._level_of)
        self._level_of.append(level)
        self._levels[level].setdefault(type_.name, []).append((number, parts))
        return number

    def codes(self, values: Values) -> Column:
        """The code of every number."""
        found = np.zeros(len(self._level_of), np.int64)
        for level in self._levels:
            for name, records in level.items():
                fields = self._types[name].fields
                columns = [
                    self._column(values, [parts[at] for _, parts in records], self._types[field].kind, found)
                    for at, (_, field) in enumerate(fields)
                ]
                numbers = np.array([number for number, _ in records], np.intp)
                found[numbers] = values.records(len(fields)).encode(columns, numbers.size)
        return found

    @staticmethod
    def _column(values: Values, parts: list[Any], kind: Kind, found: Column) -> Column:
        if kind is Kind.RECORD:
            return found[np.array([part or 0 for part in parts], np.intp)]
        if kind is Kind.SYMBOL:
            return values.symbols.encode(parts)
        if kind is Kind.FLOAT:
            return float_codes(np.array(parts, np.float64))
        return np.array(parts, np.uint64 if kind is Kind.UNSIGNED else np.int64).view(np.int64)


# ------------------------------------------------------------------------------------------------- codes out


def texts_of(values: Values, codes: Column, type_: Type, types: Types) -> list[str]:
    """The texts of records; best given different ones."""
    outlines = _outlines(values, codes, type_, types)
    texts = []
    for code in codes.tolist():
        pieces: list[str] = []
        todo: _Outline = [(type_.name, code)]  # the last comes first
        while todo:
            item = todo.pop()
            if isinstance(item, str):
                pieces.append(item)
            else:
                todo += outlines[item] if item[1] else ["nil"]
        texts.append("".join(pieces))
    return texts


def _outlines(values: Values, codes: Column, type_: Type, types: Types) -> dict[tuple[str, int], _Outline]:
    """The records, and those inside of them, each backwards."""
    found: dict[tuple[str, int], _Outline] = {}
    todo: dict[str, list[Column]] = {type_.name: [codes]}
    while todo:
        name, wanted = todo.popitem()
        unique = np.unique(np.concatenate(wanted))
        fresh = np.array([code for code in unique.tolist() if code and (name, code) not in found], np.int64)
        if not fresh.size:
            continue
        if types[name].branches:
            found |= _branches(values, fresh, types[name], types, todo)
            continue
        rows = _rows(values, fresh, types[name].fields, types, todo)
        found |= {(name, code): _outline(row) for code, row in zip(fresh.tolist(), rows, strict=True)}
    return found


def _rows(
    values: Values,
    codes: Column,
    fields: tuple[tuple[str, str], ...],
    types: Types,
    todo: dict[str, list[Column]],
    in_branch: bool = False,
) -> Iterable[tuple[Any, ...]]:
    """The fields of records as they stand in texts; what is inside of them is left to do."""
    table = values.records(len(fields))
    parts: list[list[Any]] = []
    for at, (_, inner) in enumerate(fields):
        column = table.field(codes, at)
        if types[inner].kind is Kind.RECORD:
            todo.setdefault(inner, []).append(column)
        parts.append(_parts(values, column, types[inner], in_branch))
    return zip(*parts, strict=True) if parts else [()] * codes.size


def _branches(
    values: Values, codes: Column, type_: Type, types: Types, todo: dict[str, list[Column]]
) -> dict[tuple[str, int], _Outline]:
    """The values of an algebraic type, each backwards."""
    found: dict[tuple[str, int], _Outline] = {}
    pairs = values.records(2)
    numbers, held = pairs.field(codes, 0), pairs.field(codes, 1)
    for number, (branch, inner) in enumerate(type_.branches):
        mine = numbers == number
        fields = types[inner].fields
        own = codes[mine].tolist()
        if not fields:
            found |= {(type_.name, code): [f"${branch}"] for code in own}
        elif own:
            rows = _rows(values, held[mine], fields, types, todo, in_branch=True)
            found |= {
                (type_.name, code): _outline(row, f"${branch}(", ")") for code, row in zip(own, rows, strict=True)
            }
    return found


def _parts(values: Values, column: Column, type_: Type, in_branch: bool = False) -> list[Any]:
    """The fields as they stand in texts: a text, or the place of a record."""
    if type_.kind is Kind.RECORD:
        return [(type_.name, code) for code in column.tolist()]
    plain: list[Value]
    if type_.kind is Kind.SYMBOL:
        plain = list(values.symbols.decode(column))
    elif type_.kind is Kind.FLOAT:
        plain = floats_of(column).tolist()
    else:
        plain = (column.view(np.uint64) if type_.kind is Kind.UNSIGNED else column).tolist()
    return [format_scalar(value, type_.kind, in_branch) for value in plain]


def _outline(parts: tuple[str | tuple[str, int], ...], opening: str = "[", closing: str = "]") -> _Outline:
    """Backwards: the last piece first."""
    pieces: _Outline = [closing]
    for at in range(len(parts) - 1, -1, -1):
        pieces += [parts[at], ", "]
    return [*pieces[: -1 if parts else None], opening]
