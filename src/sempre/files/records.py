"""Records as text: `[1, [abc, nil]]`, read and printed by the record's declared type; `$Cons(1, $Nil)` likewise.

A value is a Python tuple, or None for `nil`. That of an algebraic type is a tuple that begins with the branch's name. A
symbol inside a record is written bare; one that would be misread so (it has a comma, a bracket, a quote, a line break,
or blanks at its ends, or is empty; in a branch also a parenthesis) is written as a quoted string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sempre.analysis.model import Kind, Type
from sempre.data import dataclass
from sempre.files.columns import RANGES

Value: TypeAlias = "int | float | str | tuple[Value, ...] | None"

_BLANKS = re.compile(r"\s*")
_BARE = re.compile(r"[^,\[\]]*")
_BARE_IN_BRANCH = re.compile(r"[^,\[\]()]*")
_BRANCH = re.compile(r"\$\s*([A-Za-z_?][A-Za-z0-9_?.]*)\s*(\()?")
_PARENTHESES = re.compile(r"[()]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r'[,\[\]"\\\n\r\t]|^\s|\s$|^$')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_UNESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_INTEGER = re.compile(r"[+-]?[0-9]+")


class BranchValue(tuple[Any, ...]):
    """A value of an algebraic type: the name of the branch, and its fields. It equals a plain tuple of the same."""

    __slots__ = ()


class RecordError(ValueError):
    """Text that is not a record of the type; `position` is where it stops being one, from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def parse_record(text: str, type_: Type, types: Mapping[str, Type]) -> Value:
    """The value that `text` spells; raises `RecordError`."""
    value: Value = read_record(text, type_, types, _python_value)
    return value


def _python_value(type_: Type, parts: list[Any]) -> Value:
    if type_.branches:
        return BranchValue((type_.branches[parts[0]][0], *(parts[1] or ())))
    return tuple(parts)


@dataclass(slots=True)
class _Open:
    """A record, or what a branch holds, that is not complete yet. `around` has the branch's type and number."""

    type: Type
    parts: list[Any]
    around: tuple[Type, int] | None = None

    @property
    def closing(self) -> str:
        return ")" if self.around else "]"


def read_record(text: str, type_: Type, types: Mapping[str, Type], build: Callable[[Type, list[Any]], Any]) -> Any:
    """What `build` makes of the record that `text` spells, innermost records first; None for `nil`.

    For a branch, `build` gets what it holds as a record, and then the branch's number with that. Raises `RecordError`.
    Lists may be of any length: nothing here recurs.
    """
    outer: list[_Open] = []
    wanted, at = type_, _skip(text, 0)
    while True:
        if wanted.branches:
            begun, at, value = _branch(text, at, wanted, types, build)
        elif wanted.kind is Kind.RECORD and _opens(text, at, wanted):
            begun, at, value = _Open(wanted, []), at + 1, None
        else:
            inside = bool(outer) and outer[-1].around is not None
            begun = None
            value, at = (None, at + 3) if wanted.kind is Kind.RECORD else _read_scalar(text, at, wanted, inside)
        if begun:
            outer.append(begun)
        elif not outer:
            return _ended(text, at, value)
        else:
            outer[-1].parts.append(value)
        while len(outer[-1].parts) == len(outer[-1].type.fields):
            done = outer.pop()
            at = _expect(text, at, done.closing, done.type)
            value = build(done.type, done.parts)
            if done.around:
                value = build(done.around[0], [done.around[1], value])
            if not outer:
                return _ended(text, at, value)
            outer[-1].parts.append(value)
        top = outer[-1]
        if top.parts:
            at = _expect(text, at, ",", top.type)
        wanted, at = types[top.type.fields[len(top.parts)][1]], _skip(text, at)


def _branch(
    text: str, at: int, type_: Type, types: Mapping[str, Type], build: Callable[[Type, list[Any]], Any]
) -> tuple[_Open | None, int, Any]:
    """The branch that begins at `at`: its record, still open, or its value if it has no fields."""
    match = _BRANCH.match(text, at)
    if match is None:
        raise RecordError(f"expected `$` and a branch of type `{type_.name}`", at)
    names = [name for name, _ in type_.branches]
    if match[1] not in names:
        raise RecordError(f"type `{type_.name}` has no branch `${match[1]}`", at)
    number = names.index(match[1])
    held = types[type_.branches[number][1]]
    if held.fields:
        if not match[2]:
            raise RecordError(f"expected `(`: branch `${match[1]}` has {len(held.fields)} fields", match.end())
        return _Open(held, [], (type_, number)), match.end(), None
    end = match.end()
    if match[2]:
        end = _expect(text, end, ")", held)
    else:
        end = match.end(1)
    return None, end, build(type_, [number, None])


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
        elif wanted.branches:
            todo += _branch_pieces(part, wanted, types)
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


def _branch_pieces(value: Value, type_: Type, types: Mapping[str, Type]) -> list[str | tuple[Value, Type]]:
    """The pieces of a branch, the last first."""
    names = [name for name, _ in type_.branches]
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], int):  # as normal rules have it
        value = (names[value[0]], *(value[1] or ()))  # type: ignore[misc]  # a record or nil
    if not isinstance(value, tuple | list) or not value or value[0] not in names:
        raise ValueError(f"not a value of type `{type_.name}`: {value!r}")
    fields = types[type_.branches[names.index(value[0])][1]].fields
    if len(value) != len(fields) + 1:
        raise ValueError(f"not a value of type `{type_.name}`: {value!r}")
    if not fields:
        return [f"${value[0]}"]
    pieces: list[str | tuple[Value, Type]] = [")"]
    for at in range(len(fields) - 1, -1, -1):
        inner, part = types[fields[at][1]], value[at + 1]
        piece = (part, inner) if inner.kind is Kind.RECORD else format_scalar(part, inner.kind, in_branch=True)
        pieces += [piece, ", " if at else f"${value[0]}("]
    return pieces


def format_scalar(value: Value, kind: Kind, in_branch: bool = False) -> str:
    """The text of a number or a symbol inside of a record, or directly inside of a branch."""
    if kind is Kind.SYMBOL:
        text = str(value)
        if not _NEEDS_QUOTES.search(text) and not (in_branch and _PARENTHESES.search(text)):
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
        what = f"branch `${type_.name.split('#')[1]}`" if "#" in type_.name else f"a record of type `{type_.name}`"
        raise RecordError(f"expected `{mark}`: {what} has {len(type_.fields)} fields", at)
    return at + 1


def _read_scalar(text: str, at: int, type_: Type, in_branch: bool = False) -> tuple[Value, int]:
    quoted = _QUOTED.match(text, at) if type_.kind is Kind.SYMBOL else None
    if quoted:
        body = _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), quoted[1])
        return body, quoted.end()
    bare = (_BARE_IN_BRANCH if in_branch else _BARE).match(text, at)
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
