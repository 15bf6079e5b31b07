"""Places in source text, diagnostics, the error tree, and how they are shown.

    SempreError
    ├── ProgramError     the user's rules are at fault; carries every diagnostic of the program
    ├── DataError        facts, files or change scripts are at fault
    ├── StateError       the database or the store cannot do this now
    ├── BackendError     the place where work runs refused it
    └── InternalError    a defect of sempre itself

A check never raises on the first finding: it collects `Diagnostic` values, and the caller raises once with all of
them, sorted by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Any, ClassVar

from sempre.data import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text; lines and columns count from 1, `end_column` is exclusive.

    `within` says what the text stands for there, if that is more than itself: the instance of a component, or the
    macro that it came from.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    within: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.file, self.line, self.column, other.end_line, other.end_column, self.within)


NOWHERE = Span("", 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: a stable code, a lowercase message, where it is, and how to get out of it."""

    code: str
    message: str
    span: Span = NOWHERE
    detail: str = ""
    hint: str = ""
    severity: str = "error"
    notes: tuple[tuple[Span, str], ...] = field(default=())


class SempreError(Exception):
    """Base of every error that sempre raises on purpose.

    `diagnostics` has each finding; `str(error)` is what a terminal shows. `code` is that of a finding that has none of
    its own.
    """

    code: ClassVar[str]

    def __init__(
        self,
        diagnostics: Diagnostic | Iterable[Diagnostic] | str,
        sources: Mapping[str, str] | None = None,
        *,
        hint: str = "",
    ) -> None:
        if isinstance(diagnostics, str):
            diagnostics = Diagnostic(self.code, diagnostics, hint=hint)
        if isinstance(diagnostics, Diagnostic):
            diagnostics = (diagnostics,)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(diagnostics, key=_position))
        self.sources: dict[str, str] = dict(sources or {})
        super().__init__(render(self.diagnostics, self.sources))

    def __reduce__(self) -> tuple[Any, ...]:
        """Errors cross to other processes whole: what `args` has is the text alone."""
        return type(self), (self.diagnostics, self.sources)


class ProgramError(SempreError):
    """The program is wrong: syntax, names, types, safety, stratification."""

    code = "E100"


class DataError(SempreError):
    """Facts or changes are wrong: a file that is missing, a value that does not fit, a null."""

    code = "E500"


class StateError(SempreError):
    """The database or the store cannot do what was asked in its present state."""

    code = "E600"


class BackendError(SempreError):
    """The place where work was to run refused it or failed."""

    code = "E700"


class InternalError(SempreError):
    """A defect of sempre itself."""

    code = "E900"


class Findings:
    """What is wrong with several pieces of data, to be raised as one `DataError`."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self._found = list(found)
        self._sources: dict[str, str] = {}

    def add(self, error: SempreError) -> None:
        self._found += error.diagnostics
        self._sources |= error.sources

    @contextmanager
    def gathered(self, kind: type[SempreError] = DataError) -> Iterator[None]:
        """Keep an error instead of letting it through: the next piece is looked at, too."""
        try:
            yield
        except kind as error:
            self.add(error)

    def check(self) -> None:
        """Raise, if anything was found."""
        if self._found:
            raise DataError(self._found, self._sources)


def _position(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    span = diagnostic.span
    return (span.file, span.line, span.column, diagnostic.code)


def render(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]) -> str:
    """All diagnostics as text, each with its line and a caret where the source is known."""
    return "\n".join(_render_one(diagnostic, sources) for diagnostic in diagnostics)


def _render_one(diagnostic: Diagnostic, sources: Mapping[str, str]) -> str:
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    lines += _excerpt(diagnostic.span, sources)
    for span, text in diagnostic.notes:
        lines.append(f"note: {text}")
        lines += _excerpt(span, sources)
    if diagnostic.detail:
        lines.append(f"detail: {diagnostic.detail}")
    if diagnostic.hint:
        lines.append(f"hint: {diagnostic.hint}")
    return "\n".join(lines)


def _excerpt(span: Span, sources: Mapping[str, str]) -> list[str]:
    if not span.file:
        return []
    out = [f"  --> {span}, in {span.within}" if span.within else f"  --> {span}"]
    text = sources.get(span.file)
    if text is None or not span.line:
        return out
    source_lines = text.split("\n")
    if span.line > len(source_lines):
        return out
    line = source_lines[span.line - 1].rstrip("\r")
    width = (span.end_column - span.column) if span.end_line == span.line else len(line) - span.column + 1
    gutter = str(span.line)
    # Tabs are kept in the marker line so that the caret stands under what it marks.
    lead = "".join("\t" if c == "\t" else " " for c in line[: span.column - 1])
    out.append(f" {gutter} | {line}")
    out.append(f" {' ' * len(gutter)} | {lead}{'^' * max(1, width)}")
    return out
