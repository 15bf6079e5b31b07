"""Facts, literals and sentences as text, with values in the place of variables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sempre.analysis.model import Call, CheckedProgram, Compare, Const, Expr, Fold, Literal, Match, NormalRule, Not, Var
from sempre.analysis.naming import shown
from sempre.files.records import BranchValue
from sempre.lang.printer import string_text
from sempre.python_functions import shown_kind

INFIX = {
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "^": "^", "band": "band", "bor": "bor", "bxor": "bxor",
    "bshl": "bshl", "bshr": "bshr", "bshru": "bshru", "land": "land", "lor": "lor", "lxor": "lxor",
}  # fmt: skip
SENTENCE = "//!"
_PLACEHOLDER = re.compile(r"\{\s*([A-Za-z_?][A-Za-z0-9_?]*)\s*\}")


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


def expr_text(expr: Expr, values: Mapping[str, Any]) -> str:
    """An expression; variables without a value by their names, and `_` where they have none that anybody wrote."""
    if isinstance(expr, Var):
        return value_text(values[expr.name]) if expr.name in values else shown(expr.name) or "_"
    if isinstance(expr, Const):
        return value_text(expr.value)
    assert isinstance(expr, Call)
    args = [expr_text(arg, values) for arg in expr.args]
    if expr.op == "record":
        return f"[{', '.join(args)}]"
    if expr.op in INFIX and len(args) == 2:
        return f" {INFIX[expr.op]} ".join(
            f"({text})" if isinstance(arg, Call) and arg.op in INFIX else text
            for arg, text in zip(expr.args, args, strict=True)
        )
    return f"-{args[0]}" if expr.op == "neg" else f"{expr.op}({', '.join(args)})"


def literal_text(literal: Literal, values: Mapping[str, Any]) -> str:
    """A literal with the values that are known."""
    if isinstance(literal, Match):
        return f"{literal.relation}({', '.join(expr_text(arg, values) for arg in literal.args)})"
    if isinstance(literal, Compare):
        left, right = expr_text(literal.left, values), expr_text(literal.right, values)
        op = literal.op.removeprefix("not_")
        if op in ("match", "contains"):
            return f"{'!' if op != literal.op else ''}{op}({left}, {right})"
        return f"{left} {op} {right}"
    if isinstance(literal, Not):
        return f"!{body_text(literal.body, values)}"
    if isinstance(literal, Fold):
        return f"{expr_text(literal.result, values)} = {fold_text(literal, values)}"
    fields = ", ".join(expr_text(part, values) for part in literal.fields)
    return f"{expr_text(literal.record, values)} = [{fields}]"


def body_text(body: tuple[Literal, ...], values: Mapping[str, Any]) -> str:
    """A body inside of a negation: in parentheses unless it is one atom."""
    parts = ", ".join(literal_text(literal, values) for literal in body)
    return parts if len(body) == 1 and isinstance(body[0], Match) else f"({parts})"


def fold_text(literal: Fold, values: Mapping[str, Any]) -> str:
    """An aggregate, without its result."""
    term = "" if literal.expr is None else f" {expr_text(literal.expr, values)}"
    return f"{shown_kind(literal.kind)}{term} : {{ {', '.join(literal_text(each, values) for each in literal.body)} }}"


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
