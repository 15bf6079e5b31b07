"""Algebraic data types: their branches, how their values are held, and what can be wrong with their use.

A value `$B(x, y)` of a type `T` is held as a record of two fields: the number of the branch, and a record of type `T#B`
with what it holds (nil for a branch without fields). No program can write a type with a `#`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sempre.analysis.model import Kind, Type
from sempre.analysis.naming import counted, nearest
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.syntax import AlgebraicType, Branch, Nil, Record, TypeDecl


def branch_types(name: str, definition: AlgebraicType) -> dict[str, Type]:
    """An algebraic type, with the record types of its branches and one that stands for any of these."""
    held = {
        f"{name}#{branch}": tuple((field.name, field.type_name) for field in fields)
        for branch, fields in definition.branches
    }
    fields = (("branch", Kind.NUMBER.value), ("held", f"{name}#"))
    branches = tuple((branch, f"{name}#{branch}") for branch, _ in definition.branches)
    return {
        name: Type(name, Kind.RECORD, fields, branches),
        f"{name}#": Type(f"{name}#", Kind.RECORD),
        **{inner: Type(inner, Kind.RECORD, parts) for inner, parts in held.items()},
    }


def resolve_branches(declared: Iterable[TypeDecl]) -> tuple[dict[str, tuple[str, int]], list[Diagnostic]]:
    """For every branch its type and its number there, and the branches that two types or one type have twice."""
    found: dict[str, tuple[str, int]] = {}
    spans: dict[str, Span] = {}
    problems: list[Diagnostic] = []
    for decl in declared:
        if not isinstance(decl.definition, AlgebraicType):
            continue
        for number, (branch, fields) in enumerate(decl.definition.branches):
            problems += _repeated_fields(branch, [field.name for field in fields], decl)
            if branch in found:
                message = f"branch `${branch}` is already declared, in type `{found[branch][0]}`"
                notes = ((spans[branch], "the first declaration is here"),)
                hint = "Give one of them another name: the name of a branch says which type it is of."
                problems.append(Diagnostic("E330", message, decl.span, hint=hint, notes=notes))
                continue
            found[branch] = (decl.name, number)
            spans[branch] = decl.span
    return found, problems


def _repeated_fields(branch: str, names: list[str], decl: TypeDecl) -> list[Diagnostic]:
    twice = sorted({name for name in names if names.count(name) > 1})
    hint = "Give each field its own name."
    return [
        Diagnostic("E334", f"branch `${branch}` has two fields named `{name}`", decl.span, hint=hint) for name in twice
    ]


def unknown_branch(branch: Branch, known: Iterable[str]) -> Diagnostic:
    near = nearest(branch.name, known).replace("`", "`$", 1)
    hint = near or f"Declare it in a type, such as `.type T = {branch.name} {{}} | Other {{x: number}}`."
    return Diagnostic("E331", f"unknown branch `${branch.name}`", branch.span, hint=hint)


def wrong_fields(branch: Branch, type_name: str, fields: tuple[tuple[str, str], ...]) -> Diagnostic:
    """The error for a branch with too many or too few arguments."""
    message = f"branch `${branch.name}` of `{type_name}` has {counted(len(fields), 'field')}, not {len(branch.args)}"
    shown = ", ".join(f"{field}: {type_}" for field, type_ in fields)
    hint = f"It is declared as `{branch.name} {{{shown}}}`."
    return Diagnostic("E332", message, branch.span, hint=hint)


def no_record(term: Nil | Record, type_name: str) -> Diagnostic:
    """The error for a record, or `nil`, where a value of an algebraic type is wanted."""
    text = "`nil`" if isinstance(term, Nil) else "a record"
    message = f"{text} is no value of the algebraic type `{type_name}`"
    hint = "Write one of its branches, such as `$Branch` or `$Branch(x)`."
    return Diagnostic("E333", message, term.span, hint=hint)
