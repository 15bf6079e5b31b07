"""Loads the program that a command names."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from sempre.cli.souffle_options import reading
from sempre.cli.terminal import show_warnings
from sempre.diagnostics import Diagnostic, ProgramError
from sempre.files import check_directives, missing_file

if TYPE_CHECKING:
    from sempre.api import Program


def load_functions(path: Path) -> None:
    """Run a file of Python for the functions that it registers; raises `ProgramError` where that fails."""
    spec = importlib.util.spec_from_file_location(f"sempre_functors_{path.stem}", path)
    try:
        if spec is None or spec.loader is None:
            raise ImportError("its name must end in .py")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except Exception as error:
        hint = "The file is run like any other; it decorates functions with `@sempre.functor`."
        message = f"cannot load `{path}`: {type(error).__name__}: {error}"
        raise ProgramError([Diagnostic("E340", message, hint=hint)]) from error


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
