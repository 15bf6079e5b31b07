"""`sempre run`: reads the facts, evaluates, applies the changes, writes the outputs."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram
from sempre.cli.pipelines import CommandPipeline, pipeline
from sempre.cli.program_file import load_program
from sempre.cli.progress import ProgressLine, progress_of, told_by
from sempre.cli.reports import write_reports
from sempre.cli.souffle_options import UsageError
from sempre.cli.terminal import show_warnings
from sempre.files import Epoch, check_root, write_changes
from sempre.files.directive_options import changes_tables
from sempre.kernel import compiled

if TYPE_CHECKING:
    from sempre.api import ChangeSet, Database, Program


class Clock:
    """Adds up the seconds spent reading and writing since the last epoch was recorded."""

    def __init__(self) -> None:
        self.spent = {"read_seconds": 0.0, "write_seconds": 0.0}

    @contextmanager
    def measure(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[what] += time.perf_counter() - started

    def take(self) -> dict[str, float]:
        """What was spent, starting again from zero."""
        spent, self.spent = self.spent, dict.fromkeys(self.spent, 0.0)
        return spent


def run(options: argparse.Namespace) -> int:
    """One run, start to end; returns 0 or raises."""
    with pipeline(options) as io:  # a session starts in the background from here on
        program = load_program(options.program, options, spark=options.on == "spark", semantics=options.semantics)
        checked = program.checked
        if options.root:
            check_root(checked, options.root, options.facts, options.output)
        program = _wanted(options, program)
        checked = program.checked
        # Scripts are read before anything is evaluated: a mistake in the last one should not cost a run.
        epochs = io.epochs(checked, options.changes)
        reports = _evaluate(options, program, epochs, io)
        write_reports(options, options.program.name, reports, io.session_seconds)
    return 0


def _wanted(options: argparse.Namespace, program: Program) -> Program:
    """The program cut down to what is written: its outputs, or the changes of all relations if it has none."""
    checked = program.checked
    if tables := changes_tables(checked, spark=options.on == "spark"):
        raise UsageError(f"`mode=changes` of `{tables[0]}` needs a store\nhint: sempre init STORE PROGRAM.dl -D DIR")
    if options.magic and checked.semantics == "active":
        raise UsageError("--magic is for stratified rules\nhint: leave it out")
    if options.changes_out and not any(relation.outputs for relation in checked.relations.values()):
        return program
    return program.for_outputs(magic=options.magic)


def _evaluate(
    options: argparse.Namespace, program: Program, epochs: list[Epoch | Path], io: CommandPipeline
) -> list[dict[str, Any]]:
    """Materialize, apply each epoch, write the outputs; returns one report per epoch."""
    checked = program.checked
    clock = Clock()
    reports: list[dict[str, Any]] = []
    line = progress_of(options)
    with line.waiting("waiting for Spark"):
        spark = io.session()  # waits for it, so that no other time includes it
    try:
        database = _database(options, program, line, spark)
        with clock.measure("read_seconds"), line.waiting("reading"):
            tables, notes = io.read(checked, database)
            known = [io.read_folder(checked, each, database) if isinstance(each, Path) else each for each in epochs]
        if not known:
            compiled.after_requests()
        changes = database.materialise(tables)
        del tables
        reports.append(_record(options, checked, 0, changes, clock, io) | ({"sources": notes} if notes else {}))
        for number, epoch in enumerate(known, 1):
            changes = database.apply(insert=epoch.insert, delete=epoch.delete)
            reports.append(_record(options, checked, number, changes, clock, io))
        del changes
        plans = database.plans() if options.show else ""  # reading numbers values, and may put plans out of date
    finally:
        line.clear()
    with clock.measure("write_seconds"), line.waiting("writing"):
        written = io.write_outputs(checked, database)
    if not options.no_warn:
        show_warnings(written.warnings, {})
    reports[-1]["write_seconds"] += clock.take()["write_seconds"]
    if plans:
        print(plans, file=sys.stderr)
    return reports


def _database(options: argparse.Namespace, program: Program, line: ProgressLine, spark: Any) -> Database:
    from sempre.api import Database

    return Database(
        program,
        spark=spark,
        strategy=options.strategy,
        switch=options.switch,
        modules=options.modules,
        place=options.place,
        semantics=options.semantics,
        threads=options.threads,
        workers=options.workers,
        memory=options.memory,
        cycles=options.cycles,
        progress=told_by(line),
        profile=options.profile is not None,
    )


def _record(
    options: argparse.Namespace,
    checked: CheckedProgram,
    number: int,
    changes: ChangeSet,
    clock: Clock,
    io: CommandPipeline,
) -> dict[str, Any]:
    """Write the changes of one epoch where they are wanted; returns the epoch's report."""
    with clock.measure("write_seconds"):
        io.write_changes(checked, number, changes)
        if options.changes_out:
            written = write_changes(checked, changes.streamed(), options.changes_out / str(number))
            if not options.no_warn:
                show_warnings(written.warnings, {})
    return {**changes.report.to_json(), **clock.take()}
