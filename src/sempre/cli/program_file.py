"""Loads the program that a command names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sempre.diagnostics import ProgramError
from sempre.files import check_directives, missing_file

if TYPE_CHECKING:
    from sempre.api import Program


def load_program(path: Path, *, spark: bool = True, semantics: str | None = None) -> Program:
    """The program in `path`, checked; its directives can be honored too, with Spark or without."""
    from sempre.api import Program

    if not path.exists():
        raise missing_file(path)
    program = Program.from_file(path, semantics=semantics)
    bad_options = check_directives(program.checked, spark=spark)
    if bad_options:
        raise ProgramError(bad_options, program.checked.sources)
    return program
