"""The declared types: what each is made of, and which is a subtype of which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from sempre.analysis.algebraic import branch_types, resolve_branches
from sempre.analysis.model import Kind, Type
from sempre.analysis.naming import nearest
from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.syntax import (
    AlgebraicType,
    Attribute,
    FunctorDecl,
    ParsedProgram,
    RecordType,
    Subtype,
    TypeDecl,
    Union,
)

BASE_TYPES = {kind.value: Type(kind.value, kind) for kind in Kind if kind is not Kind.RECORD}


@dataclass(frozen=True, slots=True)
class TypeTable:
    """Resolved types by name, with the declaration each came from; `broken` ones have been reported.

    `branches` has, for each branch of an algebraic type, that type and the number of the branch in it. `functors` are
    those that the user declares.
    """

    types: dict[str, Type] = field(default_factory=lambda: dict(BASE_TYPES))
    declared: dict[str, TypeDecl] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    branches: dict[str, tuple[str, int]] = field(default_factory=dict)
    functors: dict[str, FunctorDecl] = field(default_factory=dict)

    def members(self, name: str) -> tuple[str, ...]:
        """The members of a union; empty for any other type."""
        decl = self.declared.get(name)
        return decl.definition.members if decl and isinstance(decl.definition, Union) else ()

    def base(self, name: str) -> str | None:
        """What a subtype was declared under."""
        decl = self.declared.get(name)
        return decl.definition.base if decl and isinstance(decl.definition, Subtype) else None

    def is_subtype(self, lower: str, upper: str) -> bool:
        """Whether every value of `lower` is one of `upper`."""
        if lower == upper:
            return True
        if members := self.members(lower):
            return all(self.is_subtype(member, upper) for member in members)
        if any(self.is_subtype(lower, member) for member in self.members(upper)):
            return True
        base = self.base(lower)
        return base is not None and self.is_subtype(base, upper)

    def meet(self, one: str, other: str) -> frozenset[str]:
        """The largest types that are subtypes of both."""
        if self.is_subtype(one, other):
            return frozenset({one})
        if self.is_subtype(other, one):
            return frozenset({other})
        if members := self.members(one):
            return frozenset().union(*(self.meet(member, other) for member in members))
        return frozenset().union(*(self.meet(one, member) for member in self.members(other)))

    def record_root(self, name: str) -> str | None:
        """The record type that `name` is, or is a subtype or an alias of."""
        if name not in self.types or self.types[name].kind is not Kind.RECORD:
            return None
        if members := self.members(name):
            return self.record_root(members[0])
        base = self.base(name)
        return name if base is None else self.record_root(base)


def build_type_table(program: ParsedProgram) -> tuple[TypeTable, list[Diagnostic]]:
    """The types of a program, and what is wrong with their declarations."""
    diagnostics: list[Diagnostic] = []
    declared: dict[str, TypeDecl] = {}
    for decl in (item for item in program.items if isinstance(item, TypeDecl)):
        if decl.name in declared or decl.name in BASE_TYPES:
            earlier = declared.get(decl.name)
            notes = ((earlier.span, "the first declaration is here"),) if earlier else ()
            message, hint = f"type `{decl.name}` is already declared", "Give one of them another name."
            diagnostics.append(Diagnostic("E311", message, decl.span, hint=hint, notes=notes))
        else:
            declared[decl.name] = decl
    types = dict(BASE_TYPES)
    for name in declared:
        diagnostics += _resolve(name, declared, types, ())
    diagnostics += _field_problems(declared, types)
    sound = {name: decl for name, decl in declared.items() if name in types}
    branches, clashes = resolve_branches(sound.values())
    broken = frozenset(declared) - frozenset(sound)
    functors = {item.name: item for item in program.items if isinstance(item, FunctorDecl)}
    return TypeTable(types, sound, broken, branches, functors), diagnostics + clashes


def _resolve(
    name: str, declared: dict[str, TypeDecl], types: dict[str, Type], path: tuple[str, ...]
) -> list[Diagnostic]:
    """Add `name` to `types`, and what it is made of before it; a type with a problem is left out."""
    if name in types or name not in declared:
        return []
    decl = declared[name]
    if name in path:
        cycle = " -> ".join((*path[path.index(name) :], name))
        message, hint = f"type `{name}` is defined by itself: {cycle}", "Only the fields of a record may refer back."
        return [Diagnostic("E312", message, decl.span, hint=hint)]
    if isinstance(decl.definition, RecordType):
        fields = tuple((attribute.name, attribute.type_name) for attribute in decl.definition.fields)
        types[name] = Type(name, Kind.RECORD, fields)
        return []
    if isinstance(decl.definition, AlgebraicType):
        types |= branch_types(name, decl.definition)
        return []
    parts = (decl.definition.base,) if isinstance(decl.definition, Subtype) else decl.definition.members
    diagnostics = [problem for part in parts for problem in _resolve(part, declared, types, (*path, name))]
    diagnostics += list(_unknown(parts, decl, declared, types))
    known = [types[part] for part in parts if part in types]
    if diagnostics or not known:
        return diagnostics
    return _join(decl, known, types)


def _unknown(
    parts: tuple[str, ...], decl: TypeDecl, declared: dict[str, TypeDecl], types: dict[str, Type]
) -> Iterator[Diagnostic]:
    for part in parts:
        if part not in declared and part not in types:
            yield unknown_type(part, decl.span, [*types, *declared])


def unknown_type(name: str, span: Span, known: Iterable[str]) -> Diagnostic:
    """The diagnostic for a type that is used at `span` and declared nowhere."""
    return Diagnostic("E310", f"unknown type `{name}`", span, hint=nearest(name, known))


def _join(decl: TypeDecl, known: list[Type], types: dict[str, Type]) -> list[Diagnostic]:
    """Add a subtype or a union of the resolved types `known`."""
    first = known[0]
    if any((type_.kind, type_.fields, type_.branches) != (first.kind, first.fields, first.branches) for type_ in known):
        kinds = ", ".join(f"`{type_.name}` ({type_.kind.value})" for type_ in known)
        hint = "All members of a union are stored alike; different records cannot be joined."
        return [Diagnostic("E313", f"union `{decl.name}` mixes {kinds}", decl.span, hint=hint)]
    base = first.name if isinstance(decl.definition, Subtype) else ""
    types[decl.name] = Type(decl.name, first.kind, first.fields, first.branches, base)
    return []


def _field_problems(declared: dict[str, TypeDecl], types: dict[str, Type]) -> Iterator[Diagnostic]:
    for decl in declared.values():
        for attribute in _fields(decl):
            if attribute.type_name not in types and attribute.type_name not in declared:
                yield unknown_type(attribute.type_name, attribute.span, [*types, *declared])


def _fields(decl: TypeDecl) -> Iterator[Attribute]:
    """The fields of a record type, or of the branches of an algebraic one."""
    if isinstance(decl.definition, RecordType):
        yield from decl.definition.fields
    elif isinstance(decl.definition, AlgebraicType):
        for _, fields in decl.definition.branches:
            yield from fields
