"""One program as an editor has it: its names, what is wrong with it, and what its relations are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import Diagnostic, ProgramError, Span
from sempre.files import check_directives
from sempre.lang.lexer import tokenize_source
from sempre.lang.preprocessor import Preprocessing, preprocess
from sempre.lang.syntax import Item, ParsedProgram
from sempre.lsp.program_names import Names, NamingParser
from sempre.modules.find import Modular, modularize


class Reading:
    """What one look at a program gives. The text may be broken: then `checked` is None.

    Parameters
    ----------
    file
        The path of the program, absolute.
    text
        The program as the editor has it.
    settings
        Where includes are looked for, macros, and the texts of other files that an editor has open.
    legacy
        As `--legacy`.
    """

    def __init__(self, file: str, text: str, settings: Preprocessing, *, legacy: bool = False) -> None:
        self.file = file
        self.legacy = legacy
        shown = f'{text}\n.pragma "legacy"\n' if legacy else text
        prepared, found = preprocess(shown, file, settings)
        self.sources = {os.path.normpath(name): source for name, source in prepared.sources.items()}
        self.sources[file] = text
        tokens, wrong = tokenize_source(prepared)
        self.parser = NamingParser(tokens, wrong)
        self.items: list[Item] = self.parser.program()
        self.syntax_errors: tuple[Diagnostic, ...] = tuple(found or wrong)
        self._texts: Mapping[str, str] = prepared.sources

    @cached_property
    def names(self) -> Names:
        """The names, their places with normal paths."""
        self.parser.names = [replace(name, span=normal(name.span)) for name in self.parser.names]
        return Names(self.parser)

    @cached_property
    def _verdict(self) -> tuple[CheckedProgram | None, tuple[Diagnostic, ...]]:
        if self.syntax_errors:
            return None, self.syntax_errors
        try:
            checked = check(ParsedProgram(tuple(self.items)), dict(self._texts))
        except ProgramError as error:
            return None, error.diagnostics
        return checked, (*check_directives(checked), *checked.warnings)

    @property
    def checked(self) -> CheckedProgram | None:
        return self._verdict[0]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What `sempre check` says."""
        return [
            replace(each, span=normal(each.span), notes=tuple((normal(span), text) for span, text in each.notes))
            for each in self._verdict[1]
        ]

    @cached_property
    def modular(self) -> Modular | None:
        """The program with its modules, if it is one that is evaluated in strata."""
        if self.checked is None or self.checked.semantics == "active":
            return None
        return modularize(self.checked)


def normal(span: Span) -> Span:
    """A place with the path of its file in one form."""
    return replace(span, file=os.path.normpath(span.file)) if span.file else span
