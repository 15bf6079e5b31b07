"""`sempre network`: runs a program with locations on simulated nodes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sempre.analysis.model import CheckedProgram
from sempre.cli.program_file import load_program
from sempre.cli.terminal import show_text, show_warnings
from sempre.diagnostics import DataError, Diagnostic
from sempre.files import check_root, missing_file, read_changes, read_inputs, write_outputs
from sempre.network.assembly import burst_of, first_burst, make_network, table_from
from sempre.network.report import BurstReport
from sempre.network.simulate import Adversary, Network, Replay, Rounds, Schedule


def network(options: argparse.Namespace) -> int:
    """One run: facts in, bursts of changes, the facts of all nodes out."""
    checked = load_program(options.program, options).checked
    if options.root:
        check_root(checked, options.root, options.facts, options.output)
    bursts = [burst_of(checked, epoch) for path in options.changes for epoch in read_changes(checked, path)]
    nodes = make_network(checked, options.algorithm, options.limit)
    schedule = _schedule(options)
    nodes.run([first_burst(checked, read_inputs(checked, options.facts)), *bursts], schedule)
    _write(options, checked, nodes)
    for report in nodes.reports:
        show_text(summary(report))
    if options.report:
        _write_report(options.report, nodes)
    if options.plot:
        _plot(options.plot, options.program.name, checked, nodes)
    return 0


def _schedule(options: argparse.Namespace) -> Schedule:
    if options.replay:
        return Replay(_read_trace(options.replay))
    return Rounds() if options.simulate is None else Adversary(options.simulate)


def _read_trace(path: Path) -> list[list[int]]:
    if not path.exists():
        raise missing_file(path)
    try:
        trace = json.loads(path.read_text("utf-8"))["trace"]
        return [[int(number) for number in step] for step in trace]
    except (ValueError, KeyError, TypeError):
        hint = "Write one with `--report` of an earlier run."
        raise DataError(Diagnostic("E534", f"`{path}` has no trace in it", hint=hint)) from None


def _write(options: argparse.Namespace, checked: CheckedProgram, nodes: Network) -> None:
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


def _write_report(path: Path, nodes: Network) -> None:
    report = {"bursts": [burst.to_json() for burst in nodes.reports], "trace": nodes.trace}
    try:
        path.write_text(json.dumps(report) + "\n", "utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(Diagnostic("E534", f"cannot write `{path}`: {reason}")) from None


# -------------------------------------------------------------------------------------------------- drawing


def _plot(path: Path, title: str, checked: CheckedProgram, nodes: Network) -> None:
    from sempre.network.plot import picture, write_plot

    write_plot(path, picture(title, nodes.reports, _edges(checked, nodes, ("link",)), _edges(checked, nodes, ROUTES)))


ROUTES = ("next_hop", "next", "route")


def _edges(checked: CheckedProgram, nodes: Network, names: tuple[str, ...]) -> Iterator[tuple[Any, Any]]:
    """Pairs of nodes that a relation of one of these names joins: its location, and its last column with an address."""
    for name in names:
        relation = checked.relations.get(name)
        if relation is None or relation.location is None:
            continue
        at = relation.location
        columns = [other for other, kind in enumerate(relation.types) if other != at and kind == relation.types[at]]
        for row in nodes.facts(name) if columns else ():
            # A link's first such column is where it leads; in a route, the destination stands before the next hop.
            yield row[at], row[columns[0] if name == "link" else columns[-1]]
