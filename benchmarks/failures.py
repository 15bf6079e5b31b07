"""Reachability on real topologies, every link failing once: right every time, and what each failure sends.

    python benchmarks/failures.py [--most-nodes 100] [--on simulate|local] [--workers N] [--seed N] [--shared DIR]
                                  [--names A,B] [--algorithm proofs|sets|psn|sn] [--json FILE]

For every topology in topologies/links.tsv: all links come, then each of them fails (in both directions) and comes back.
After every step the facts of all nodes are compared with those of a `Database` that got the same changes, and after
every failure with the connected components of what is left. The nodes are simulated in rounds, or, with `--seed`, by an
adversary that reorders and delays; with `--on local` they are in processes. Each line of the table: links, messages and
bytes of the first run, then for the failures the median, the 95 % quantile and the maximum of messages and bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import sempre
from sempre.network.assembly import make_network
from sempre.network.report import BurstReport
from sempre.network.simulate import Adversary, Burst, Rounds

PROGRAM = Path(__file__).parents[1] / "examples" / "network" / "reachability.dl"
Pair = tuple[str, str]
# Deletes some links, inserts others, and gives the report.
Change = Callable[[list[Pair], list[Pair]], BurstReport]


def topologies(table: Path) -> dict[str, list[Pair]]:
    """The links of every topology, each once, by its name."""
    found: dict[str, dict[Pair, None]] = {}
    for line in table.read_text("utf-8").splitlines():
        name, a, b = line.split("\t")
        if a != b:
            found.setdefault(name, {})[min(a, b), max(a, b)] = None
    return {name: list(links) for name, links in found.items()}


def both(links: Iterable[Pair]) -> list[Pair]:
    return [pair for a, b in links for pair in ((a, b), (b, a))]


def components(links: Iterable[Pair]) -> set[Pair]:
    """Who can reach whom over links that go both ways."""
    near: dict[str, set[str]] = {}
    for a, b in links:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    found: set[Pair] = set()
    seen: set[str] = set()
    for start in near:
        if start in seen:
            continue
        part, waiting = {start}, [start]
        while waiting:
            fresh = near[waiting.pop()] - part
            part |= fresh
            waiting += fresh
        seen |= part
        found |= {(a, b) for a in part for b in part}
    return found


def measure(links: list[Pair], change: Change, read: Callable[[], set[Pair]]) -> dict[str, Any]:
    """One topology: its first run and all failures."""
    began = time.process_time()
    with sempre.Database(sempre.Program.from_file(PROGRAM)) as database:

        def step(gone: list[Pair], come: list[Pair]) -> BurstReport:
            report = change(gone, come)
            database.apply(delete={"link": gone}, insert={"link": come})
            assert read() == set(database["reach"])
            return report

        first = step([], both(links))
        assert read() == components(links)
        failures = []
        for link in links:
            failures.append(step(both([link]), []))
            assert read() == components(other for other in links if other != link)
            step([], both([link]))
    return {
        "nodes": len({node for link in links for node in link}),
        "links": len(links),
        "messages": first.messages,
        "bytes": first.bytes,
        "failures": [(report.messages, report.updates, report.bytes) for report in failures],
        "seconds": time.process_time() - began,
    }


def simulated(links: list[Pair], seed: int | None, algorithm: str) -> dict[str, Any]:
    network = make_network(sempre.Program.from_file(PROGRAM).checked, algorithm, limit=10_000_000)
    number = 0

    def change(gone: list[Pair], come: list[Pair]) -> BurstReport:
        nonlocal number
        number += 1
        facts = [[("link", pair) for pair in pairs] for pairs in (come, gone)]
        schedule = Rounds() if seed is None else Adversary(seed + number)
        return network.run([Burst(facts[0], facts[1])], schedule)[0]

    return measure(links, change, lambda: set(network.facts("reach")))


def in_processes(links: list[Pair], workers: int, algorithm: str) -> dict[str, Any]:
    program = sempre.Program.from_file(PROGRAM)
    with sempre.Network(program, workers=workers, algorithm=algorithm) as network:

        def change(gone: list[Pair], come: list[Pair]) -> BurstReport:
            return network.apply(delete={"link": gone}, insert={"link": come})

        return measure(links, change, lambda: set(network["reach"]))


def line(name: str, found: dict[str, Any]) -> str:
    messages, _, sizes = (sorted(each) for each in zip(*found["failures"], strict=True))
    return (
        f"| {name} | {found['nodes']} | {found['links']} | {found['messages']:,} | {found['bytes']:,}"
        f" | {spread(messages)} | {spread(sizes)} | {found['seconds']:.2f} s |"
    )


def spread(numbers: list[int]) -> str:
    """Median, 95 % quantile and maximum of sorted numbers."""
    return f"{statistics.median(numbers):,.0f} / {numbers[len(numbers) * 95 // 100]:,} / {numbers[-1]:,}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most-nodes", type=int, default=100)
    parser.add_argument("--on", choices=("simulate", "local"), default="simulate")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--names", type=lambda text: text.split(","))
    parser.add_argument("--algorithm", choices=("proofs", "sets", "psn", "sn"), default="proofs")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("SHARED", "../shared")))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    known = topologies(options.shared / "data" / "topologies" / "links.tsv")
    sizes = {name: len({node for link in links for node in link}) for name, links in known.items()}
    names = options.names or sorted((n for n in known if sizes[n] <= options.most_nodes), key=lambda n: (sizes[n], n))
    print("| topology | nodes | links | messages | bytes | messages per failure | bytes per failure | processor |")
    print("|---|---|---|---|---|---|---|---|")
    every = {}
    for name in names:
        links = known[name]
        if options.on == "local":
            every[name] = in_processes(links, options.workers, options.algorithm)
        else:
            every[name] = simulated(links, options.seed, options.algorithm)
        print(line(name, every[name]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(every) + "\n", "utf-8")
    failures = [failure for found in every.values() for failure in found["failures"]]
    messages, sent = sorted(each[0] for each in failures), sorted(each[2] for each in failures)
    print(f"\n{len(every)} topologies, {len(failures):,} failures: messages {spread(messages)}, bytes {spread(sent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
