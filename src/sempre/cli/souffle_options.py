"""Options that Soufflé has: those that mean the same here, and those that are refused with what to type instead."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class UsageError(Exception):
    """The command line asks for something impossible."""


# What is refused: the options, whether a value follows, and what to do instead.
_REFUSED: tuple[tuple[tuple[str, ...], bool, str], ...] = (
    (
        ("-p",),
        True,
        "there is no profile log; `--profile FILE.html` is a page, and `--report FILE.json` has its figures",
    ),
    (("-r", "--debug-report"), True, "there is no debug report; `sempre check -v PROGRAM.dl` prints strata and plans"),
    (("-c", "--compile", "--compile-many"), False, "nothing is compiled ahead; leave it out"),
    (("-o", "--dl-program"), True, "no executable is made; `sempre run PROGRAM.dl` evaluates"),
    (("-g", "--generate"), True, "no C++ is made; `sempre run PROGRAM.dl` evaluates"),
    (("-s", "--swig"), True, "there are no SWIG interfaces; `import sempre` in Python"),
    (("-l", "--libraries"), True, "no libraries are linked; leave it out"),
    (("-L", "--library-dir"), True, "no libraries are linked; leave it out"),
    (("-t", "--provenance"), True, "a run keeps no proofs"),
    (("-e", "--engine"), True, "there is one engine; leave it out"),
    (("-v", "--verbose"), False, "`--report FILE.json` says what was done; `sempre check -v PROGRAM.dl` prints plans"),
    (("-z", "--disable-transformers"), True, "transformations cannot be turned off; leave it out"),
    (("--live-profile",), False, "there is no live profile; `--profile FILE.html` is a page of what was done"),
    (("--auto-schedule", "--emit-statistics"), True, "plans follow the data by themselves; leave it out"),
    (("--show",), True, "`sempre check PROGRAM.dl --show plans` (or initial-ast, transformed-ast) prints it"),
    (("-P", "--pragma"), True, "write `.pragma` into the program"),
)


class _Refusal(argparse.Action):
    """An option that is not served."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        raise UsageError(f"{option} is an option of Soufflé that sempre does not have\nhint: {self.metavar}")


def add_reading(add: Callable[..., Any]) -> None:
    """What says how a program is read."""
    add("-I", "--include-dir", metavar="DIR", action="append", default=[], help="where #include looks, too")
    add("-M", "--macro", metavar="NAME=TEXT", action="append", default=[], type=_macros, help="define macros")
    add("--legacy", action="store_true", help="let subtypes of one type flow into each other, as in old programs")
    add("-w", "--no-warn", action="store_true", help="print no warnings")


def add_refused(add: Callable[..., Any], own: Sequence[str] = ()) -> None:
    """The options that are refused, but for those that the command has itself."""
    for names, takes, instead in _REFUSED:
        free = [name for name in names if name not in own]
        if free:
            count = "?" if takes else 0
            add(*free, action=_Refusal, nargs=count, metavar=instead, dest="refused", help=argparse.SUPPRESS)


def jobs(text: str) -> int | None:
    """`-j N`, or `-j auto`, which is what happens without."""
    if text == "auto":
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1")
    return int(text)


def _macros(text: str) -> tuple[tuple[str, str], ...]:
    """`A=1 B`: definitions between spaces; a name alone stands for 1, as for a compiler."""
    found = []
    for definition in text.split():
        name, equals, value = definition.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise argparse.ArgumentTypeError(f"`{definition}` is not a macro such as LIMIT=10")
        found.append((name, value if equals else "1"))
    return tuple(found)


def reading(options: argparse.Namespace) -> Mapping[str, Any]:
    """The options of a program that the command line gives."""
    macros = dict(pair for pairs in options.macro for pair in pairs)
    given: dict[str, Any] = {"include": options.include_dir, "macros": macros, "legacy": options.legacy}
    if getattr(options, "root", None):
        given["root"] = options.root
    return given
