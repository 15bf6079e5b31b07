"""The preprocessor: `#include`, `#define`, `#if` and their like, before the text is cut into tokens.

    preprocess(text, file, settings) -> Prepared     the text that is left, and where each character of it came from

What a macro stands for has the place of its use, so that every message points to text that the user wrote. A program
without such lines is taken as it is. `docs/design/0009-preprocessor.md` says why this is not a library.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from sempre.data import dataclass
from sempre.diagnostics import Diagnostic, Span
from sempre.lang.conditions import ConditionFault, holds
from sempre.lang.lexer import Source
from sempre.lang.macros import Macro, MacroFault, Macros, read_macro

DEEPEST_INCLUDE = 50

# What Soufflé defines for every program; values are 64 bits wide here.
PREDEFINED = {"RAM_DOMAIN_SIZE": "64"}

_ACTIVE = re.compile(r"^[ \t]*(?:#|\.(?:include|once)\b)|\b__(?:FILE|LINE)__\b", re.MULTILINE)
_PIECE = re.compile(
    r"""
      (?P<directive>(?<![^\n])[ \t]*(?:
          \#(?:[^\n\\"/]|\\\r?\n|\\|"(?:[^"\\\n]|\\.)*"?|/\*.*?\*/|//[^\n]*|/)*
        | \.(?:include|once)\b[^\n]*))
    | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*"?)
    | (?P<number>[0-9][A-Za-z0-9_]*)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<other>[^\S\n]+|\n|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_FILE = re.compile(r'"([^"]+)"|<([^>]+)>')
_CONDITIONALS = frozenset({"if", "ifdef", "ifndef", "elif", "else", "endif"})
_WITHOUT_EFFECT = frozenset({"", "pragma", "line", "warning", "ident"})


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Where `#include` looks besides the folder of the file, and the macros that are defined from the start.

    With `root`, files outside of that folder are not included. `texts` has, by absolute paths, files that are not to be
    read from the disk: those that an editor has open.
    """

    folders: tuple[str, ...] = ()
    macros: tuple[tuple[str, str], ...] = ()
    root: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def has(self, path: Path) -> bool:
        """Whether there is such a file."""
        return path.is_file() or os.path.normpath(path.absolute()) in self.texts

    def text_of(self, path: Path) -> str:
        """What is in a file; raises `OSError` or `UnicodeDecodeError`."""
        given = self.texts.get(os.path.normpath(path.absolute())) if self.texts else None
        return path.read_text("utf-8-sig") if given is None else given


PLAIN = Preprocessing()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stretch of the prepared text came from; with `end`, all of it stands for the text up to there."""

    source: Source
    offset: int
    end: int | None = None
    within: str = ""

    def span(self, start: int, end: int) -> Span:
        """The place of the characters from `start` to `end` of the stretch."""
        if self.end is None:
            return self.source.span(self.offset + start, self.offset + end)
        span = self.source.span(self.offset, self.end)
        return Span(span.file, span.line, span.column, span.end_line, span.end_column, self.within)


class Prepared(Source):
    """A text made of stretches of others, and the texts of all files that are in it."""

    def __init__(self, text: str, file: str, places: list[int], origins: list[Origin], sources: dict[str, str]) -> None:
        super().__init__(text, file)
        self.places = places
        self.origins = origins
        self.sources = sources

    def span(self, start: int, end: int) -> Span:
        if not self.places:
            return super().span(start, end)
        index = max(0, bisect_right(self.places, start) - 1)
        last = max(index, bisect_right(self.places, end - 1) - 1)
        first = self._piece(index, start, end)
        if last == index:
            return first
        final = self._piece(last, start, end)
        if final.file != first.file or (final.end_line, final.end_column) < (first.line, first.column):
            return first
        within = first.within if first.within == final.within else ""
        return Span(first.file, first.line, first.column, final.end_line, final.end_column, within)

    def _piece(self, index: int, start: int, end: int) -> Span:
        """The part of a place that is in one stretch."""
        begin = self.places[index]
        finish = self.places[index + 1] if index + 1 < len(self.places) else max(end, begin)
        return self.origins[index].span(max(start, begin) - begin, max(min(end, finish), begin) - begin)


def preprocess(text: str, file: str, settings: Preprocessing = PLAIN) -> tuple[Prepared, list[Diagnostic]]:
    """The text that is left of a program, and what is wrong with what the preprocessor was told."""
    if _ACTIVE.search(text) is None and not settings.macros:
        return Prepared(text, file, [], [], {file: text}), []
    run = _Run(settings)
    run.file(text, file, 0)
    return Prepared("".join(run.parts), file, run.places, run.origins, run.sources), run.diagnostics


@dataclass(slots=True)
class _Conditional:
    """An `#if` that is open: whether its lines count now, whether some of them did, and whether it had its `#else`."""

    span: Span
    active: bool
    done: bool
    last: bool = False


@dataclass(slots=True)
class _Reading:
    """A file that is being read."""

    source: Source
    depth: int
    open: list[_Conditional] = field(default_factory=list)

    @property
    def active(self) -> bool:
        return all(branch.active for branch in self.open)


class _Run:
    """What one run over a program and the files it includes has made so far."""

    def __init__(self, settings: Preprocessing) -> None:
        self.settings = settings
        given = (*PREDEFINED.items(), *settings.macros)
        self.macros = Macros({name: Macro(name, None, body, "") for name, body in given})
        self.parts: list[str] = []
        self.length = 0
        self.places: list[int] = []
        self.origins: list[Origin] = []
        self.sources: dict[str, str] = {}
        self.diagnostics: list[Diagnostic] = []
        self.once: set[str] = set()

    # -------------------------------------------------------------------------------------------- writing

    def emit(self, text: str, origin: Origin) -> None:
        if text:
            self.places.append(self.length)
            self.origins.append(origin)
            self.parts.append(text)
            self.length += len(text)

    def report(self, code: str, message: str, span: Span, hint: str = "", detail: str = "") -> None:
        self.diagnostics.append(Diagnostic(code, message, span, detail, hint))

    # -------------------------------------------------------------------------------------------- reading

    def file(self, text: str, name: str, depth: int) -> None:
        """Read one file to its end."""
        self.sources[name] = text
        reading = _Reading(Source(text, name), depth)
        position = begun = 0
        while position < len(text):
            match = _PIECE.match(text, position)
            assert match is not None  # the last alternative takes anything
            end = match.end()
            kind = match.lastgroup
            word = match.group()
            if kind == "directive" or (kind == "word" and reading.active and self.macros.stands_for(word, text, end)):
                if reading.active:
                    self.emit(text[begun:position], Origin(reading.source, begun))
                begun = end = self.taken(reading, match, kind == "directive")
            elif not reading.active:
                begun = end
            position = end
        if reading.active:
            self.emit(text[begun:], Origin(reading.source, begun))
        for branch in reading.open:
            self.report("E149", "this condition is never closed", branch.span, "Close it with `#endif`.")

    def taken(self, reading: _Reading, match: re.Match[str], directive: bool) -> int:
        """Do what a directive says, or write what a macro stands for; where to go on."""
        if directive:
            self.directive(reading, match)
            return match.end()
        source, start = reading.source, match.start()
        try:
            text, end = self.macros.use(source.text, start, match.end(), source.file, source.span(start, start).line)
        except MacroFault as fault:
            self.report(fault.code, str(fault), source.span(start, match.end()), fault.hint)
            return match.end()
        macro = self.macros.get(match.group())
        within = f"the macro `{match.group()}`" + (f" of {macro.place}" if macro is not None and macro.place else "")
        self.emit(text, Origin(source, start, end, within))
        return end

    # ----------------------------------------------------------------------------------------- directives

    def directive(self, reading: _Reading, match: re.Match[str]) -> None:
        line = match.group()
        start = match.start() + len(line) - len(line.lstrip())
        text = _COMMENT.sub(lambda found: found[1] or " ", line.strip()).replace("\\\r\n", " ").replace("\\\n", " ")
        span = reading.source.span(start, start + len(line.strip().split("\n")[0].rstrip("\\\r ")))
        name, rest = self._split(text[1:].strip())
        if name in _CONDITIONALS:
            self.conditional(reading, name, rest, span)
        elif reading.active:
            self.plain(reading, name, rest, span)

    def _split(self, text: str) -> tuple[str, str]:
        word = re.match(r"\w*", text)
        assert word is not None
        return word[0], text[word.end() :].strip()

    def plain(self, reading: _Reading, name: str, rest: str, span: Span) -> None:
        """A directive that is no condition."""
        if name == "define":
            self.define(rest, span)
        elif name == "undef":
            if not re.fullmatch(r"[A-Za-z_]\w*", rest):
                self.report("E153", "`#undef` needs the name of a macro", span)
            self.macros.drop(rest)
        elif name == "include":
            self.include(reading, rest, span)
        elif name == "once" or (name == "pragma" and rest == "once"):
            self.once.add(reading.source.file)
        elif name == "error":
            self.report("E151", f"`#error`: {rest}" if rest else "`#error`", span)
        elif name not in _WITHOUT_EFFECT:
            hint = "Known are #include, #define, #undef, #if, #ifdef, #ifndef, #elif, #else, #endif and #error."
            self.report("E153", f"unknown directive `#{name}`", span, hint)

    def define(self, text: str, span: Span) -> None:
        try:
            self.macros.add(read_macro(text, f"{span.file}:{span.line}"))
        except MacroFault as fault:
            self.report(fault.code, str(fault), span, fault.hint)

    def conditional(self, reading: _Reading, name: str, rest: str, span: Span) -> None:
        if name in ("if", "ifdef", "ifndef"):
            true = reading.active and self.holds(name, rest, span)
            reading.open.append(_Conditional(span, true, true))
            return
        if not reading.open:
            self.report("E149", f"`#{name}` without a condition", span, "Remove it, or write `#if` before.")
            return
        branch = reading.open.pop()
        if name == "endif":
            return
        if branch.last:
            self.report("E149", f"`#{name}` after `#else`", span, "A condition has one `#else`, and it is the last.")
        true = reading.active and not branch.done and (name == "else" or self.holds("if", rest, span))
        reading.open.append(_Conditional(branch.span, true, branch.done or true, name == "else"))

    def holds(self, name: str, rest: str, span: Span) -> bool:
        if name in ("ifdef", "ifndef"):
            if not re.fullmatch(r"[A-Za-z_]\w*", rest):
                self.report("E150", f"`#{name}` needs the name of a macro", span, f"Write `#{name} NAME`.")
            return (self.macros.get(rest) is not None) == (name == "ifdef")
        try:
            return holds(rest, self.macros, span.file, span.line)
        except (ConditionFault, MacroFault) as fault:
            hint = "Write numbers, macros and `defined(X)`."
            self.report("E150", f"this condition cannot be read: {fault}", span, hint)
            return False

    # ------------------------------------------------------------------------------------------- including

    def include(self, reading: _Reading, rest: str, span: Span) -> None:
        match = _FILE.fullmatch(rest)
        if match is None and rest:
            match = _FILE.fullmatch(self.macros.expanded(rest, span.file, span.line).strip())
        if match is None:
            hint = 'Write `#include "file.dl"` on a line of its own.'
            self.report("E147", "`#include` needs the name of a file, and nothing else", span, hint)
            return
        name = match[1] or match[2]
        tried = list(self._candidates(name, reading.source.file, match[1] is not None))
        found = next((path for path in tried if self.settings.has(path)), None)
        if found is None:
            folders = ", ".join(f"`{path.parent}`" for path in dict.fromkeys(tried))
            hint = f"It was looked for in {folders}; `-I DIR` adds a folder."
            self.report("E147", f"cannot include `{name}`: there is no such file", span, hint)
        elif str(found) not in self.once:
            self._included(found, name, reading.depth + 1, span)

    def _candidates(self, name: str, file: str, quoted: bool) -> Iterator[Path]:
        if quoted:
            yield Path(file).parent / name
        for folder in self.settings.folders:
            yield Path(folder) / name
        if not quoted and not self.settings.folders:
            yield Path(file).parent / name

    def _included(self, path: Path, name: str, depth: int, span: Span) -> None:
        root = self.settings.root
        if root is not None and not path.resolve().is_relative_to(Path(root).resolve()):
            self.report("E147", f"cannot include `{name}`: it is outside of `{root}`", span, "`--root` keeps it out.")
            return
        if depth > DEEPEST_INCLUDE:
            hint = "Write `#pragma once` at the top of the file, if it includes itself."
            self.report("E152", f"more than {DEEPEST_INCLUDE} files include each other", span, hint)
            return
        try:
            text = self.settings.text_of(path)
        except UnicodeDecodeError as error:
            message = f"cannot include `{name}`: byte {error.start} is not UTF-8"
            self.report("E147", message, span, "Convert it to UTF-8.")
            return
        except OSError as error:
            self.report("E147", f"cannot include `{name}`: {(error.strerror or str(error)).lower()}", span)
            return
        self.file(text, str(path), depth)
        self.emit("\n", Origin(Source(text, str(path)), len(text)))
