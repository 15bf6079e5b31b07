"""The commands on stores: init, apply, refresh, query, whatif, verify, history, vacuum, migrate."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sempre.analysis.model import CheckedProgram
from sempre.cli.pipelines import CommandPipeline, pipeline, session
from sempre.cli.program_file import load_program
from sempre.cli.progress import progress_of, told_by
from sempre.cli.reports import write_reports
from sempre.cli.souffle_options import UsageError
from sempre.cli.terminal import is_terminal, show_text, show_warnings
from sempre.diagnostics import Diagnostic, StateError
from sempre.files import check_root, input_endpoint, read_changes
from sempre.files.directive_options import LAKE
from sempre.files.locations import is_url, reachable

if TYPE_CHECKING:
    from sempre.api import ChangeSet, Database
    from sempre.api.refresh import Refreshed
    from sempre.storage.store import Store

DIFFERENT = 3


def init(options: argparse.Namespace) -> int:
    """Make a store and materialize into it."""
    from sempre.api import Database
    from sempre.api.stores import as_store, is_reached_here

    # What only Spark's Java reaches is looked at when the session is there.
    store = _absent(as_store(options.store)) if options.on == "local" or is_reached_here(options.store) else None
    outputs, options.output = options.output, "-"
    program = load_program(options.program, options, spark=options.on == "spark")
    program = program.on_demand(options.demand) if options.demand else program
    checked = program.checked
    if options.facts is None:
        options.facts = "."
        if options.on == "local":
            checked = _with_present_inputs(checked)
    if options.root:
        check_root(checked, options.root, options.facts, outputs or None)
    with pipeline(options) as io:
        store = store or _absent(as_store(options.store, spark=io.session()))
        with Database(program, store=store, spark=io.session(), **_knobs(options)) as database:
            changes = _first_epoch(options, checked, io, database, outputs)
            print(summary(0, changes))
            published = _publish(database, changes)
            write_reports(options, options.program.name, [_told(0, changes)], io.session_seconds, published)
    return 0


def _absent(store: Store) -> Store:
    """The store, if it is not there yet."""
    if store.exists:
        hint = "Remove it first, or give another directory; `sempre apply` changes a store."
        raise StateError(Diagnostic("E611", f"`{store.name}` is a store already", hint=hint))
    return store


def _first_epoch(
    options: argparse.Namespace, checked: CheckedProgram, io: CommandPipeline, database: Database, outputs: str
) -> ChangeSet:
    """What the inputs have, and which versions of them that is."""
    from sempre.api.refresh import beginning, first_epoch
    from sempre.files.sources.reading import read_with_versions

    tables: dict[str, Any]
    with progress_of(options).waiting("reading"):
        if options.on == "local":
            tables, versions = read_with_versions(checked, reachable(options.facts))
        elif is_url(options.facts):
            (tables, _), versions = io.read(checked, database), {}
        else:  # tables that this process reads anyway have versions, as without Spark
            lakes, others = _by_reader(checked)
            tables, versions = read_with_versions(lakes, reachable(options.facts))
            tables |= io.read(others, database)[0]
    shown = outputs if not outputs or is_url(outputs) else str(Path(outputs).absolute())
    return first_epoch(database, tables, beginning(checked, options.facts, shown, versions, io.session()))


def _by_reader(checked: CheckedProgram) -> tuple[CheckedProgram, CheckedProgram]:
    """The program with the inputs that are tables with versions alone, and with all others."""
    relations = checked.relations.values()
    lakes = {
        each.name for each in relations if each.inputs and all(input_endpoint(each, i).io in LAKE for i in each.inputs)
    }

    def keeping(wanted: Callable[[str], bool]) -> CheckedProgram:
        kept = {each.name: each if wanted(each.name) else replace(each, inputs=()) for each in relations}
        return replace(checked, relations=kept)

    return keeping(lambda name: name in lakes), keeping(lambda name: name not in lakes)


def _publish(database: Database, changes: ChangeSet | None) -> bool:
    """Write the outputs of an epoch, if they go anywhere and do not show it already; whether that was done."""
    from sempre.api.publish import publish_from_store
    from sempre.api.stores import keeper_of

    keeper = keeper_of(database)
    folder = keeper.followed.outputs if keeper.followed else ""
    if not folder or (changes is None and keeper.store.published() == (database.epoch, folder)):
        return False
    show_warnings(publish_from_store(database, None, changes).warnings, {})
    return True


def _with_present_inputs(checked: CheckedProgram) -> CheckedProgram:
    """The program with the inputs that are there; says which are not."""
    missing: list[str] = []

    def is_there(relation: Any, directive: Any) -> bool:
        endpoint = input_endpoint(relation, directive)
        names = (endpoint.filename, f"{endpoint.filename}.gz")
        is_no_file = endpoint.io in ("stdin", *LAKE) or is_url(endpoint.filename)
        if is_no_file or any(Path(name).exists() for name in names):
            return True
        missing.append(endpoint.filename)
        return False

    relations = {
        name: replace(relation, inputs=tuple(each for each in relation.inputs if is_there(relation, each)))
        for name, relation in checked.relations.items()
    }
    if missing:
        show_text(f"note: not here, and taken as empty: {', '.join(missing)}\nhint: -F DIR says where facts are")
    return replace(checked, relations=relations)


def apply(options: argparse.Namespace) -> int:
    """Apply changes, each epoch durable before it is announced."""
    with opened(options) as database:
        epochs = [epoch for path in options.changes for epoch in read_changes(database.program.checked, path)]
        told, published = [], False
        for epoch in epochs:
            changes = database.apply(insert=epoch.insert, delete=epoch.delete)
            print(summary(database.epoch, changes), flush=True)
            published |= _publish(database, changes)
            told.append(_told(database.epoch, changes))
        write_reports(options, options.store, told, 0.0, published)
    return 0


def _told(epoch: int, changes: ChangeSet) -> dict[str, Any]:
    """How an epoch of a store went."""
    return {"epoch": epoch, **changes.report.to_json()}


def _told_of_sources(database: Database, found: Refreshed) -> dict[str, Any]:
    """Which versions of the sources an epoch has, and how they were read."""
    from sempre.api.stores import keeper_of
    from sempre.files.sources.shown import shown_sources

    followed = keeper_of(database).followed
    versions = shown_sources(followed.to_json()) if followed else {}
    return {"sources": {name: {"versions": versions.get(name, []), "read": how} for name, how in found.read.items()}}


def refresh(options: argparse.Namespace) -> int:
    """Bring a store to what its sources have, as one epoch, and publish it."""
    from sempre.api.refresh import refresh as bring

    with opened(options) as database:
        found = bring(
            database,
            options.facts,
            outputs=options.output,
            overwrite=options.overwrite,
            maintain_only=options.fail_on_recompute,
        )
        if options.verbose:
            for name, how in found.read.items():
                print(f"{name}: {how}")
        if found.changes is None:
            print(f"epoch {database.epoch}: nothing new")
        else:
            print(summary(database.epoch, found.changes), flush=True)
        published = _publish(database, found.changes)
        told = []
        if found.changes is not None:
            told.append(_told(database.epoch, found.changes) | _told_of_sources(database, found))
        write_reports(options, options.store, told, 0.0, published)
    return 0


def whatif(options: argparse.Namespace) -> int:
    """Apply changes to a copy that is forgotten, or evaluate other rules beside it."""
    from sempre.api.stores import detached

    if bool(options.rules) == bool(options.changes):
        raise UsageError("whatif takes changes, or --rules NEW.dl\nhint: sempre whatif STORE CHANGES...")
    if not options.rules:
        check_no_reading(options)
    with opened(options) as database:
        if options.rules:
            return _whatif_rules(database, options)
        detached(database)
        epochs = [epoch for path in options.changes for epoch in read_changes(database.program.checked, path)]
        for epoch in epochs:
            changes = database.apply(insert=epoch.insert, delete=epoch.delete)
            print(f"would be {summary(database.epoch, changes)}")
            print(f"  {changes.report.instances:,} rule instances; {changes.report.why}")
            for sign, side in (("+", changes.added), ("-", changes.removed)):
                for name, table in side.items():
                    print_facts(database, sign, name, table)
    return 0


def _whatif_rules(database: Database, options: argparse.Namespace) -> int:
    """Print what other rules would do to the results."""
    from sempre.api.rule_changes import under_rules
    from sempre.explain.wording import fact_text

    program = load_program(options.rules, options, spark=False)
    found = under_rules(database, program)
    for sign, side in (("+", found.added), ("-", found.removed)):
        for name, rows in side.items():
            for row in rows[:SHOWN_FACTS]:
                print(f"  {sign}{fact_text(name, row)}")
            if len(rows) > SHOWN_FACTS:
                print(f"  {sign}{name}: {len(rows) - SHOWN_FACTS:,} more")
    for title, names in (("new", found.new), ("gone", found.gone)):
        if names:
            print(f"  {title}: {', '.join(names)}")
    if not any((*found.added.values(), *found.removed.values(), found.new, found.gone)):
        print("nothing would change")
    return 0


SHOWN_FACTS = 20


def print_facts(database: Database, sign: str, name: str, table: Any) -> None:
    """Print the first rows of a table as facts."""
    from sempre.api.caused_table import rows_of
    from sempre.explain.wording import fact_text

    # Arrow gives a table without columns as many rows as a slice may have.
    shown = table.slice(0, min(table.num_rows, SHOWN_FACTS))
    for row in rows_of(database, database.program.relations[name], shown):
        print(f"  {sign}{fact_text(name, row)}")
    if table.num_rows > SHOWN_FACTS:
        print(f"  {sign}{name}: {table.num_rows - SHOWN_FACTS:,} more")


def query(options: argparse.Namespace) -> int:
    """Print the answers to an atom, from a store, or from a program and its facts."""
    if Path(options.store).is_file():
        print_answers(_answers_of_program(options))
        return 0
    if options.facts is not None:
        raise UsageError("-F is for questions to a program\nhint: a store has its facts")
    check_no_reading(options)
    with opened(options) as database:
        if options.drop:
            print(summary(database.epoch, database.release(options.query)))
        else:
            print_answers(database.query(options.query))
    return 0


def check_no_reading(options: argparse.Namespace) -> None:
    """Refuse options that say how a program is read, where none is."""
    if options.include_dir or options.macro or options.legacy or options.no_warn:
        raise UsageError("-I, -M, -w and --legacy are for questions to a program\nhint: a store has its program")


def _answers_of_program(options: argparse.Namespace) -> Any:
    """The answers to an atom, from what they need of a program and of its facts."""
    for flag in ("drop", "epoch"):
        if getattr(options, flag):
            raise UsageError(f"--{flag} needs a store\nhint: sempre init STORE {options.store}")
    program = load_program(Path(options.store), options, spark=options.on == "spark")
    with session(options) as spark:
        return program.query(options.query, options.facts or ".", spark=spark, **_knobs(options))


def print_answers(table: Any) -> None:
    if not table.column_names:
        print("true" if table.num_rows else "false")
    elif is_terminal(sys.stdout):
        _print_table(table)
    else:
        _print_csv(table)


def _print_csv(table: Any) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches(max_chunksize=1 << 16):
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _print_table(table: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = Table(*table.column_names)
    for row in table.to_pylist():
        shown.add_row(*(str(value) for value in row.values()))
    console = Console()
    console.print(shown)
    console.print(f"{table.num_rows:,} row{'s' if table.num_rows != 1 else ''}")


def verify(options: argparse.Namespace) -> int:
    """Check every file, then compare with a run from scratch."""
    from sempre.api.stores import first_difference, repair

    with opened(options, check=True) as database:
        found = database.verify()
        looked = f"{found.relations:,} relations, {found.facts:,} facts, {found.counters:,} counters"
        if found.ok:
            print(f"ok: epoch {database.epoch}, {looked}")
            return 0
        print(f"different: epoch {database.epoch}, {looked}")
        for difference in found.differences:
            print(f"  {difference.message}")
        print(f"  first seen in epoch {first_difference(database)}")
        if options.repair:
            changes = repair(database)
            print(f"repaired: {summary(database.epoch, changes)}")
            return 0 if database.verify().ok else DIFFERENT
    return DIFFERENT


def history(options: argparse.Namespace) -> int:
    """One line per epoch."""
    from sempre.files.sources.shown import shown_sources
    from sempre.storage.metrics import openmetrics

    with _store(options) as store:
        store.require()
        if options.metrics:
            print(openmetrics(store, store.manifest()), end="")
            return 0
        for manifest in store.manifests():
            print(manifest.line)
            if options.sources:
                for name, versions in shown_sources(manifest.sources).items():
                    print(f"  {name}: {'; '.join(versions)}")
    return 0


def vacuum(options: argparse.Namespace) -> int:
    """Drop past epochs."""
    from sempre.api.stores import vacuum as clean

    with _store(options) as store:
        freed, left = clean(store, options.keep)
    print(f"freed {freed:,} bytes, {left:,} left")
    return 0


def migrate(options: argparse.Namespace) -> int:
    """Bring a store over to another program."""
    from sempre.api import Database
    from sempre.api.stores import as_store, program_differences

    with session(options) as spark:
        store = as_store(options.store, spark=spark)
        store.require()
        program = load_program(options.program, options, spark=False)
        found = program_differences(store, program)
        if not found:
            print("nothing to do: the rules, relations and facts are the same")
            return 0
        print(found)
        with Database(program, store=store, spark=spark, migrate=True, **_knobs(options)) as database:
            sizes = ", ".join(f"{name} {len(database[name]):,}" for name in database)
            print(f"epoch {database.epoch}: {sizes}")
    return 0


@contextmanager
def opened(options: argparse.Namespace, check: bool = False) -> Iterator[Database]:
    """The database in the store, at the epoch that was asked for; its files are compared with their checksums first."""
    from sempre.api import Database
    from sempre.api.stores import as_store, check_files

    epoch = getattr(options, "epoch", None)
    with session(options) as spark:
        if check:
            check_files(as_store(options.store, spark=spark))
        with Database.open(options.store, epoch=epoch, spark=spark, **_knobs(options)) as found:
            yield found


@contextmanager
def _store(options: argparse.Namespace) -> Iterator[Store]:
    """The store itself."""
    from sempre.api.stores import as_store

    with session(options) as spark:
        yield as_store(options.store, spark=spark)


def _knobs(options: argparse.Namespace) -> dict[str, Any]:
    """How a database is evaluated."""
    given = {
        name: getattr(options, name)
        for name in ("strategy", "switch", "threads", "place", "workers", "memory")
        if name in options
    }
    return {**given, "progress": told_by(progress_of(options)), "profile": bool(getattr(options, "profile", None))}


def summary(epoch: int, changes: ChangeSet) -> str:
    """An epoch in one line."""
    report = changes.report
    parts = [
        f"{name} +{report.added.get(name, 0):,} -{report.removed.get(name, 0):,}"
        for name in changes.added
        if report.added.get(name) or report.removed.get(name)
    ]
    return f"epoch {epoch}: {', '.join(parts) or 'nothing changed'} ({report.seconds:.3f} s)"


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    each.__name__: each for each in (init, apply, refresh, query, whatif, verify, history, vacuum, migrate)
}
