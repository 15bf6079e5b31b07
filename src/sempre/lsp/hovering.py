"""What is known of the name at a place: its declaration, its type, its stratum and module."""

from __future__ import annotations

from collections.abc import Iterator

from sempre.analysis.model import CheckedProgram, Relation
from sempre.analysis.naming import shown
from sempre.diagnostics import Span
from sempre.lang.syntax import Atom, Component, Item, RelationDecl, Rule, Subsumption, Variable
from sempre.lang.walk import descend
from sempre.lsp.answers import Place, extent, name_in, source_of
from sempre.lsp.program_names import Name
from sempre.lsp.program_reading import Reading, normal
from sempre.lsp.programs import Programs


def hover(programs: Programs, place: Place) -> tuple[str, Span] | None:
    """What to show at a place, as Markdown, and the name that it is about."""
    reading = programs.of(place.file)[0]
    name = name_in(reading, programs.text(place.file), place)
    if name is None:
        return None
    meant = reading.names.meant(name)
    if name.space == "variable":
        return _code(f"{name.text}: {_variable_type(reading, name)}"), name.span
    if meant is None:
        return None
    said = [_code(source_of(reading, meant))]
    if meant.space == "relation":
        said += _about_relation(programs, reading, name, meant)
    comment = _comment_above(reading, meant)
    return "\n\n".join([*said, comment] if comment else said), name.span


def _code(text: str) -> str:
    return f"```souffle\n{text}\n```"


# ------------------------------------------------------------------------------------------- variables


def _variable_type(reading: Reading, name: Name) -> str:
    """The type of a variable: that of the first column it stands in, or what the analysis found."""
    rule = _rule_of(reading, name)
    if rule is None:
        return "?"
    declared = dict(_declarations(reading.items))
    at = {(each.span.file, each.span.line, each.span.column): each for each in reading.names.all}
    for atom in (node for node in descend(rule) if isinstance(node, Atom)):
        span = normal(atom.span)
        # The atom begins with its name, or with the instance that the name is qualified by.
        column = span.column + len(atom.relation) - len(atom.relation.rpartition(".")[2])
        use = at.get((span.file, span.line, column))
        meant = None if use is None else reading.names.meant(use)
        node = None if meant is None else declared.get((_start(extent(reading, meant)), meant.text))
        for index, argument in enumerate(atom.args):
            fits = isinstance(argument, Variable) and argument.name == name.text
            if fits and node is not None and index < len(node.attributes):
                return node.attributes[index].type_name
    return _inferred(reading.checked, rule, name.text)


def _rule_of(reading: Reading, name: Name) -> Rule | Subsumption | None:
    start = _start(extent(reading, name))
    for node in _flat(reading.items):
        if isinstance(node, Rule | Subsumption) and _start(normal(node.span)) == start:
            return node
    return None


def _inferred(checked: CheckedProgram | None, rule: Rule | Subsumption, variable: str) -> str:
    if checked is None:
        return "?"
    for each in checked.rules:
        if _start(each.span) == _start(rule.span):
            for name, kind in each.kinds.items():
                if shown(name) == variable:
                    return kind.value
    return "?"


def _flat(items: tuple[Item, ...] | list[Item]) -> Iterator[Item]:
    """All items, those of components too."""
    for item in items:
        yield item
        if isinstance(item, Component):
            yield from _flat(item.items)


def _declarations(items: list[Item]) -> Iterator[tuple[tuple[tuple[str, int, int], str], RelationDecl]]:
    for item in _flat(items):
        if isinstance(item, RelationDecl):
            yield (_start(normal(item.span)), item.name), item


def _start(span: Span) -> tuple[str, int, int]:
    return span.file, span.line, span.column


# ------------------------------------------------------------------------------------------- relations


def _about_relation(programs: Programs, reading: Reading, name: Name, meant: Name) -> Iterator[str]:
    """The stratum and the modules of a relation, of each instance if it is declared in a component."""
    sound = programs.sound(reading)
    if sound is None or sound.checked is None:
        return
    place = _start(extent(reading, meant))
    found = [
        relation
        for relation in sound.checked.relations.values()
        if relation.name.rpartition(".")[2] == meant.text and _start(normal(relation.span)) == place
    ]
    full = ".".join((*name.owners, name.text))
    if name.owners and not name.scope and any(relation.name == full for relation in found):
        found = [relation for relation in found if relation.name == full]
    for relation in found:
        before = f"`{relation.name}`: " if relation.name != meant.text else ""
        yield before + "; ".join(_facts_of(sound, relation))


def _facts_of(sound: Reading, relation: Relation) -> Iterator[str]:
    checked = sound.checked
    assert checked is not None
    if sound.modular is None:
        yield "active rules: all are matched in every cycle"
        return
    for stratum in checked.strata:
        if relation.name in stratum.relations:
            recursive = any(rule.relation == relation.name for rule in stratum.recursive)
            yield f"stratum {stratum.index}{', recursive' if recursive else ''}"
    modules = [module for several in sound.modular.modules.values() for module in several]
    mine = [module for module in modules if relation.name in module.heads]
    yield from (f"module {module.kind}, since {module.reason}" for module in mine)
    if not mine:
        yield "no module"
    if relation.name in checked.guards:
        yield f"evaluated again at every change: {checked.guards[relation.name].what}"


def _comment_above(reading: Reading, meant: Name) -> str:
    """The comment of `//` lines that stands directly above a declaration."""
    lines = reading.sources.get(meant.span.file, "").split("\n")
    at = extent(reading, meant).line - 2
    found: list[str] = []
    while at >= 0 and lines[at].lstrip().startswith("//"):
        found.insert(0, lines[at].strip().lstrip("/!").strip())
        at -= 1
    return "\n".join(found)
