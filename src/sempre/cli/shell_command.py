"""`sempre shell`: questions to a store or to a program, one a line.

On a terminal, with the package prompt_toolkit, lines are completed and kept for the next time. In a pipe every line is
answered as if it were typed, and nothing else is needed.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sempre.api import Database
from sempre.cli.program_file import load_program
from sempre.cli.souffle_options import UsageError
from sempre.cli.store_commands import check_no_reading, opened, print_answers, print_facts
from sempre.cli.terminal import is_terminal, show_error, show_text
from sempre.diagnostics import SempreError
from sempre.explain.plan_text import plans
from sempre.files import read_changes

HELP = """\
reach("a", X), !banned(X)     ask; several atoms, comparisons and aggregates as in a rule
.explain FACT                 why a fact holds
.why-not FACT                 why it does not
.whatif +f(1). -g(2).         what changes would do; nothing is kept
.relations                    the relations and their sizes
.plan                         how rules are evaluated
.timing                       show how long answers take, or no longer
.help  .quit"""
HISTORY = "~/.sempre_history"


class Shell:
    """Answers lines about one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.timing = False
        self.commands: dict[str, Callable[[str], None]] = {
            ".explain": lambda fact: print(self.database.explain(fact)),
            ".why-not": lambda fact: print(self.database.explain(fact, absent=True)),
            ".whatif": self.whatif,
            ".relations": lambda _: self.relations(),
            ".plan": lambda _: print(plans(self.database.program.checked)),
            ".timing": lambda _: self.time(),
            ".help": lambda _: print(HELP),
        }

    def answer(self, line: str) -> bool:
        """Answer one line; whether it was understood."""
        started = time.perf_counter()
        word, _, rest = line.partition(" ")
        try:
            if word in self.commands:
                self.commands[word](rest.strip())
            elif word.startswith("."):
                raise UsageError(f"`{word}` is no command of the shell\nhint: .help lists them")
            else:
                print_answers(self.database.query(line.removeprefix("?-").strip().removesuffix(".")))
        except SempreError as error:
            show_error(error)
            return False
        except UsageError as error:
            show_text(f"error: {error}")
            return False
        if self.timing:
            print(f"{time.perf_counter() - started:.3f} s")
        return True

    def whatif(self, text: str) -> None:
        """Print what changes would do."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "changes"
            script.write_text(f"{text}\ncommit.\n", "utf-8")
            for epoch in read_changes(self.database.program.checked, script):
                changes = self.database.whatif(insert=epoch.insert, delete=epoch.delete)
                for sign, side in (("+", changes.added), ("-", changes.removed)):
                    for name, table in side.items():
                        print_facts(self.database, sign, name, table)

    def relations(self) -> None:
        """Print the relations and their sizes."""
        for name in self.database:
            relation = self.database.program.relations[name]
            columns = ", ".join(f"{c}: {t.name}" for c, t in zip(relation.columns, relation.types, strict=True))
            print(f"{name}({columns})  {len(self.database[name]):,}")

    def time(self) -> None:
        """Show times from now on, or no longer."""
        self.timing = not self.timing
        print(f"timing is {'on' if self.timing else 'off'}")

    def words(self) -> list[str]:
        """What a line can be completed to."""
        return [*self.commands, ".quit", *(f"{name}(" for name in self.database)]


def shell(options: argparse.Namespace) -> int:
    """Answer line after line until there is no more; 1 if one was not understood and nobody sat there to see it."""
    path = Path(options.store)
    if path.is_file():
        program = load_program(path, options, spark=False)
        with Database(program) as database:
            database.load(options.facts or ".")
            return _answered(Shell(database))
    if options.facts is not None:
        raise UsageError("-F is for programs\nhint: a store has its facts")
    check_no_reading(options)
    with opened(options) as database:
        return _answered(Shell(database))


def _answered(shell: Shell) -> int:
    interactive = is_terminal(sys.stdin)
    faults = 0
    for given in _typed(shell) if interactive else sys.stdin:
        line = given.strip()
        if line in (".quit", ".exit"):
            break
        if line and not line.startswith("//"):
            faults += not shell.answer(line)
    return 1 if faults and not interactive else 0


def _typed(shell: Shell) -> Iterator[str]:
    """Lines that somebody types, with completion and history where prompt_toolkit is installed."""
    print("Ask, or .help")
    ask = _prompt(shell)
    while True:
        try:
            yield ask()
        except EOFError:
            return
        except KeyboardInterrupt:
            continue


def _prompt(shell: Shell) -> Callable[[], str]:
    try:
        toolkit: Any = importlib.import_module("prompt_toolkit")
    except ImportError:
        return lambda: input("?- ")
    completion = importlib.import_module("prompt_toolkit.completion")
    history = importlib.import_module("prompt_toolkit.history")
    session = toolkit.PromptSession(
        history=history.FileHistory(str(Path(HISTORY).expanduser())),
        completer=completion.WordCompleter(shell.words(), WORD=True),
    )
    return lambda: str(session.prompt("?- "))
