"""Programs in the printer's form, with their comments: what `sempre format` writes.

An item (a declaration, a rule, ...) is printed anew, unless it has a comment inside or numbers that the printer spells
otherwise: then it stays as it is, without blanks at the ends of lines. Comments and lines of the preprocessor stay
where they are between items; blank lines too, but no two after each other. Items that share a line go on sharing it.
Formatting a formatted text changes nothing.
"""

from __future__ import annotations

import re
from collections import Counter

from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, ProgramError
from sempre.lang.cursor import SyntaxFailure
from sempre.lang.lexer import Token, tokenize
from sempre.lang.parser import Parser
from sempre.lang.printer import item_text
from sempre.lang.syntax import Item

_ASIDE = re.compile(
    r"""
      (?P<string>"(?:[^"\\\n]|\\[^\n])*"?)
    | (?P<aside>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\r?\n|[^\n])*)
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_SPELLED = ("number", "unsigned", "float", "string")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A printed item, or what stands aside; and where it is in the text."""

    text: str
    start: int
    end: int
    is_item: bool


def formatted(text: str, file: str = "<text>") -> str:
    """The program in `text`, formatted; raises `ProgramError` with every syntax error it has."""
    text = text.replace("\r\n", "\n")
    asides = [match for match in _ASIDE.finditer(text) if match["aside"] is not None]
    pieces = sorted(
        (*_items(text, file, asides), *(_aside(match) for match in asides)), key=lambda piece: (piece.start, piece.end)
    )
    lines: list[str] = []
    last: _Piece | None = None
    for piece in pieces:
        if last is not None and piece.start < last.end:
            continue  # inside of an item that stays as it is
        gap = text[last.end : piece.start] if last else "\n"
        if last and "\n" not in gap and _may_follow(last, piece):
            lines[-1] += f"{'  ' if not piece.is_item else ' '}{piece.text}"
        else:
            if last and gap.count("\n") > 1:
                lines.append("")
            lines.append(piece.text)
        last = piece
    return "\n".join(lines) + "\n" if lines else ""


def _aside(match: re.Match[str]) -> _Piece:
    text = "\n".join(line.rstrip() for line in match.group().lstrip(" \t").split("\n"))
    return _Piece(text, match.start(), match.end(), is_item=False)


def _may_follow(last: _Piece, piece: _Piece) -> bool:
    """Whether a piece stays on the line of the one before."""
    if piece.text.startswith("#") or last.text.startswith(("//", "#")) or "\n" in last.text:
        return not piece.is_item and not piece.text.startswith("#") and not last.text.startswith(("//", "#"))
    return "\n" not in piece.text


def _items(text: str, file: str, asides: list[re.Match[str]]) -> list[_Piece]:
    """The items, printed where that is possible."""
    blank = list(text)
    for match in asides:
        for at in range(match.start(), match.end()):
            if blank[at] != "\n":
                blank[at] = " "
    bare = "".join(blank)
    tokens, diagnostics = tokenize(bare, file)
    parser = Parser(tokens, diagnostics)
    found: list[_Piece] = []
    while not parser.at("end"):
        start = parser.position
        try:
            items = parser.item()
        except SyntaxFailure as failure:
            parser.recover(failure.diagnostic, start)
            continue
        except RecursionError:
            parser.recover(parser.too_deep(tokens[start].span).diagnostic, start)
            continue
        first, end = tokens[start].offset, tokens[parser.position - 1].end
        has_aside = any(first <= match.start() < end for match in asides)
        printed = None if has_aside else _printed(items, tokens[start : parser.position])
        kept = "\n".join(line.rstrip() for line in text[first:end].split("\n"))
        found.append(_Piece(kept if printed is None else printed, first, end, is_item=True))
    if diagnostics:
        raise ProgramError(diagnostics, {file: text})
    return found


def _printed(items: list[Item], tokens: list[Token]) -> str | None:
    """The text of items; None where the printer would spell a literal otherwise, or mean something else."""
    text = "\n".join(map(item_text, items))
    again: list[Diagnostic] = []
    found, again = tokenize(text, "<printed>")
    if again or _literals(found) != _literals(tokens):
        return None
    parser = Parser(found, again)
    return text if parser.program() == items and not again else None


def _literals(tokens: list[Token]) -> Counter[str]:
    return Counter(token.text for token in tokens if token.kind in _SPELLED)
