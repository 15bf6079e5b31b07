"""Generates a company, asks who may open what, then changes it and shows what that changed.

python examples/access/demo.py FOLDER
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import generate
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


def main(folder: Path) -> None:
    facts = generate.company()
    generate.write(folder / "facts", facts)
    (folder / "next-day.dl").write_text(generate.next_day(facts), "utf-8")
    program = os.path.relpath(HERE / "access.dl")
    arguments = ["run", program, "-F", str(folder / "facts"), "-D", str(folder / "out")]
    arguments += ["--changes", str(folder / "next-day.dl"), "--changes-out", str(folder / "changes")]
    arguments += ["--report", str(folder / "report.json")]
    console = Console(highlight=False)
    console.print(f"[bold]$ sempre {' '.join(arguments)}[/bold]", soft_wrap=True)
    subprocess.run([sys.executable, "-m", "sempre.cli", *arguments], check=True)
    console.print(f"\n{sum(map(len, facts.values())):,} facts about {len(facts['member']):,} people.\n")
    console.print(teams_table(folder / "out"))
    console.print(changes_table(folder))
    sealed = len(rows(folder / "out" / "sealed.csv"))
    console.print(f"{sealed} documents can be opened by nobody: see {folder / 'out' / 'sealed.csv'}")


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def teams_table(out: Path) -> Table:
    """The largest teams."""
    sizes = sorted(((int(n), team) for team, n in rows(out / "team_size.csv")), reverse=True)
    table = Table(title="The largest teams", title_justify="left")
    table.add_column("team")
    table.add_column("people", justify="right")
    for size, team in sizes[:6]:
        table.add_row(team, f"{size:,}")
    return table


def changes_table(folder: Path) -> Table:
    """What each epoch added and removed, and how long it took."""
    epochs = json.loads((folder / "report.json").read_text("utf-8"))["epochs"]
    table = Table(title="Who may open what", title_justify="left")
    for heading in ("epoch", "added", "removed", "people concerned", "seconds"):
        table.add_column(heading, justify="left" if heading == "epoch" else "right")
    for number, name in enumerate(("the facts", "the next day")):
        changed = {
            word: rows(folder / "changes" / str(number) / f"may_open.{word}.csv") for word in ("added", "removed")
        }
        people = Counter(row[0] for part in changed.values() for row in part)
        counts = [f"{len(part):,}" for part in changed.values()]
        table.add_row(name, *counts, f"{len(people):,}", f"{epochs[number]['seconds']:.3f}")
    return table


if __name__ == "__main__":
    main(Path(sys.argv[1]))
