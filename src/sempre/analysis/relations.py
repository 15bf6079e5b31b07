"""The declared relations, with what directives say about each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sempre.analysis.draft import Draft
from sempre.analysis.model import Kind, Relation, Type
from sempre.analysis.type_table import TypeTable, build_type_table, unknown_type
from sempre.diagnostics import Diagnostic
from sempre.lang.syntax import Attribute, Directive, ParsedProgram, RelationDecl

# Stands for a type that has been reported; nothing is checked against it.
UNKNOWN_TYPE = Type("?", Kind.NUMBER)


def resolve_types(draft: Draft) -> Draft:
    """Pass: the table of types."""
    table, diagnostics = build_type_table(draft.program)
    return replace(draft, types=table).report(diagnostics)


def resolve_relations(draft: Draft) -> Draft:
    """Pass: the relations, each with its columns, types, qualifiers and directives."""
    diagnostics: list[Diagnostic] = []
    relations: dict[str, Relation] = {}
    for decl in _declarations(draft.program):
        diagnostics += _declaration_problems(decl, draft.types)
        if decl.name in relations:
            notes = ((relations[decl.name].span, "the first declaration is here"),)
            message = f"relation `{decl.name}` is already declared"
            hint = "Remove one of the declarations."
            diagnostics.append(Diagnostic("E204", message, decl.span, hint=hint, notes=notes))
            continue
        relations[decl.name] = _relation(decl, draft.types)
    for directive in (item for item in draft.program.items if isinstance(item, Directive)):
        for name in directive.relations:
            if name in relations:
                relations[name] = _direct(relations[name], directive)
    return replace(draft, relations=relations).report(diagnostics)


def _declarations(program: ParsedProgram) -> Iterator[RelationDecl]:
    return (item for item in program.items if isinstance(item, RelationDecl))


def _relation(decl: RelationDecl, table: TypeTable) -> Relation:
    located = [index for index, attribute in enumerate(decl.attributes) if attribute.located]
    relation = Relation(
        name=decl.name,
        columns=tuple(attribute.name for attribute in decl.attributes),
        types=tuple(table.types.get(attribute.type_name, UNKNOWN_TYPE) for attribute in decl.attributes),
        qualifiers=frozenset(decl.qualifiers),
        location=located[0] if located else None,
        span=decl.span,
    )
    for kind in ("input", "output", "printsize"):
        if kind in decl.qualifiers:
            relation = _direct(relation, Directive(kind, (decl.name,), span=decl.span))
    return relation


def _direct(relation: Relation, directive: Directive) -> Relation:
    """`relation` with one more directive."""
    match directive.kind:
        case "input":
            return replace(relation, inputs=(*relation.inputs, directive))
        case "output":
            return replace(relation, outputs=(*relation.outputs, directive))
        case "printsize":
            return replace(relation, printsize=True)
        case _:  # `.limitsize` is refused
            return relation


def _declaration_problems(decl: RelationDecl, table: TypeTable) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for attribute in decl.attributes:
        if attribute.type_name not in table.types and attribute.type_name not in table.broken:
            yield unknown_type(attribute.type_name, attribute.span, table.types)
        if attribute.name in seen:
            message = f"`{decl.name}` has two columns named `{attribute.name}`"
            yield Diagnostic("E206", message, attribute.span, hint="Give each column its own name.")
        seen.add(attribute.name)
    located = [attribute for attribute in decl.attributes if attribute.located]
    if len(located) > 1:
        message = f"`{decl.name}` has more than one location"
        yield Diagnostic("E208", message, located[1].span, hint="A fact lives in one place: keep one `@`.")
    if "eqrel" in decl.qualifiers and not _is_pair(decl.attributes):
        message = f"`{decl.name}` cannot be an equivalence relation"
        yield Diagnostic("E207", message, decl.span, hint="Give an `eqrel` two columns of one type.")


def _is_pair(attributes: tuple[Attribute, ...]) -> bool:
    return len(attributes) == 2 and attributes[0].type_name == attributes[1].type_name
