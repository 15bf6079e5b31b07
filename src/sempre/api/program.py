"""Programs: text, parsed and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre.analysis.check import check
from sempre.analysis.model import CheckedProgram, Relation
from sempre.api.refusals import check_place
from sempre.diagnostics import ProgramError
from sempre.lang.parser import parse_prepared, prepare
from sempre.lang.preprocessor import Preprocessing
from sempre.rewrites.demand import Pattern
from sempre.rewrites.goals import for_outputs, for_question

if TYPE_CHECKING:
    import pyarrow as pa


def check_text(text: object) -> None:
    """Raise where something else was handed over as a program, such as the path of its file."""
    if not isinstance(text, str):
        hint = "A file is read by `sempre.Program.from_file(path)`."
        raise ProgramError(f"a program is a text, and this is {type(text).__name__}", hint=hint)


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
    include
        Folders where `#include` looks, besides the one of the file.
    macros
        What the preprocessor knows from the start: `{"LIMIT": "10"}` is `#define LIMIT 10`.
    legacy
        Subtypes of one type flow into each other, as in programs for early versions of Soufflé; the same as
        `.pragma "legacy"`.
    root
        Refuse to include files outside of this folder.
    """

    def __init__(
        self,
        text: str,
        file: str = "<program>",
        *,
        semantics: str | None = None,
        include: Iterable[str | Path] = (),
        macros: Mapping[str, str] | None = None,
        legacy: bool = False,
        root: str | Path | None = None,
    ) -> None:
        check_text(text)
        if legacy:
            text = f'{text}\n.pragma "legacy"\n'
        folders = tuple(map(str, (include,) if isinstance(include, str | Path) else include))
        settings = Preprocessing(folders, tuple((macros or {}).items()), None if root is None else str(root))
        prepared = prepare(text, file, settings)
        # What a store keeps: included files and macros are in it.
        self.text = prepared.text
        self.file = file
        self.syntax = parse_prepared(prepared)
        self.checked: CheckedProgram = check(self.syntax, prepared.sources, semantics)
        # What a database evaluates: other rules for the same facts, as far as these are wanted.
        self.evaluated = self.checked

    def under(self, semantics: str | None) -> Program:
        """The same program checked under other semantics, or itself."""
        if semantics in (None, self.checked.semantics):
            return self
        made = copy(self)
        made.checked = made.evaluated = check(self.syntax, self.checked.sources, semantics)
        return made

    def for_outputs(self, *, magic: bool = False) -> Program:
        """The program cut down to what its outputs need; itself if it has none, or if its rules are active.

        With `magic`, and where the program asks for it, only those facts of other relations are derived that can matter
        to the outputs.
        """
        if self.checked.semantics == "active":
            return self
        return self._cut(for_outputs(self.checked, magic))

    def for_question(self, relation: str, pattern: Pattern) -> Program:
        """The program cut down to what is needed for the facts of a relation whose columns in `pattern` are given."""
        return self._cut(for_question(self.checked, relation, pattern))

    def _cut(self, evaluated: CheckedProgram) -> Program:
        made = copy(self)
        relations = {name: evaluated.relations[name] for name in self.checked.relations}
        made.checked = replace(self.checked, relations=relations, facts=evaluated.facts)
        made.evaluated = evaluated
        return made

    def on_demand(self, names: Iterable[str]) -> Program:
        """The program with `demand` at the declarations of these relations."""
        from sempre.api.questions import with_qualifier

        return Program(with_qualifier(self, names), self.file, semantics=self.checked.semantics)

    def query(self, text: str, facts: Mapping[str, Any] | str | Path | None = None, **options: Any) -> pa.Table:
        """The answers to an atom such as `reach("a", X)`, a column for each variable, from these facts.

        Parameters
        ----------
        text
            The atom. Only what its answers need is read and derived; constants in it keep that small.
        facts
            Tables by relation, or a directory with what `.input` names; together with the facts of the program.
        options
            Options of `Database`.
        """
        from sempre.api.questions import answer_once

        return answer_once(self, text, facts, options)

    @staticmethod
    def from_file(path: str | Path, **options: Any) -> Program:
        """The program in a file; the options are those of `Program`."""
        check_place(path, "the file of a program")
        try:
            text = Path(path).read_text("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ProgramError(f"`{path}` is not UTF-8 text: byte {error.start} cannot be decoded") from None
        except OSError as error:
            raise ProgramError(f"cannot read `{path}`: {(error.strerror or str(error)).lower()}") from None
        return Program(text, str(path), **options)

    @property
    def relations(self) -> Mapping[str, Relation]:
        """The declared relations, by name."""
        return self.checked.relations

    def __repr__(self) -> str:
        return f"<Program: {len(self.checked.relations)} relations, {len(self.checked.rules)} rules>"
