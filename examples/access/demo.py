"""A pipeline on Spark: tables of an organization in, who can read what out, and what three days change about it.

python examples/access/demo.py FOLDER [--people N] [options of `sempre run`, such as --master]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from organization import Day, organization, three_days, write_day, write_tables
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", type=int, default=20_000)
    options, further = parser.parse_known_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    days = prepare(options.folder, options.people, console)
    run(options.folder, days, further, console)
    report = json.loads((options.folder / "report.json").read_text("utf-8"))
    console.print(teams_table(options.folder / "out"))
    console.print(epochs_table(options.folder / "out", days, report["epochs"]))
    show_examples(options.folder / "out", days, console)
    explain_speed(report, console)


def prepare(folder: Path, people: int, console: Console) -> list[Day]:
    """Write the tables and the changes."""
    shutil.rmtree(folder, ignore_errors=True)
    facts = organization(people)
    days = three_days(facts)
    write_tables(folder / "tables", facts)
    for number, day in enumerate(days, 1):
        write_day(folder / f"day-{number}", day)
    count = sum(map(len, facts.values()))
    console.print(f"An organization: {people:,} people, {count:,} facts as Parquet in {folder / 'tables'}.\n")
    return days


def run(folder: Path, days: list[Day], further: list[str], console: Console) -> None:
    """One run of `sempre`: materialize, apply each day, publish."""
    command = ["run", os.path.relpath(HERE / "access.dl"), "-F", f"{folder}/tables", "-D", f"{folder}/out"]
    for number in range(1, len(days) + 1):
        command += ["--changes", f"{folder}/day-{number}"]
    command += ["--report", f"{folder}/report.json", *further]
    console.print(f"[bold]$ sempre {' '.join(command)}[/bold]")
    console.print("[dim]Spark takes a while to start ...[/dim]\n")
    done = subprocess.run([sys.executable, "-m", "sempre.cli", *command])
    if done.returncode:
        raise SystemExit(done.returncode)


def teams_table(out: Path) -> Table:
    """The largest teams."""
    sizes = pq.read_table(out / "team_size.parquet").sort_by([("people", "descending"), ("team", "ascending")])
    table = Table(title="The largest teams", title_justify="left")
    table.add_column("team")
    table.add_column("people", justify="right")
    for row in sizes.slice(0, 5).to_pylist():
        table.add_row(row["team"], f"{row['people']:,}")
    return table


def epochs_table(out: Path, days: list[Day], epochs: list[dict[str, Any]]) -> Table:
    """What each epoch changed, by the table of changes, and how long it took, by the report."""
    log = pq.read_table(out / "can_read.changes")
    table = Table(title="Who can read what", title_justify="left")
    for heading in ("epoch", "what happened", "added", "removed", "seconds", "strategy"):
        table.add_column(heading, justify="right" if heading in ("added", "removed", "seconds") else "left")
    for number, what in enumerate(["the first load", *(day[0] for day in days)]):
        rows = log.filter(pc.field("_epoch") == number)
        counts = [f"{rows.filter(pc.field('_change') == word).num_rows:,}" for word in ("added", "removed")]
        epoch = epochs[number]
        table.add_row(str(number), what, *counts, f"{epoch['seconds']:.4f}", epoch["strategy"])
    return table


def show_examples(out: Path, days: list[Day], console: Console) -> None:
    """A few rows of the table of changes for each day."""
    log = pq.read_table(out / "can_read.changes")
    for number in range(1, len(days) + 1):
        rows = log.filter(pc.field("_epoch") == number).sort_by([("_change", "descending"), ("person", "ascending")])
        for row in rows.slice(0, 2).to_pylist():
            verb = "may now read" if row["_change"] == "added" else "may no longer read"
            console.print(f"  day {number}: {row['person']} {verb} {row['dataset']}")
    console.print()


def explain_speed(report: dict[str, Any], console: Console) -> None:
    """Where the time went."""
    first, *later = report["epochs"]
    updates = sum(epoch["seconds"] for epoch in later) / len(later)
    written = sum(epoch["write_seconds"] for epoch in report["epochs"])
    changed = sum(sum(epoch[side].values()) for epoch in later for side in ("added", "removed"))
    console.print(
        f"Spark took {report['session_seconds']:.1f} s to start, {first['read_seconds']:.1f} s to read the tables and"
        f" {written:.1f} s to write results and changes.\n"
        f"Between these no Spark job ran: the facts were in the driver's memory. The rules took"
        f" {first['seconds']:.3f} s for all of it,\nand {updates:.4f} s a day: {changed:,} rows changed in three days,"
        f" {sum(first['added'].values()):,} were there.\n"
        f"The last day was applied by {later[-1]['strategy']}: {later[-1]['why']}."
    )


if __name__ == "__main__":
    main(sys.argv[1:])
