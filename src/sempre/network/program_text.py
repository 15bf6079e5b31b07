"""Local programs as text: what `sempre check -v` prints of a program with locations."""

from __future__ import annotations

from sempre.analysis.model import (
    Call,
    Compare,
    Const,
    Expr,
    Fold,
    Literal,
    Match,
    NormalRule,
    Not,
    Relation,
    Unpack,
    Var,
)
from sempre.analysis.naming import shown
from sempre.lang.operators import PRECEDENCE
from sempre.lang.printer import string_text
from sempre.network.localize import LocalProgram


def local_text(local: LocalProgram) -> str:
    """The declarations that localization added, and every rule, with the place of its body first."""
    lines = [_declaration(local.relations[name]) for name in local.relations if name in local.made]
    lines += [rule_text(rule, local) for rule in local.rules]
    return "\n".join(lines)


def _declaration(relation: Relation) -> str:
    columns = ", ".join(
        f"{'@' if at == relation.location else ''}{name}: {type_.name}"
        for at, (name, type_) in enumerate(zip(relation.columns, relation.types, strict=True))
    )
    return f".decl {relation.name}({columns})"


def rule_text(rule: NormalRule, local: LocalProgram) -> str:
    """A rule in the language; variables that the user did not write are named after their number."""
    relation = local.relations[rule.relation]
    args = []
    for at, arg in enumerate(rule.args):
        text = term(arg)
        if relation.aggregate and relation.aggregate[1] == at:
            text = f"{relation.aggregate[0]}({text})"
        args.append(f"@{text}" if at == relation.location else text)
    body = ", ".join(literal(part, local) for part in rule.body)
    return f"{rule.relation}({', '.join(args)}) :- {body}."


def literal(part: Literal, local: LocalProgram) -> str:
    match part:
        case Match(relation=name, args=args):
            location = local.relations[name].location
            return f"{name}({', '.join(('@' if at == location else '') + term(arg) for at, arg in enumerate(args))})"
        case Compare(op=op, left=left, right=right):
            if op.endswith(("match", "contains")):
                return f"{'!' if op.startswith('not_') else ''}{op.removeprefix('not_')}({term(left)}, {term(right)})"
            return f"{term(left)} {op} {term(right)}"
        case Unpack(record=record, fields=fields):
            return f"{term(record)} = [{', '.join(map(term, fields))}]"
        case Not(body=body):
            inner = ", ".join(literal(nested, local) for nested in body)
            return f"!{inner}" if len(body) == 1 else f"!({inner})"
        case Fold(result=result, kind=kind, expr=expr, body=body):
            inner = ", ".join(literal(nested, local) for nested in body)
            return f"{term(result)} = {kind}{'' if expr is None else ' ' + term(expr)} : {{ {inner} }}"


def term(expr: Expr) -> str:
    if isinstance(expr, Var):
        plain = shown(expr.name)
        return plain if plain == expr.name else f"_{expr.name.replace('#', '')}"
    if isinstance(expr, Const):
        return (
            string_text(expr.value) if isinstance(expr.value, str) else "nil" if expr.value is None else str(expr.value)
        )
    assert isinstance(expr, Call)
    args = [term(arg) for arg in expr.args]
    if expr.op in PRECEDENCE and len(args) == 2:
        return f"({args[0]} {expr.op} {args[1]})"
    if expr.op == "record":
        return f"[{', '.join(args)}]"
    return f"-{args[0]}" if expr.op == "neg" else f"{expr.op}({', '.join(args)})"
