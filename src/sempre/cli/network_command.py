"""`sempre network`: runs a program with locations on many nodes, in tasks of Spark, in processes, or simulated."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from sempre.analysis.model import CheckedProgram
from sempre.cli.pipelines import pipeline
from sempre.cli.program_file import load_program
from sempre.cli.souffle_options import UsageError
from sempre.cli.terminal import show_text, show_warnings
from sempre.diagnostics import DataError, Diagnostic
from sempre.files import check_root, missing_file, read_changes, read_inputs, write_outputs
from sempre.files.directive_options import output_endpoint
from sempre.network.assembly import burst_of, first_burst, make_network, table_from
from sempre.network.report import BurstReport
from sempre.network.simulate import Adversary, Replay, Rounds, Schedule, Simulation

Facts = Callable[[str], Iterable[tuple[Any, ...]]]


def network(options: argparse.Namespace) -> int:
    """One run: facts in, bursts of changes, the facts of all nodes out."""
    return _hosted(options) if options.on else _simulated(options)


def _hosted(options: argparse.Namespace) -> int:
    """The nodes are in other processes."""
    from sempre.api import Network

    with pipeline(options) as io:  # a session starts in the background from here on
        program = load_program(options.program, options, spark=options.on == "spark")
        checked = program.checked
        _check_outputs(options, checked)
        epochs = io.epochs(checked, options.changes)
        with Network(
            program,
            spark=io.session(),
            workers=options.workers,
            algorithm=options.algorithm,
            placement=options.placement,
            limit=options.limit,
        ) as nodes:
            reports = [nodes.apply(insert=io.read(checked, nodes)[0])]
            for number, each in enumerate(epochs, 1):
                epoch = io.read_folder(checked, each, nodes) if isinstance(each, Path) else each
                nodes.send(insert=epoch.insert, delete=epoch.delete)
                if not options.overlap or number == len(epochs):
                    reports.append(nodes.settle())
            written = io.write_outputs(checked, nodes)
            if not options.no_warn:
                show_warnings(written.warnings, {})
            stats = nodes.stats
            where = {key: stats[key] for key in ("tasks", "placement", "restarts")}
            _tell(options, checked, reports, lambda name: nodes[name], {**where, "session_seconds": io.session_seconds})
    return 0


def _check_outputs(options: argparse.Namespace, checked: CheckedProgram) -> None:
    if options.root:
        check_root(checked, options.root, Path(options.facts), options.output)
    for relation in checked.relations.values():
        for directive in relation.outputs:
            if output_endpoint(relation, directive).changes:
                raise UsageError(
                    f"`mode=changes` of `{relation.name}`: a network writes what its nodes hold in the end"
                    "\nhint: sempre run writes the changes of every epoch"
                )


def _simulated(options: argparse.Namespace) -> int:
    """The nodes are in this process, and get messages as a schedule says."""
    checked = load_program(options.program, options, spark=False).checked
    _check_outputs(options, checked)
    bursts = [burst_of(checked, epoch) for path in options.changes for epoch in read_changes(checked, path)]
    nodes = make_network(checked, options.algorithm, options.limit)
    schedule = _schedule(options)
    nodes.run([first_burst(checked, read_inputs(checked, Path(options.facts))), *bursts], schedule)
    _write(options, checked, nodes)
    _tell(options, checked, nodes.reports, nodes.facts, {"trace": nodes.trace})
    return 0


def _schedule(options: argparse.Namespace) -> Schedule:
    if options.replay:
        return Replay(_read_trace(options.replay))
    return Rounds() if options.simulate == "rounds" else Adversary(options.simulate)


def _read_trace(path: Path) -> list[list[int]]:
    if not path.exists():
        raise missing_file(path)
    try:
        trace = json.loads(path.read_text("utf-8"))["trace"]
        return [[int(number) for number in step] for step in trace]
    except (ValueError, KeyError, TypeError):
        hint = "Write one with `--report` of an earlier run."
        raise DataError(Diagnostic("E534", f"`{path}` has no trace in it", hint=hint)) from None


def _write(options: argparse.Namespace, checked: CheckedProgram, nodes: Simulation) -> None:
    def table(name: str) -> Any:
        return table_from(checked, checked.relations[name], nodes.facts(name))

    written = write_outputs(checked, table, options.output, count=lambda name: sum(1 for _ in nodes.facts(name)))
    if not options.no_warn:
        show_warnings(written.warnings, {})


def summary(report: BurstReport) -> str:
    """One line about a burst."""
    return (
        f"burst {report.number}: {report.changed:,} changes, {report.messages:,} messages"
        f" with {report.updates:,} updates ({report.bytes:,} bytes),"
        f" settled in {report.steps:,} steps, {report.seconds:.2f} s"
    )


def _tell(
    options: argparse.Namespace,
    checked: CheckedProgram,
    reports: Sequence[BurstReport],
    facts: Facts,
    more: dict[str, Any],
) -> None:
    """Say what was sent, and write it where that is wanted."""
    for report in reports:
        show_text(summary(report))
    if options.report:
        _write_report(options.report, {"bursts": [burst.to_json() for burst in reports], **more})
    if options.plot:
        _plot(options.plot, options.program.name, checked, reports, facts)


def _write_report(path: Path, report: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(report) + "\n", "utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(Diagnostic("E534", f"cannot write `{path}`: {reason}")) from None


# -------------------------------------------------------------------------------------------------- drawing


def _plot(path: Path, title: str, checked: CheckedProgram, reports: Sequence[BurstReport], facts: Facts) -> None:
    from sempre.network.plot import picture, write_plot

    write_plot(path, picture(title, reports, _edges(checked, facts, ("link",)), _edges(checked, facts, ROUTES)))


ROUTES = ("next_hop", "next", "route")


def _edges(checked: CheckedProgram, facts: Facts, names: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """Pairs of nodes that a relation of one of these names joins: its location, and its last column with an address."""
    for name in names:
        relation = checked.relations.get(name)
        if relation is None or relation.location is None:
            continue
        at = relation.location
        columns = [other for other, kind in enumerate(relation.types) if other != at and kind == relation.types[at]]
        for row in facts(name) if columns else ():
            # A link's first such column is where it leads; in a route, the destination stands before the next hop.
            yield row[at], row[columns[0] if name == "link" else columns[-1]]
