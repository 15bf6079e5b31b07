"""A folder that a program may not read or write outside of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import Diagnostic, ProgramError
from sempre.files.directive_options import input_endpoint, output_endpoint
from sempre.lang.syntax import Directive

FILES = ("file", "parquet", "json", "sqlite")
STREAMS = ("stdin", "stdout", "stdoutjson", "stdoutprintsize")


def check_root(checked: CheckedProgram, root: Path, facts: str | Path | None, output: str | Path | None) -> None:
    """Raise unless every `.input` lies in `root`, below `facts`, and every `.output`, below `output`; None: unused.

    Links are followed: what counts is where a file is in the end.
    """
    root = root.resolve()
    found: list[Diagnostic] = []
    for relation in checked.relations.values():
        for directives, folder, endpoint_of in (
            (relation.inputs, facts, input_endpoint),
            (relation.outputs, output, output_endpoint),
        ):
            for directive in directives if folder is not None else ():
                endpoint = endpoint_of(relation, directive)
                if endpoint.io in STREAMS or (str(folder) == "-" and endpoint_of is output_endpoint):
                    continue
                if endpoint.io not in FILES or "://" in f"{folder}{endpoint.filename}":
                    found.append(_outside(directive, endpoint.filename if endpoint.io in FILES else endpoint.io, root))
                    continue
                path = Path(str(folder)) / endpoint.filename
                if not all(place.is_relative_to(root) for place in _places(path)):
                    found.append(_outside(directive, str(path), root))
    if found:
        raise ProgramError(found, checked.sources)


def _places(path: Path) -> Iterator[Path]:
    """Where a path leads, the compressed file that may stand in for it, and what is in it if it is a folder."""
    yield path.resolve()
    yield path.with_name(f"{path.name}.gz").resolve()
    if path.is_dir():
        yield from (entry.resolve() for entry in path.rglob("*"))


def _outside(directive: Directive, place: str, root: Path) -> Diagnostic:
    hint = "Name a file below that folder, or run without --root if the program is trusted."
    return Diagnostic("E519", f"`{place}` is outside of `{root}`, which --root names", directive.span, hint=hint)
