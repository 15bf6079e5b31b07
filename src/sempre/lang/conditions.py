"""The conditions of `#if`: integers, `defined(X)` and the operators of C."""

from __future__ import annotations

import re
from collections.abc import Callable

from sempre.lang.macros import Macros

_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))")
_PART = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlL]*|([A-Za-z_]\w*)|(<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%!~&|^()<>?:]))"
)
_DEEPEST = 100

_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip


class ConditionFault(ValueError):
    """A condition that is none; says why."""


def holds(text: str, macros: Macros, file: str, line: int) -> bool:
    """Whether a condition holds, with what its macros stand for; a name that stands for nothing is 0."""

    def known(match: re.Match[str]) -> str:
        return "1" if macros.get(match[1] or match[2]) is not None else "0"

    reader = _Condition(_parts(macros.expanded(_DEFINED.sub(known, text), file, line)))
    value = reader.choice()
    if reader.parts:
        raise ConditionFault(f"`{reader.parts[0]}` was not expected")
    return value != 0


def _parts(text: str) -> list[str]:
    parts, position = [], 0
    while text[position:].strip():
        match = _PART.match(text, position)
        if match is None:
            raise ConditionFault(f"`{text[position:].strip()[0]}` was not expected")
        parts.append("0" if match[2] else match[1] or match[3])
        position = match.end()
    return parts


class _Condition:
    """Reads a condition from left to right, and computes it."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts
        self.depth = 0

    def choice(self) -> int:
        value = self.level(0)
        if not self.accept("?"):
            return value
        yes = self.choice()
        if not self.accept(":"):
            raise ConditionFault("`:` is missing")
        no = self.choice()
        return yes if value else no

    def accept(self, part: str) -> bool:
        if self.parts[:1] == [part]:
            del self.parts[0]
            return True
        return False

    def level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.level(level + 1)
        while self.parts and self.parts[0] in _LEVELS[level]:
            operator = self.parts.pop(0)
            value = _computed(operator, value, self.level(level + 1))
        return value

    def unary(self) -> int:
        if not self.parts:
            raise ConditionFault("it ends too early")
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ConditionFault("it is nested too deeply")
        part = self.parts.pop(0)
        if part in _UNARY:
            value = _UNARY[part](self.unary())
        elif part == "(":
            value = self.choice()
            if not self.accept(")"):
                raise ConditionFault("`)` is missing")
        elif part[0].isdigit():
            value = int(part, 0 if part[1:2].isalpha() else 10)
        else:
            raise ConditionFault(f"`{part}` was not expected")
        self.depth -= 1
        return value


_UNARY: dict[str, Callable[[int], int]] = {
    "!": lambda x: int(not x), "-": lambda x: -x, "+": lambda x: x, "~": lambda x: ~x,
}  # fmt: skip
_BINARY: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)), "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b), "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b),
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
}  # fmt: skip


def _computed(operator: str, left: int, right: int) -> int:
    if operator in _BINARY:
        return _BINARY[operator](left, right)
    if operator in ("<<", ">>"):
        if not 0 <= right < 64:
            raise ConditionFault("a shift goes from 0 to 63")
        return left << right if operator == "<<" else left >> right
    if right == 0:
        raise ConditionFault("it divides by zero")
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator == "/" else left - quotient * right
