"""Loads the program that a command names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sempre.cli.souffle_options import reading
from sempre.cli.terminal import show_warnings
from sempre.diagnostics import ProgramError
from sempre.files import check_directives, missing_file

if TYPE_CHECKING:
    from sempre.api import Program


def load_program(
    path: Path, options: argparse.Namespace, *, spark: bool = True, semantics: str | None = None
) -> Program:
    """The program in `path`, checked, with its warnings shown; its directives can be honored, with Spark or without.

    `options` say how a program is read, and whether warnings are wanted.
    """
    from sempre.api import Program

    if not path.exists():
        raise missing_file(path)
    program = Program.from_file(path, semantics=semantics, **reading(options))
    bad_options = check_directives(program.checked, spark=spark)
    if bad_options:
        raise ProgramError(bad_options, program.checked.sources)
    if not options.no_warn:
        show_warnings(program.checked.warnings, program.checked.sources)
    return program
