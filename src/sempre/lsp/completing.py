"""What a word can become where somebody types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sempre.analysis.functor_signatures import FUNCTORS
from sempre.data import dataclass
from sempre.lang.declarations import QUALIFIERS
from sempre.lang.lexer import DIRECTIVES
from sempre.lang.operators import AGGREGATES
from sempre.lsp.answers import Place, source_of
from sempre.lsp.program_names import Name, Scope
from sempre.lsp.program_reading import Reading, normal
from sempre.lsp.programs import Programs

BASE_TYPES = ("number", "unsigned", "float", "symbol")

_DIRECTIVE = re.compile(r"(?:^|[\s})])\.(\w*)$")
_MEMBER = re.compile(r"((?:[A-Za-z_?][\w?]*\.)+)[\w?]*$")
_BRANCH = re.compile(r"\$\w*$")
_FUNCTOR = re.compile(r"@\w*$")
_TYPE = re.compile(r"(?:[:|]|<:|=)\s*[\w.?]*$")
_CAST = re.compile(r"\bas\([^()]*,\s*[\w.?]*$")
_DECLARING = re.compile(
    r"\.(?:decl|functor|aggregate)\b[^()]*\([^()]*$|\.(?:functor|aggregate)\b[^()]*\([^()]*\)[^\n]*$|\.type\b[^\n]*$"
)
_LISTING = re.compile(r"\.(?:input|output|printsize|limitsize|override)\b[^(\n]*$")
_MAKING = re.compile(r"(?:\.init[ \t]+\w+[ \t]*=|\.comp\b[^{:\n]*:)[^{\n]*$")
_QUALIFIED = re.compile(r"\.decl\b[^()]*\([^()]*\)[^().\n]*$")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a word can become. `space` is that of names, or `directive`, `word` or `built-in`."""

    label: str
    space: str
    detail: str = ""


def completions(programs: Programs, place: Place) -> list[Proposal]:
    """What can be typed at a place."""
    lines = programs.text(place.file).split("\n")[: place.line]
    # What belongs together seldom takes more lines.
    before = "\n".join([*lines[-20:-1], lines[-1][: place.column - 1] if lines else ""])
    reading = programs.of(place.file)[0]
    scope = reading.parser.scope_at(place.file, place.line, place.column)
    found = list(_proposals(reading, scope, before, place))
    return list({each.label: each for each in reversed(found)}.values())[::-1]


def _proposals(reading: Reading, scope: Scope, before: str, place: Place) -> Iterator[Proposal]:
    member = _MEMBER.search(before)
    if member is not None:
        home = reading.names.inside_of(scope, member[1].rstrip(".").split("."))
        if home is not None:
            for space in ("relation", "type", "instance", "branch"):
                yield from _of_names(reading, reading.names.members(home, space))
            return
    if _DIRECTIVE.search(before):
        yield from (Proposal(name, "directive") for name in sorted(DIRECTIVES))
    elif _BRANCH.search(before):
        yield from _of_space(reading, scope, "branch")
    elif _FUNCTOR.search(before) and not _DECLARING.search(before):
        yield from _of_space(reading, scope, "functor")
    elif _MAKING.search(before):
        yield from (*_of_space(reading, scope, "component"), *_types(reading, scope))
    elif _QUALIFIED.search(before):
        yield from (Proposal(word, "word") for word in (*QUALIFIERS, "choice-domain"))
    elif (_DECLARING.search(before) and _TYPE.search(before)) or _CAST.search(before):
        yield from _types(reading, scope)
    elif _LISTING.search(before):
        yield from _relations(reading, scope)
    else:
        yield from _in_a_rule(reading, scope, place)


def _in_a_rule(reading: Reading, scope: Scope, place: Place) -> Iterator[Proposal]:
    """What a rule is made of: its variables first."""
    item = _item_before(reading, place)
    for name in reading.names.all:
        if name.item == item and name.space == "variable":
            yield Proposal(name.text, "variable")
    yield from _relations(reading, scope)
    yield from (Proposal(name, "built-in") for name in sorted((*FUNCTORS, "as", "autoinc")) if name.isidentifier())
    yield from (Proposal(word, "word") for word in sorted((*AGGREGATES, "nil", "match", "contains")))


def _item_before(reading: Reading, place: Place) -> int:
    """The last item that begins before a place: the one that is being typed, whether it is broken or not."""
    here = (place.line, place.column)
    begun = {
        (each.span.line, each.span.column): first
        for first, each in reading.parser.extents.items()
        if normal(each.span).file == place.file and (each.span.line, each.span.column) <= here
    }
    return begun[max(begun)] if begun else -1


def _relations(reading: Reading, scope: Scope) -> Iterator[Proposal]:
    yield from _of_space(reading, scope, "relation")
    yield from _of_space(reading, scope, "instance")


def _types(reading: Reading, scope: Scope) -> Iterator[Proposal]:
    yield from (Proposal(name, "type") for name in BASE_TYPES)
    yield from _of_space(reading, scope, "type")
    yield from _of_space(reading, scope, "parameter")


def _of_space(reading: Reading, scope: Scope, space: str) -> Iterator[Proposal]:
    yield from _of_names(reading, reading.names.visible(scope, space))


def _of_names(reading: Reading, names: Iterable[Name]) -> Iterator[Proposal]:
    for name in names:
        yield Proposal(name.text, name.space, source_of(reading, name).split("\n")[0])
