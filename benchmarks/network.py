"""Networks in tasks: how long they take to settle, what they send, and what a placement saves.

python benchmarks/network.py [NAME ...] [--on spark|local] [--workers N ...] [--placement auto|hash|links ...]

Names: distance (distance vector to 20 destinations over 1,000 nodes and 5,000 links), local (the same over a network
whose links are short). Each line: seconds until everything has settled, processor time of this process and of those
that host nodes, messages, those between tasks, bytes of both, and rounds. --check compares the result with Dijkstra's.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import sempre

ROOT = Path(__file__).parents[1]
NODES, LINKS, DESTINATIONS = 1_000, 5_000, 20


def facts(name: str) -> dict[str, list[tuple[Any, ...]]]:
    """Links in both directions with costs of 1 to 10, the same every time, and destinations."""
    rng = random.Random(1)
    nodes = [f"n{number}" for number in range(NODES)]

    def end(at: int) -> int:
        return max(0, at - rng.randint(1, 40)) if name == "local" else rng.randrange(at)

    links = {(nodes[at], nodes[end(at)]): None for at in range(1, NODES)}
    while len(links) < LINKS:
        at = rng.randrange(1, NODES)
        links[nodes[at], nodes[end(at)]] = None
    costs = {pair: rng.randint(1, 10) for pair in links}
    both = {(*pair, cost): None for (a, b), cost in costs.items() for pair in ((a, b), (b, a))}
    return {"link": list(both), "destination": [(node,) for node in nodes[:DESTINATIONS]]}


def measure(name: str, spark: Any, workers: int, placement: str, check: bool) -> str:
    program = sempre.Program.from_file(ROOT / "examples" / "network" / "distance_vector.dl")
    given = facts(name)
    before = os.times()
    began = time.perf_counter()
    with sempre.Network(program, spark=spark, workers=workers, placement=placement) as network:
        report = network.apply(insert=given)
        whole = time.perf_counter() - began
        mine = os.times()
        found = set(network["distance"])
        failed = given["link"][0][:2]
        cut = [row for row in given["link"] if row[:2] in (failed, failed[::-1])]
        hosts = sum(task["processor"] for task in network.stats["tasks"])
        after = network.apply(delete={"link": cut})
    if check:
        assert found == shortest(given), "a wrong result"
    return (
        f"{name} {'spark' if spark else 'local'} workers {workers} {placement}: settled in {report.seconds:.2f} s"
        f" (with starting {whole:.2f} s), driver {mine.user + mine.system - before.user - before.system:.2f} s,"
        f" hosts {hosts:.2f} s of processor time; {report.messages:,} messages,"
        f" {report.updates:,} updates, {report.bytes:,} bytes; between tasks {report.crossed:,} messages,"
        f" {report.shipped:,} bytes; {report.steps} rounds; a link fails: {after.messages:,} messages,"
        f" {after.seconds:.3f} s"
    )


def shortest(given: dict[str, list[tuple[Any, ...]]]) -> set[tuple[str, str, int]]:
    """The distances to every destination, by Dijkstra's algorithm."""
    near: dict[str, list[tuple[str, int]]] = {}
    for a, b, cost in given["link"]:
        near.setdefault(b, []).append((a, cost))
    found = set()
    for (target,) in given["destination"]:
        known: dict[str, int] = {}
        waiting = [(0, target)]
        while waiting:
            cost, node = heapq.heappop(waiting)
            if node not in known:
                known[node] = cost
                for other, more in near.get(node, ()):
                    heapq.heappush(waiting, (cost + more, other))
        found |= {(node, target, cost) for node, cost in known.items()}
    return found


def session(workers: int) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["distance"])
    parser.add_argument("--on", choices=("spark", "local"), default="local")
    parser.add_argument("--workers", type=int, nargs="*", default=[2])
    parser.add_argument("--placement", nargs="*", default=["auto"])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for name in options.names:
        for workers in options.workers:
            for placement in options.placement:
                spark = session(workers) if options.on == "spark" else None
                print(measure(name, spark, workers, placement, options.check), flush=True)


if __name__ == "__main__":
    main()
