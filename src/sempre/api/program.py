"""Programs: text, parsed and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram, Relation
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse


class Program:
    """A parsed and checked program.

    Parameters
    ----------
    text
        The program. Raises `ProgramError` with every error it has.
    file
        The name that messages show.
    semantics
        `stratified` or `active`, instead of what the program's own pragma says.
    """

    def __init__(self, text: str, file: str = "<program>", *, semantics: str | None = None) -> None:
        self.text = text
        self.file = file
        self.syntax = parse(text, file)
        self.checked: CheckedProgram = check(self.syntax, {file: text}, semantics)

    def under(self, semantics: str | None) -> Program:
        """The same program checked under other semantics, or itself."""
        if semantics in (None, self.checked.semantics):
            return self
        return Program(self.text, self.file, semantics=semantics)

    @staticmethod
    def from_file(path: str | Path, *, semantics: str | None = None) -> Program:
        """The program in a file."""
        try:
            text = Path(path).read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ProgramError(f"`{path}` is not UTF-8 text: byte {error.start} cannot be decoded") from None
        except OSError as error:
            raise ProgramError(f"cannot read `{path}`: {(error.strerror or str(error)).lower()}") from None
        return Program(text, str(path), semantics=semantics)

    @property
    def relations(self) -> Mapping[str, Relation]:
        """The declared relations, by name."""
        return self.checked.relations

    def __repr__(self) -> str:
        return f"<Program: {len(self.checked.relations)} relations, {len(self.checked.rules)} rules>"
