"""Everything that may go wrong around a store, at random moments, kind by kind, for as long as was asked.

After each fault the state in memory, if the process lives, and the state on the disk are compared with what they must
be, and with each other. Every kind runs in a process of its own, which is forked: this one has no threads.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

from tests.e2e.killing import in_child
from tests.faults.damage import damages
from tests.faults.deaths import deaths
from tests.faults.disks import full_disks
from tests.faults.interrupts import Interrupts

# Loaded once, before the first fork: a child that is to be killed must not spend its life on imports.
EARLY = (
    *("pandas", "pyarrow.compute", "pyarrow.parquet"),
    *("sempre.cli.store_commands", "sempre.storage.keeper", "sempre.verify"),
)
for name in EARLY:
    with suppress(ImportError):  # there need not be pandas
        import_module(name)


@dataclass(frozen=True)
class Kind:
    """A kind of fault: its share of the time, and what runs until a moment."""

    share: float
    run: Callable[[Path, random.Random, float], Counter[str]]


def _interrupts(folder: Path, rng: random.Random, until: float) -> Counter[str]:
    return Interrupts(folder, rng).run(until)


KINDS = {
    "interrupts": Kind(0.35, _interrupts),
    "kills": Kind(0.15, partial(deaths, number=SIGKILL, by_command=False)),
    "terminations": Kind(0.1, partial(deaths, number=SIGTERM, by_command=False)),
    "killed-commands": Kind(0.05, partial(deaths, number=SIGKILL, by_command=True)),
    "terminated-commands": Kind(0.05, partial(deaths, number=SIGTERM, by_command=True)),
    "interrupted-commands": Kind(0.05, partial(deaths, number=SIGINT, by_command=True)),
    "full-disks": Kind(0.1, full_disks),
    "damage": Kind(0.15, damages),
}


def campaign(folder: Path, seed: int, seconds: float, names: list[str], say: Callable[[str], None]) -> list[str]:
    """Run kinds of faults for a while; says what happened, and returns the kinds in which something was wrong."""
    shares = sum(KINDS[name].share for name in names)
    wrong = []
    for name in names:
        began = time.monotonic()
        until = began + seconds * KINDS[name].share / shares
        place = folder / name
        place.mkdir()
        status, lines = in_child(partial(_one_kind, name, place, seed, until))
        took = time.monotonic() - began
        if status:
            wrong.append(name)
            say(f"{name}: WRONG, with seed {seed}, after {took:.0f} s")
        else:
            counts = ", ".join(f"{what} {number:,}" for what, number in json.loads(lines[-1]).items())
            say(f"{name}: {counts}; {took:.0f} s")
    return wrong


def _one_kind(name: str, folder: Path, seed: int, until: float, out: int) -> None:
    try:
        counts = KINDS[name].run(folder, random.Random(f"{name} {seed}"), until)
    except KeyboardInterrupt:
        raise AssertionError("an interrupt came where none was due") from None
    os.write(out, f"{json.dumps(counts)}\n".encode())
