"""Where a run reads its facts and writes its results: this process alone, or Spark."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from sempre.analysis.model import CheckedProgram
from sempre.cli.progress import progress_of
from sempre.files import Epoch, WrittenFiles, read_changes, read_inputs, write_outputs
from sempre.files.directive_options import Endpoint
from sempre.files.locations import reachable

if TYPE_CHECKING:
    from sempre.api import ChangeSet, Database, Network
    from sempre.spark.session import StartingSession

    Readable = Database | Network

Notes = dict[str, list[dict[str, Any]]]


class CommandPipeline(Protocol):
    """Reads, writes, and may hold a session that ends with it."""

    @property
    def session_seconds(self) -> float: ...

    def session(self) -> Any: ...

    def read(self, checked: CheckedProgram, database: Readable) -> tuple[dict[str, Any], Notes]: ...

    def epochs(self, checked: CheckedProgram, paths: Sequence[Path]) -> list[Epoch | Path]:
        """The epochs of change scripts and folders; a folder in place of its own, if that is read later."""
        ...

    def read_folder(self, checked: CheckedProgram, folder: Path, database: Readable) -> Epoch: ...

    def write_changes(self, checked: CheckedProgram, epoch: int, changes: ChangeSet) -> None: ...

    def write_outputs(self, checked: CheckedProgram, database: Readable) -> WrittenFiles: ...

    def __enter__(self) -> CommandPipeline: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def pipeline(options: argparse.Namespace) -> CommandPipeline:
    """The one that the command line asks for; a Spark session begins to start."""
    if options.on == "local":
        return FilePipeline(options.facts, options.output)
    # Folders of changes are this machine's: tasks of Spark see them where it runs on this machine, too.
    is_here = not options.remote and (options.master or "local").startswith("local")
    return SparkPipeline(_starting(options), options.facts, options.output, options.place == "cluster" and is_here)


@contextmanager
def session(options: argparse.Namespace) -> Iterator[Any]:
    """The Spark session that the command line asks for, or None; it ends with this."""
    if options.on == "local":
        yield None
        return
    starting = _starting(options)
    try:
        with progress_of(options).waiting("waiting for Spark"):
            spark = starting.get()
        yield spark
    finally:
        starting.close()


def _is_table(output: str, endpoint: Endpoint) -> bool:
    """Whether an output is a table that keeps epochs; with `-D -` it is printed like the others."""
    return endpoint.keeps_epoch and output != "-"


def _write_tables(checked: CheckedProgram, database: Readable, output: str) -> None:
    if output != "-":
        from sempre.api.publish import publish_tables

        publish_tables(checked, database, output)


def _starting(options: argparse.Namespace) -> StartingSession:
    from sempre.spark.session import SessionOptions, StartingSession

    return StartingSession(SessionOptions(options.master or "local[*]", options.remote, dict(options.conf)))


class FilePipeline:
    """Files that this process reads and writes."""

    session_seconds = 0.0

    def __init__(self, facts: str, output: str) -> None:
        self._facts = reachable(facts)
        # Before anything is evaluated: a place that cannot be written to should not cost a run.
        self._output = output if output == "-" else str(reachable(output))

    def session(self) -> None:
        return None

    def read(self, checked: CheckedProgram, database: Readable) -> tuple[dict[str, Any], Notes]:
        return read_inputs(checked, self._facts), {}

    def epochs(self, checked: CheckedProgram, paths: Sequence[Path]) -> list[Epoch | Path]:
        return [epoch for path in paths for epoch in read_changes(checked, path)]

    def read_folder(self, checked: CheckedProgram, folder: Path, database: Readable) -> Epoch:
        (epoch,) = read_changes(checked, folder)
        return epoch

    def write_changes(self, checked: CheckedProgram, epoch: int, changes: ChangeSet) -> None:
        """Nothing: a program that asks for a table of changes is refused without Spark."""

    def write_outputs(self, checked: CheckedProgram, database: Readable) -> WrittenFiles:
        written = write_outputs(
            checked,
            lambda name: database[name]._stream(),
            self._output,
            count=lambda name: len(database[name]),
            elsewhere=partial(_is_table, self._output),
        )
        _write_tables(checked, database, self._output)
        return written

    def __enter__(self) -> FilePipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class SparkPipeline:
    """Sources and outputs of a Spark session that this run owns."""

    def __init__(self, starting: StartingSession, facts: str, output: str, leaves: bool = False) -> None:
        self._starting = starting
        self._leaves = leaves
        self._facts = facts
        self._output = output

    @property
    def session_seconds(self) -> float:
        return self._starting.seconds

    def session(self) -> Any:
        return self._starting.get()

    def read(self, checked: CheckedProgram, database: Readable) -> tuple[dict[str, Any], Notes]:
        from sempre.spark.sources import read_inputs

        inputs = read_inputs(self.session(), checked, self._facts, database._staying())
        return inputs.tables, inputs.notes

    def epochs(self, checked: CheckedProgram, paths: Sequence[Path]) -> list[Epoch | Path]:
        found: list[Epoch | Path] = []
        for path in paths:
            found += [path] if self._leaves and path.is_dir() else read_changes(checked, path)
        return found

    def read_folder(self, checked: CheckedProgram, folder: Path, database: Readable) -> Epoch:
        from sempre.spark.sources import read_change_folder

        return read_change_folder(self.session(), checked, folder, database._staying())

    def write_changes(self, checked: CheckedProgram, epoch: int, changes: ChangeSet) -> None:
        from sempre.spark.sinks import Sinks

        Sinks(self.session(), checked, self._output).write_changes(epoch, changes)

    def write_outputs(self, checked: CheckedProgram, database: Readable) -> WrittenFiles:
        from sempre.spark.sinks import Sinks

        sinks = Sinks(self.session(), checked, self._output)
        sinks.write_outputs(lambda name: database[name].to_spark())
        written = write_outputs(
            checked,
            lambda name: database[name]._stream(),
            self._output,
            count=lambda name: len(database[name]),
            elsewhere=lambda endpoint: sinks.takes(endpoint) or _is_table(self._output, endpoint),
        )
        _write_tables(checked, database, self._output)
        return written

    def __enter__(self) -> SparkPipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._starting.close()
