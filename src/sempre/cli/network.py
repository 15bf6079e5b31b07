"""`sempre network`: runs a program with locations on simulated nodes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sempre.analysis.model import CheckedProgram
from sempre.cli.program import load_program
from sempre.cli.terminal import show_text, show_warnings
from sempre.files import read_changes, read_inputs, write_outputs
from sempre.network.report import BurstReport
from sempre.network.run import burst_of, first_burst, make_network, table_from
from sempre.network.simulate import Adversary, Burst, Network, Replay, Rounds, Schedule


def network(options: argparse.Namespace) -> int:
    """One run: facts in, bursts of changes, the facts of all nodes out."""
    checked = load_program(options.program).checked
    show_warnings(checked.warnings, checked.sources)
    bursts = [burst_of(checked, epoch) for path in options.changes for epoch in read_changes(checked, path)]
    nodes = make_network(checked, options.algorithm, options.limit)
    nodes.run([first_burst(checked, read_inputs(checked, options.facts)), *bursts], _schedule(options))
    _write(options, checked, nodes)
    for report in nodes.reports:
        show_text(summary(report))
    return 0


def _schedule(options: argparse.Namespace) -> Schedule:
    if options.replay:
        return Replay(json.loads(Path(options.replay).read_text("utf-8"))["trace"])
    return Rounds() if options.simulate is None else Adversary(options.simulate)


def _write(options: argparse.Namespace, checked: CheckedProgram, nodes: Network) -> None:
    def table(name: str) -> Any:
        return table_from(checked, checked.relations[name], nodes.facts(name))

    written = write_outputs(checked, table, options.output, count=lambda name: sum(1 for _ in nodes.facts(name)))
    show_warnings(written.warnings, {})


def summary(report: BurstReport) -> str:
    """One line about a burst."""
    return (
        f"burst {report.number}: {report.changed:,} changes, {report.messages:,} messages with {report.updates:,} updates"
        f" ({report.bytes:,} bytes), settled in {report.steps:,} steps, {report.seconds:.2f} s"
    )


__all__ = ["Burst", "network", "summary"]
