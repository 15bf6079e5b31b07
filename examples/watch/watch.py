"""Fault analysis in a network that is being watched: links turn out to be down while the diagnosis runs.

    python examples/watch/watch.py [--columns 12] [--rows 6] [--delay 0.4]

The diagnosis runs in the background; the table grows a line for every cycle. Messages arrive in between, and only what
rests on the assumptions that they revise is undone and redone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import sempre

PROGRAM = Path(__file__).parent / "diagnosis.dl"
SHOWN = ("reached", "dark", "suspect", "blames", "crew")
# After which cycle a message arrives, and what it says.
Message = tuple[int, str, dict[str, list[tuple[str, ...]]], dict[str, list[tuple[str, ...]]]]


def switch(column: int, row: int) -> str:
    return f"s{column}.{row}"


def network(columns: int, rows: int) -> dict[str, list[tuple[str, ...]]]:
    """A grid of switches with a station in one corner; a wall of silent ones, and some alone."""
    places = [(column, row) for column in range(columns) for row in range(rows)]
    right = [(switch(c, r), switch(c + 1, r)) for c, r in places if c + 1 < columns]
    down = [(switch(c, r), switch(c, r + 1)) for c, r in places if r + 1 < rows]
    wall = [(switch(columns // 2, row),) for row in range(1, rows)]
    behind = [(switch(columns // 2 + 2, row),) for row in range(1, rows, 2)]
    return {"station": [(switch(0, 0),)], "link": [*right, *down], "silent": [*wall, *behind]}


def messages(columns: int) -> Iterator[Message]:
    """What the network has to say while it is being diagnosed."""
    gap, beyond = switch(columns // 2, 0), switch(columns // 2 + 1, 0)
    yield 3, "s0.1 is silent too", {"silent": [("s0.1",)]}, {}
    yield columns // 2 + 3, f"LINK {gap} {beyond} is down", {}, {"link": [(gap, beyond)]}
    yield columns // 2 + 5, "s0.1 answers again", {}, {"silent": [("s0.1",)]}


class Watch:
    """Takes the cycles as they happen: draws them, and lets the messages in."""

    def __init__(self, database: sempre.Database, arriving: Iterator[Message], delay: float) -> None:
        self.table = Table("cycle", *SHOWN, "message", title="diagnosis", title_justify="left")
        self.live: Live | None = None
        self._database = database
        self._arriving = arriving
        self._next = next(arriving, None)
        self._said: list[str] = []
        self._delay = delay

    def __call__(self, cycle: sempre.CycleChanges) -> None:
        cells = [change_text(cycle, name) for name in SHOWN]
        if cycle.absorbed:
            said = self._said.pop(0) if self._said else "the network as it is assumed to be"
            self.table.add_row("absorbed", *cells, said, style="yellow")
        else:
            self.table.add_row(str(cycle.number), *cells, "")
        if self.live is not None:
            self.live.update(self.table, refresh=True)
        time.sleep(self._delay)
        if self._next is not None and not cycle.absorbed and cycle.number >= self._next[0]:
            _, said, insert, delete = self._next
            self._next = next(self._arriving, None)
            self._said.append(said)
            self._database.interrupt(insert=insert, delete=delete)


def change_text(cycle: sempre.CycleChanges, name: str) -> str:
    plus, minus = cycle.plus.get(name, 0), cycle.minus.get(name, 0)
    return " ".join(part for part in (f"+{plus}" * bool(plus), f"-{minus}" * bool(minus)) if part)


def conclusions(database: sempre.Database) -> Group:
    """What the diagnosis says in the end, and why."""
    crews = sorted(row[0] for row in database["crew"])
    suspects = sorted(row[0] for row in database["suspect"])
    lines = [
        f"{len(suspects)} suspects: {', '.join(suspects)}",
        f"{len(database['dark'])} switches are in the dark; crews go to {', '.join(crews) or 'nobody'}",
    ]
    if suspects:
        lines += ["", *str(database.explain(f'suspect("{suspects[0]}")')).splitlines()]
    lines += ["", f"equal to a diagnosis that knew everything from the start: {database.verify().ok}"]
    return Group(*(Text(line) for line in lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=12)
    parser.add_argument("--rows", type=int, default=6)
    parser.add_argument("--delay", type=float, default=0.4, help="seconds between cycles, to have something to see")
    options = parser.parse_args()
    console = Console(highlight=False)
    with sempre.Database(sempre.Program.from_file(PROGRAM)) as database:
        watch = Watch(database, messages(options.columns), options.delay)
        with Live(watch.table, console=console, auto_refresh=False) as watch.live:
            database.start(insert=network(options.columns, options.rows), watch=watch)
            database.wait()
            watch.live.update(watch.table, refresh=True)
        console.print()
        console.print(conclusions(database))


if __name__ == "__main__":
    main()
