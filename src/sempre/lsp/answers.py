"""What an editor asks about a place in a program: the definition, all uses, another name; and the outline of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sempre.data import dataclass
from sempre.diagnostics import NOWHERE, Span
from sempre.lang.operators import AGGREGATES, PRECEDENCE, UNARY
from sempre.lsp.program_names import Name
from sempre.lsp.program_reading import Reading
from sempre.lsp.programs import Programs

_WORD = re.compile(r"[A-Za-z_?][A-Za-z0-9_?]*")
_INCLUDE = re.compile(r'^[ \t]*(?:#[ \t]*|\.)include\s*["<]([^">]+)[">]')
_RESERVED = frozenset({"_", "nil", "true", "false", *AGGREGATES, *(word for word in (*PRECEDENCE, *UNARY))})
_NO_DECLARATION = ("variable", "attribute")


class Refused(Exception):
    """What was asked cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cursor is: a file, and a line and column from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration in the outline of a file."""

    name: Name
    span: Span
    detail: str


def definitions(programs: Programs, place: Place) -> list[Span]:
    """Where what stands at a place is declared."""
    found = [meant.span for _, _, meant in _meant(programs, place) if meant is not None]
    found = found or list(_macro(programs, place)) or list(_included_file(programs, place))
    return list(dict.fromkeys(found))


def references(programs: Programs, place: Place, *, declaration: bool = True) -> list[Span]:
    """Where what stands at a place is used, in all programs that its file is part of."""
    found: list[Span] = []
    for reading, _, meant in _meant(programs, place):
        if meant is not None:
            found += [use.span for use in reading.names.uses(meant) if declaration or use is not meant]
    return list(dict.fromkeys(found))


def renamed(programs: Programs, place: Place, new: str) -> list[Span]:
    """The places where a new name is to be written instead of the one at a place; raises `Refused`."""
    if not _WORD.fullmatch(new) or new in _RESERVED:
        raise Refused(f"`{new}` is not a name")
    here = name_at(programs, place)
    declared = {meant.span for _, _, meant in _meant(programs, place) if meant is not None}
    if not declared:
        raise Refused(f"`{here.text}` is declared nowhere")
    spans: dict[Span, None] = {}
    # Files that are included may be part of several programs: what is declared in them has the name in all of these.
    for file in {span.file for span in declared}:
        for reading in programs.of(file):
            _check_renaming(reading, here, new)
            meant = [name for name in reading.names.all if name.text == here.text and name.span in declared]
            uses = [use for name in meant for use in reading.names.uses(name)]
            if any(use.span.within for use in uses):
                raise Refused(f"`{here.text}` is written by a macro")
            spans |= dict.fromkeys(use.span for use in uses)
    return list(spans)


def name_at(programs: Programs, place: Place) -> Name:
    """The name at a place that can get another; raises `Refused`."""
    found = [name for _, name, _ in _meant(programs, place)]
    if not found:
        raise Refused("there is no name here")
    if found[0].span.within:
        raise Refused(f"`{found[0].text}` is written by a macro")
    return found[0]


def _check_renaming(reading: Reading, here: Name, new: str) -> None:
    if reading.syntax_errors:
        raise Refused(f"`{Path(reading.file).name}` has syntax errors; mend these first")
    for name in reading.names.all:
        if name.text != new:
            continue
        if here.space in _NO_DECLARATION:
            if name.space == here.space and name.item == here.item:
                raise Refused(f"there is already a {here.space} `{new}` here")
        elif name.declares and _clash(name.space, here.space):
            raise Refused(f"`{new}` is already declared at {Path(name.span.file).name}:{name.span.line}")


def _clash(one: str, other: str) -> bool:
    of_types = ("type", "parameter", "component")
    return one == other or (one in of_types and other in of_types)


def outline(programs: Programs, file: str) -> list[Declared]:
    """What a file declares, in order: relations, types, functors, components and instances."""
    reading = programs.of(file)[0]
    shown = ("relation", "type", "functor", "component", "instance")
    return [
        Declared(name, extent(reading, name), source_of(reading, name))
        for name in reading.names.all
        if name.declares and name.space in shown and name.span.file == file and not name.span.within
    ]


def extent(reading: Reading, name: Name) -> Span:
    """All of the declaration or rule that a name belongs to."""
    found = reading.parser.extents.get(name.item)
    span = name.span if found is None else found.span
    return Span(name.span.file, span.line, span.column, span.end_line, span.end_column)


def source_of(reading: Reading, name: Name) -> str:
    """The declaration that a name belongs to as it is written, of a component its head alone."""
    span = extent(reading, name)
    lines = reading.sources.get(span.file, "").split("\n")[span.line - 1 : span.end_line]
    if not lines:
        return name.text
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    text = "\n".join(lines)
    return text.split("{")[0].rstrip() if name.space == "component" else text


def _meant(programs: Programs, place: Place) -> Iterator[tuple[Reading, Name, Name | None]]:
    """The names at a place, in all programs that its file is part of, and the declarations that they mean."""
    for reading in programs.of(place.file):
        name = name_in(reading, programs.text(place.file), place)
        if name is not None:
            yield reading, name, reading.names.meant(name)


def name_in(reading: Reading, text: str, place: Place) -> Name | None:
    """The name at a place of a program; in the use of a macro, the one that is written there."""
    found = reading.names.at(place.file, place.line, place.column)
    if any(name.span.within for name in found):
        word, _ = word_at(text, place)
        return next((name for name in found if name.text == word), None)
    # Of `a.b` that part where the cursor is, and what begins here rather than what ends here.
    return max(found, key=lambda name: name.span.column, default=None)


def word_at(text: str, place: Place) -> tuple[str, Span]:
    """The word at a place, and where it is."""
    lines = text.split("\n")
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    for match in _WORD.finditer(line):
        if match.start() < place.column <= match.end() + 1:
            return match.group(), Span(place.file, place.line, match.start() + 1, place.line, match.end() + 1)
    return "", NOWHERE


def _macro(programs: Programs, place: Place) -> Iterator[Span]:
    """Where the macro at a place is defined."""
    word, _ = word_at(programs.text(place.file), place)
    if not word:
        return
    pattern = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+({re.escape(word)})\b", re.MULTILINE)
    for reading in programs.of(place.file):
        for file, text in reading.sources.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start(1)) + 1
                column = match.start(1) - (text.rfind("\n", 0, match.start(1)) + 1) + 1
                yield Span(file, line, column, line, column + len(word))


def _included_file(programs: Programs, place: Place) -> Iterator[Span]:
    """The file that the line at a place includes."""
    lines = programs.text(place.file).split("\n")
    match = _INCLUDE.match(lines[place.line - 1]) if place.line <= len(lines) else None
    if match is None:
        return
    tail = os.path.normpath(match[1])
    for reading in programs.of(place.file):
        for file in reading.sources:
            if file != place.file and (file == tail or file.endswith(os.sep + tail.lstrip("./"))):
                yield Span(file, 1, 1, 1, 1)
