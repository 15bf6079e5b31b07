"""Facts, literals and sentences as text, with values in the place of variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from sempre.analysis.model import (
    Call,
    CheckedProgram,
    Compare,
    Const,
    Expr,
    Fold,
    Literal,
    Match,
    NormalRule,
    Not,
    Type,
    Unpack,
    Var,
)
from sempre.analysis.naming import shown
from sempre.data import dataclass
from sempre.files.records import BranchValue
from sempre.lang.printer import string_text
from sempre.python_functions import shown_kind

INFIX = {
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "^": "^", "band": "band", "bor": "bor", "bxor": "bxor",
    "bshl": "bshl", "bshr": "bshr", "bshru": "bshru", "land": "land", "lor": "lor", "lxor": "lxor",
}  # fmt: skip
SENTENCE = "//!"
_PLACEHOLDER = re.compile(r"\{\s*([A-Za-z_?][A-Za-z0-9_?]*)\s*\}")


@dataclass(frozen=True, slots=True)
class Shapes:
    """What the records of a rule are taken apart into, so that they can be told as they were written.

    `patterns` has the literals that take records apart, by the variable of the record, and `records` the types of
    variables. A variable that nobody wrote is told by its pattern.
    """

    patterns: Mapping[str, Unpack] = field(default_factory=dict)
    records: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, Type] = field(default_factory=dict)

    @staticmethod
    def of(rule: NormalRule, program: CheckedProgram) -> Shapes:
        """Those of a rule."""
        patterns: dict[str, Unpack] = {}
        waiting = list(reversed(rule.body))
        while waiting:
            literal = waiting.pop()
            if isinstance(literal, Unpack):
                patterns.setdefault(literal.record.name, literal)
            elif isinstance(literal, Not | Fold):
                waiting += reversed(literal.body)
        return Shapes(patterns, rule.records, program.types)

    def is_told_elsewhere(self, literal: Literal) -> bool:
        """Whether a literal is the pattern of something that another literal shows."""
        return isinstance(literal, Unpack) and not shown(literal.record.name) and literal.record.name in self.patterns

    def whole(self, literal: Unpack) -> Unpack:
        """The pattern that the one of a literal is a part of."""
        around = {
            part.name: outer for outer in self.patterns.values() for part in outer.fields if isinstance(part, Var)
        }
        seen: set[str] = set()
        while literal.record.name in around and literal.record.name not in seen and not shown(literal.record.name):
            seen.add(literal.record.name)
            literal = around[literal.record.name]
        return literal

    def branch(self, type_name: str, parts: Sequence[Expr]) -> tuple[str, str, Expr] | None:
        """The name of a branch, the type of what it holds, and that, where a record stands for such a value."""
        branches = self.types[type_name].branches if type_name in self.types else ()
        if not branches or not isinstance(parts[0], Const) or not isinstance(parts[0].value, int):
            return None
        name, held = branches[parts[0].value]
        return name, held, parts[1]


PLAIN = Shapes()


def value_text(value: Any) -> str:
    """A value as a program would have it. Lists may be long: nothing here recurs."""
    pieces: list[str] = []
    todo: list[tuple[bool, Any]] = [(False, value)]  # whether it is text already; the last comes first
    while todo:
        done, part = todo.pop()
        if done:
            pieces.append(part)
        elif isinstance(part, tuple):
            name = f"${part[0]}" if isinstance(part, BranchValue) else ""
            fields = part[1:] if name else part
            opening, closing = ("(", ")") if name else ("[", "]")
            todo.append((True, closing if fields or not name else ""))
            for at in range(len(fields) - 1, -1, -1):
                todo += [(False, fields[at]), (True, ", " if at else "")]
            todo.append((True, name + (opening if fields or not name else "")))
        else:
            pieces.append("nil" if part is None else string_text(part) if isinstance(part, str) else str(part))
    return "".join(pieces)


def fact_text(relation: str, values: Iterable[Any]) -> str:
    """A fact as a program would have it."""
    return f"{relation}({', '.join(map(value_text, values))})"


def expr_text(expr: Expr, values: Mapping[str, Any], shapes: Shapes = PLAIN, type_name: str = "") -> str:
    """An expression; variables without a value by their names, and `_` where they have none that anybody wrote."""
    if isinstance(expr, Var):
        if expr.name in values:
            return value_text(values[expr.name])
        pattern = None if shown(expr.name) else shapes.patterns.get(expr.name)
        return shown(expr.name) or ("_" if pattern is None else _pattern_text(pattern, values, shapes))
    if isinstance(expr, Const):
        return value_text(expr.value)
    assert isinstance(expr, Call)
    if expr.op == "record":
        return _record_text(expr.args, values, shapes, type_name)
    args = [expr_text(arg, values, shapes) for arg in expr.args]
    if expr.op in INFIX and len(args) == 2:
        return f" {INFIX[expr.op]} ".join(
            f"({text})" if isinstance(arg, Call) and arg.op in INFIX else text
            for arg, text in zip(expr.args, args, strict=True)
        )
    return f"-{args[0]}" if expr.op == "neg" else f"{expr.op}({', '.join(args)})"


def _record_text(parts: Sequence[Expr], values: Mapping[str, Any], shapes: Shapes, type_name: str) -> str:
    """A record that is built, or a branch of an algebraic type."""
    branch = shapes.branch(type_name, parts)
    if branch is not None:
        name, inner, held = branch
        fields = _record_text(held.args, values, shapes, inner)[1:-1] if isinstance(held, Call) else ""
        return f"${name}({fields})" if fields else f"${name}"
    types = [each for _, each in shapes.types[type_name].fields] if type_name in shapes.types else [""] * len(parts)
    return f"[{', '.join(expr_text(part, values, shapes, each) for part, each in zip(parts, types, strict=True))}]"


def _pattern_text(literal: Unpack, values: Mapping[str, Any], shapes: Shapes) -> str:
    """What a record is taken apart into; what nobody wrote by its own pattern, also where it has a value."""
    named = {name: value for name, value in values.items() if shown(name) or name not in shapes.patterns}
    branch = shapes.branch(shapes.records.get(literal.record.name, ""), literal.fields)
    if branch is None:
        return f"[{', '.join(expr_text(part, named, shapes) for part in literal.fields)}]"
    name, _, held = branch
    inner = shapes.patterns.get(held.name) if isinstance(held, Var) else None
    fields = ", ".join(expr_text(part, named, shapes) for part in inner.fields) if inner is not None else ""
    return f"${name}({fields})" if fields else f"${name}"


def literal_text(literal: Literal, values: Mapping[str, Any], shapes: Shapes = PLAIN) -> str:
    """A literal with the values that are known."""
    if isinstance(literal, Match):
        return f"{literal.relation}({', '.join(expr_text(arg, values, shapes) for arg in literal.args)})"
    if isinstance(literal, Compare):
        types = [shapes.records.get(side.name, "") for side in (literal.left, literal.right) if isinstance(side, Var)]
        sides = (literal.left, literal.right)
        left, right = (expr_text(side, values, shapes, "".join(types[:1])) for side in sides)
        op = literal.op.removeprefix("not_")
        if op in ("match", "contains"):
            return f"{'!' if op != literal.op else ''}{op}({left}, {right})"
        return f"{left} {op} {right}"
    if isinstance(literal, Not):
        return f"!{body_text(literal.body, values, shapes)}"
    if isinstance(literal, Fold):
        return f"{expr_text(literal.result, values, shapes)} = {fold_text(literal, values, shapes)}"
    whole = shapes.whole(literal)
    return f"{expr_text(whole.record, values)} = {_pattern_text(whole, values, shapes)}"


def body_text(body: tuple[Literal, ...], values: Mapping[str, Any], shapes: Shapes = PLAIN) -> str:
    """A body inside of a negation: in parentheses unless it is one atom."""
    told = _told(body, values, shapes)
    parts = ", ".join(literal_text(literal, values, shapes) for literal in told)
    return parts if len(told) == 1 and isinstance(told[0], Match) else f"({parts})"


def fold_text(literal: Fold, values: Mapping[str, Any], shapes: Shapes = PLAIN) -> str:
    """An aggregate, without its result."""
    term = "" if literal.expr is None else f" {expr_text(literal.expr, values, shapes)}"
    parts = ", ".join(literal_text(each, values, shapes) for each in _told(literal.body, values, shapes))
    return f"{shown_kind(literal.kind)}{term} : {{ {parts} }}"


def _told(body: Sequence[Literal], values: Mapping[str, Any], shapes: Shapes) -> list[Literal]:
    """The literals of a body but the patterns that others show."""
    return [
        each
        for each in body
        if not (isinstance(each, Unpack) and shapes.is_told_elsewhere(each) and each.record.name not in values)
    ]


def sentence_of(rule: NormalRule, program: CheckedProgram) -> str:
    """What the lines `//! ...` right above a rule say."""
    lines = program.sources.get(rule.span.file, "").split("\n")
    found: list[str] = []
    at = rule.span.line - 2
    while 0 <= at < len(lines) and lines[at].lstrip().startswith(SENTENCE):
        found.insert(0, lines[at].strip()[len(SENTENCE) :].strip())
        at -= 1
    return " ".join(found)


def placeholders(sentence: str) -> list[str]:
    """The variables that a sentence names."""
    return _PLACEHOLDER.findall(sentence)


def filled(sentence: str, values: Mapping[str, Any]) -> str:
    """A sentence with values in the place of variables; texts without their quotes."""

    def value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in values:
            return found.group(0)
        return values[name] if isinstance(values[name], str) else value_text(values[name])

    return _PLACEHOLDER.sub(value, sentence)
