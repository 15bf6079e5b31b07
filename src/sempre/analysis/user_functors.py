"""Functors and aggregates that users declare: `.functor f(x: number): symbol`, called as `@f(x)`, and `.aggregate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from sempre.analysis.draft import Draft
from sempre.analysis.model import Kind
from sempre.analysis.naming import counted, nearest
from sempre.analysis.type_table import unknown_type
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import Aggregate, FunctorDecl, UserCall
from sempre.lang.walk import descend


def check_functors(draft: Draft) -> Draft:
    """Pass: declarations of functors and aggregates, and the uses of each; rules with wrong uses are faulty."""
    known: dict[str, FunctorDecl] = {}
    misdeclared: set[str] = set()
    problems: list[Diagnostic] = []
    for item in draft.program.items:
        if isinstance(item, FunctorDecl):
            wrong = list(_declaration_problems(item, known, draft))
            problems += wrong
            typed = all(name in draft.types.types for name in _types(item))
            misdeclared |= {item.name} if wrong or not typed else set()
            known.setdefault(item.name, item)
    faulty: set[int] = set()
    for number, rule in draft.open:
        nodes = list(descend(rule))
        wrong = [found for node in nodes for found in _use_problems(node, known)]
        problems += wrong
        faulty |= {number} if wrong or any(_name(node) in misdeclared for node in nodes) else set()
    return replace(draft, faulty=draft.faulty | faulty).report(problems)


def _types(item: FunctorDecl) -> tuple[str, ...]:
    return (*(parameter.type_name for parameter in item.parameters), item.result)


def _name(node: object) -> str:
    """The functor or aggregate in Python that a node uses; empty when it uses none."""
    if isinstance(node, UserCall):
        return node.name
    return node.kind[1:] if isinstance(node, Aggregate) and node.kind.startswith("@") else ""


def _declaration_problems(item: FunctorDecl, known: Mapping[str, FunctorDecl], draft: Draft) -> Iterator[Diagnostic]:
    what = "aggregate" if item.aggregates else "functor"
    if item.name in known:
        notes = ((known[item.name].span, "the first declaration is here"),)
        hint = "Give one of them another name."
        yield Diagnostic("E335", f"{what} `@{item.name}` is already declared", item.span, hint=hint, notes=notes)
    if item.aggregates and len(item.parameters) != 1:
        message = f"aggregate `@{item.name}` has {counted(len(item.parameters), 'parameter')}"
        hint = f"It has one, what it is taken of: `.aggregate {item.name}(x: number): number`."
        yield Diagnostic("E341", message, item.span, hint=hint)
    if item.stateful:
        hint = "Remove `stateful`: its value must depend on its arguments alone, or it cannot be kept up to date."
        yield Diagnostic("E125", f"functor `@{item.name}` is declared stateful", item.span, hint=hint)
    for name in _types(item):
        type_ = draft.types.types.get(name)
        if type_ is None and name not in draft.types.broken:
            yield unknown_type(name, item.span, draft.types.types)
        elif type_ is not None and type_.kind is Kind.RECORD:
            hint = f"Take the record apart in the rule, and give the {what} its fields."
            yield Diagnostic("E336", f"{what} `@{item.name}` has a record, `{name}`", item.span, hint=hint)


def _use_problems(node: object, known: Mapping[str, FunctorDecl]) -> Iterator[Diagnostic]:
    if isinstance(node, UserCall):
        yield from _call_problems(node, known)
    elif isinstance(node, Aggregate) and node.kind.startswith("@"):
        name = node.kind[1:]
        aggregates = [each for each, declared in known.items() if declared.aggregates]
        if name not in aggregates:
            hint = nearest(name, aggregates) or f"Declare it: `.aggregate {name}(x: number): number`."
            yield Diagnostic("E342", f"unknown aggregate `@{name}`", node.span, hint=hint)


def _call_problems(call: UserCall, known: Mapping[str, FunctorDecl]) -> Iterator[Diagnostic]:
    declared = known.get(call.name)
    if declared is not None and declared.aggregates:
        notes = ((declared.span, "declared here"),)
        hint = f"Write `@{call.name} x : {{ ... }}`."
        message = f"`@{call.name}` is an aggregate, and called as a functor"
        yield Diagnostic("E343", message, call.span, hint=hint, notes=notes)
    elif declared is None:
        hint = nearest(call.name, known) or f"Declare it: `.functor {call.name}(x: number): number`."
        yield Diagnostic("E337", f"unknown functor `@{call.name}`", call.span, hint=hint)
    elif len(declared.parameters) != len(call.args):
        message = f"`@{call.name}` takes {counted(len(declared.parameters), 'argument')}, not {len(call.args)}"
        notes = ((declared.span, "declared here"),)
        hint = "Give it the arguments of its declaration."
        yield Diagnostic("E338", message, call.span, hint=hint, notes=notes)
