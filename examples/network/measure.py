"""How far the algorithms go on real topologies: `python measure.py links.tsv [NAME ...]` prints a table.

For each topology: reachability between all pairs, then one link fails. The sets of supports either settle or say at
which limit they stopped.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from make_facts import topology

from sempre import Program
from sempre.diagnostics import DataError
from sempre.network.assembly import make_network
from sempre.network.simulate import Burst, Rounds

NAMES = ("Arpanet196912", "Cesnet1993", "Amres", "Nsfnet", "Abilene", "Geant2012", "Garr201003", "Dfn")

MESSAGES, DERIVATIONS = 1_000_000, 50_000


def measure(name: str, links: list[tuple[str, str]], algorithm: str) -> str:
    """One line of the table."""
    program = Program.from_file(Path(__file__).with_name("reachability.dl"))
    network = make_network(program.checked, algorithm, limit=MESSAGES, most=DERIVATIONS)
    facts = [("link", pair) for a, b in dict.fromkeys(links) for pair in ((a, b), (b, a))]
    nodes = len({node for link in links for node in link})
    started = time.perf_counter()
    try:
        first, second = network.run([Burst(facts), Burst([], facts[:2])], Rounds())
        seconds = time.perf_counter() - started
        result = f"{first.updates:,} | {second.updates:,} | {first.bytes + second.bytes:,} | {seconds:.2f} s"
    except DataError as error:
        seconds = time.perf_counter() - started
        result = f"stopped after {seconds:.0f} s: {error.diagnostics[0].message} | | |"
    return f"| {name} | {nodes} | {len(facts) // 2} | {algorithm} | {result} |"


def main(table: str, names: list[str]) -> None:
    print("| topology | nodes | links | algorithm | updates | updates after a failure | bytes | time |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names or list(NAMES):
        links = topology(Path(table), name)
        for algorithm in ("proofs", "sets"):
            print(measure(name, links, algorithm), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
