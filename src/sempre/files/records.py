"""Records as text: `[1, [abc, nil]]`, read and printed by the record's declared type.

A value is a Python tuple, or None for `nil`. A symbol inside a record is written bare; one that would be misread so (it
has a comma, a bracket, a quote, a line break, or blanks at its ends, or is empty) is written as a quoted string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

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
    value, end = _read(text, _skip(text, 0), type_, types)
    end = _skip(text, end)
    if end != len(text):
        raise RecordError(f"unexpected text after the end of the record: `{text[end:]}`", end)
    return value


def format_record(value: Value, type_: Type, types: Mapping[str, Type]) -> str:
    """The text that `parse_record` reads back as `value`."""
    if type_.kind is not Kind.RECORD:
        return _format_scalar(value, type_.kind)
    if value is None:
        return "nil"
    if not isinstance(value, tuple | list) or len(value) != len(type_.fields):
        raise ValueError(f"not a record of type `{type_.name}`: {value!r}")
    parts = [format_record(part, types[name], types) for part, (_, name) in zip(value, type_.fields, strict=True)]
    return f"[{', '.join(parts)}]"


def _format_scalar(value: Value, kind: Kind) -> str:
    if kind is Kind.SYMBOL:
        text = str(value)
        if not _NEEDS_QUOTES.search(text):
            return text
        return '"' + "".join(_UNESCAPES.get(char, char) for char in text) + '"'
    if kind is Kind.FLOAT:
        return repr(float(value))  # type: ignore[arg-type]  # a float column holds floats
    return str(value)


def _skip(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _read(text: str, at: int, type_: Type, types: Mapping[str, Type]) -> tuple[Value, int]:
    if type_.kind is not Kind.RECORD:
        return _read_scalar(text, at, type_)
    if text.startswith("nil", at):
        return None, at + 3
    if not text.startswith("[", at):
        raise RecordError(f"expected `[` or `nil` for a value of type `{type_.name}`", at)
    at += 1
    parts: list[Value] = []
    for index, (_, name) in enumerate(type_.fields):
        if index:
            at = _expect(text, at, ",", type_)
        part, at = _read(text, _skip(text, at), types[name], types)
        parts.append(part)
    return tuple(parts), _expect(text, at, "]", type_)


def _expect(text: str, at: int, mark: str, type_: Type) -> int:
    at = _skip(text, at)
    if not text.startswith(mark, at):
        raise RecordError(f"expected `{mark}`: a record of type `{type_.name}` has {len(type_.fields)} fields", at)
    return at + 1


def _read_scalar(text: str, at: int, type_: Type) -> tuple[Value, int]:
    quoted = _QUOTED.match(text, at)
    if quoted and type_.kind is Kind.SYMBOL:
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
