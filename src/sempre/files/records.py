"""Records as text: `[1, [abc, nil]]`, read and printed by the record's declared type.

A value is a Python tuple, or None for `nil`. A symbol inside a record is written bare; one that would be misread so (it
has a comma, a bracket, a quote, a line break, or blanks at its ends, or is empty) is written as a quoted string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sempre.analysis.model import Kind, Type
from sempre.files.columns import RANGES

Value: TypeAlias = "int | float | str | tuple[Value, ...] | None"

_BLANKS = re.compile(r"\s*")
_BARE = re.compile(r"[^,\[\]]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r'[,\[\]"\\\n\r\t]|^\s|\s$|^$')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_UNESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_INTEGER = re.compile(r"[+-]?[0-9]+")


class RecordError(ValueError):
    """Text that is not a record of the type; `position` is where it stops being one, from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def parse_record(text: str, type_: Type, types: Mapping[str, Type]) -> Value:
    """The value that `text` spells; raises `RecordError`."""
    value: Value = read_record(text, type_, types, lambda _, parts: tuple(parts))
    return value


def read_record(text: str, type_: Type, types: Mapping[str, Type], build: Callable[[Type, list[Any]], Any]) -> Any:
    """What `build` makes of the record that `text` spells, innermost records first; None for `nil`.

    Raises `RecordError`. Lists may be of any length: nothing here recurs.
    """
    outer: list[tuple[Type, list[Any]]] = []  # records that are not complete yet
    wanted, at = type_, _skip(text, 0)
    while True:
        if wanted.kind is Kind.RECORD and _opens(text, at, wanted):
            outer.append((wanted, []))
            at += 1
        else:
            value, at = (None, at + 3) if wanted.kind is Kind.RECORD else _read_scalar(text, at, wanted)
            if not outer:
                return _ended(text, at, value)
            outer[-1][1].append(value)
        while len(outer[-1][1]) == len(outer[-1][0].fields):
            record, parts = outer.pop()
            at = _expect(text, at, "]", record)
            value = build(record, parts)
            if not outer:
                return _ended(text, at, value)
            outer[-1][1].append(value)
        record, parts = outer[-1]
        if parts:
            at = _expect(text, at, ",", record)
        wanted, at = types[record.fields[len(parts)][1]], _skip(text, at)


def _opens(text: str, at: int, type_: Type) -> bool:
    """Whether a record begins here; if not, it is `nil`."""
    if text.startswith("nil", at):
        return False
    if not text.startswith("[", at):
        raise RecordError(f"expected `[` or `nil` for a value of type `{type_.name}`", at)
    return True


def _ended(text: str, at: int, value: Any) -> Any:
    end = _skip(text, at)
    if end != len(text):
        raise RecordError(f"unexpected text after the end of the record: `{text[end:]}`", end)
    return value


def format_record(value: Value, type_: Type, types: Mapping[str, Type]) -> str:
    """The text that `parse_record` reads back as `value`; equal values have equal texts."""
    pieces: list[str] = []
    todo: list[str | tuple[Value, Type]] = [(value, type_)]  # the last comes first
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        part, wanted = item
        if wanted.kind is not Kind.RECORD:
            pieces.append(format_scalar(part, wanted.kind))
        elif part is None:
            pieces.append("nil")
        elif not isinstance(part, tuple | list) or len(part) != len(wanted.fields):
            raise ValueError(f"not a record of type `{wanted.name}`: {part!r}")
        else:
            todo.append("]")
            for at in range(len(part) - 1, -1, -1):
                todo += [(part[at], types[wanted.fields[at][1]]), ", " if at else "["]
            if not part:
                todo.append("[")
    return "".join(pieces)


def format_scalar(value: Value, kind: Kind) -> str:
    """The text of a number or a symbol inside of a record."""
    if kind is Kind.SYMBOL:
        text = str(value)
        if not _NEEDS_QUOTES.search(text):
            return text
        return '"' + "".join(_UNESCAPES.get(char, char) for char in text) + '"'
    if kind is Kind.FLOAT:
        return repr(float(value) + 0.0)  # type: ignore[arg-type]  # a float column holds floats; one zero
    return str(value)


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _expect(text: str, at: int, mark: str, type_: Type) -> int:
    at = _skip(text, at)
    if not text.startswith(mark, at):
        raise RecordError(f"expected `{mark}`: a record of type `{type_.name}` has {len(type_.fields)} fields", at)
    return at + 1


def _read_scalar(text: str, at: int, type_: Type) -> tuple[Value, int]:
    quoted = _QUOTED.match(text, at) if type_.kind is Kind.SYMBOL else None
    if quoted:
        body = _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), quoted[1])
        return body, quoted.end()
    bare = _BARE.match(text, at)
    end = bare.end() if bare else at
    word = text[at:end].strip()
    if type_.kind is Kind.SYMBOL:
        return word, end
    if type_.kind is Kind.FLOAT:
        try:
            return float(word), end
        except ValueError:
            raise RecordError(f"`{word}` is not a float", at) from None
    if not _INTEGER.fullmatch(word):
        raise RecordError(f"`{word}` is not {_article(type_.kind)}", at)
    low, high = RANGES[type_.kind]
    value = int(word)
    if not low <= value <= high:
        raise RecordError(f"`{word}` does not fit {_article(type_.kind)} of 64 bits", at)
    return value, end


def _article(kind: Kind) -> str:
    return "an unsigned" if kind is Kind.UNSIGNED else f"a {kind.value}"
