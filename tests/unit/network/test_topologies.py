"""The protocols of `examples/network` on real topologies: right, with link failures, and within their time."""

from __future__ import annotations

import random
import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest

import sempre
from sempre.api import Program
from sempre.network.assembly import make_network
from sempre.network.node import Fact
from sempre.network.simulate import Adversary, Burst, Rounds, Simulation
from tests.budget import while_time
from tests.unit.network.topologies import Links, both_ways, size, topologies, topology

networkx = pytest.importorskip("networkx")

EXAMPLES = Path(__file__).parents[3] / "examples" / "network"
BEST = """
.decl link(@s: symbol, d: symbol, c: number)
.decl best(@s: symbol, d: symbol, c: number)
best(@s, d, min<c>) :- link(@s, d, c).
best(@s, d, min<c1 + c2>) :- link(@s, z, c1), best(@z, d, c2).
"""


def cost(a: str, b: str) -> int:
    return sum(map(ord, "".join(sorted((a, b))))) % 10 + 1


def priced(links: Links) -> list[Fact]:
    return [("link", (a, b, cost(a, b))) for a, b in both_ways(links)]


def plain(links: Links) -> list[Fact]:
    return [("link", pair) for pair in both_ways(links)]


def example(name: str, algorithm: str = "proofs", limit: int = 10_000_000) -> Simulation:
    return make_network(Program.from_file(EXAMPLES / f"{name}.dl").checked, algorithm, limit)


def shortest(links: Links) -> set[tuple[str, str, int]]:
    """Costs of all pairs by networkx; to itself, a node goes over its cheapest link and back."""
    graph = networkx.Graph()
    graph.add_weighted_edges_from((a, b, cost(a, b)) for a, b in links)
    found = {(a, b, c) for a, row in networkx.all_pairs_dijkstra_path_length(graph) for b, c in row.items() if a != b}
    return found | {(a, a, 2 * min(edge["weight"] for edge in graph[a].values())) for a in graph if graph[a]}


def reachable(links: Links) -> set[tuple[str, str]]:
    graph = networkx.Graph(links)
    return {(a, b) for part in networkx.connected_components(graph) for a in part for b in part}


def failures(links: Links, count: int, seed: int) -> Links:
    distinct = list(dict.fromkeys(links))
    return random.Random(seed).sample(distinct, min(count, len(distinct)))


def up_to(most: int) -> list[Links]:
    """All topologies that are not larger, the smallest first."""
    return sorted((links for links in topologies().values() if size(links) <= most), key=size)


@pytest.mark.parametrize("name", ["Abilene", "Geant2012", "Nsfcnet", "Arpanet19728"])
@pytest.mark.parametrize("seed", [None, 1])
def test_reachability_with_failures(name: str, seed: int | None) -> None:
    links = topology(name)
    network = example("reachability")
    network.run([Burst(plain(links))], Rounds() if seed is None else Adversary(seed))
    assert set(network.facts("reach")) == reachable(links)
    rest = links
    for number, failed in enumerate(failures(links, 4, 7)):
        rest = [link for link in rest if link not in (failed, failed[::-1])]
        network.run([Burst([], plain([failed]))], Rounds() if seed is None else Adversary(seed + number))
        assert set(network.facts("reach")) == reachable(rest)


@pytest.mark.parametrize(
    "name",
    ["Abilene", "Amres", *(pytest.param(name, marks=pytest.mark.slow) for name in ("Atmnet", "Rnp", "Reuna"))],
)
def test_conditions_follow_failures(name: str) -> None:
    """All sets of links that a fact rests on, at once; links fail and come back."""
    links = topology(name)
    network = example("reachability", "sets")
    network.run([Burst(plain(links))], Rounds())
    assert set(network.facts("reach")) == reachable(links)
    for number, failed in enumerate(failures(links, 3, 7)):
        rest = [link for link in links if link not in (failed, failed[::-1])]
        network.run([Burst([], plain([failed]))], Adversary(number))
        assert set(network.facts("reach")) == reachable(rest)
        network.run([Burst(plain([failed]))], Rounds())
        assert set(network.facts("reach")) == reachable(links)


@pytest.mark.slow
def test_reachability_on_every_topology_up_to_60_nodes() -> None:
    for links in while_time(up_to(60), 120):
        started = time.process_time()
        network = example("reachability")
        failed = failures(links, 5, 3)
        network.run([Burst(plain(links)), *(Burst([], plain([link])) for link in failed)], Rounds())
        assert time.process_time() - started < 30
        rest = [link for link in links if link not in failed and link[::-1] not in failed]
        assert set(network.facts("reach")) == reachable(rest)


def check_every_failure(network: sempre.Network, links: Links) -> list[int]:
    """Every link of a topology fails once, on a network that holds nothing; how many messages each failure took."""
    distinct = list(dict.fromkeys(tuple(sorted(link)) for link in links))
    network.apply(insert={"link": both_ways(links)})
    assert set(network["reach"]) == reachable(links)
    with sempre.Database(network.program) as database:
        database.apply(insert={"link": both_ways(links)})
        assert set(database["reach"]) == set(network["reach"])
    messages = []
    for a, b in distinct:
        failed = {"link": [(a, b), (b, a)]}
        messages.append(network.apply(delete=failed).messages)
        assert set(network["reach"]) == reachable([link for link in links if tuple(sorted(link)) != (a, b)])
        network.apply(insert=failed)
    network.apply(delete={"link": both_ways(links)})
    assert not len(network["reach"])
    return messages


def test_every_link_fails_once_in_processes() -> None:
    with sempre.Network(Program.from_file(EXAMPLES / "reachability.dl"), workers=2) as network:
        assert len(check_every_failure(network, topology("Abilene"))) == 14


@pytest.mark.slow
def test_every_link_of_topologies_up_to_100_nodes_fails_once() -> None:
    messages, done = [], 0
    with sempre.Network(Program.from_file(EXAMPLES / "reachability.dl"), workers=2) as network:
        for links in while_time(up_to(100), 300):
            found = check_every_failure(network, links)
            messages += found
            done += 1
            print(size(links), len(found), statistics.median(found), max(found), flush=True)
    print(f"{done} topologies, {len(messages)} failures, {statistics.median(messages)} messages each (median)")


@pytest.mark.parametrize("name", ["Abilene", "Geant2012"])
def test_best_paths_are_shortest_paths(name: str) -> None:
    links = topology(name)
    network = example("best_path")
    network.run([Burst(priced(links))], Adversary(5))
    assert set(network.facts("best")) == shortest(links)
    costs = {(a, b): c for a, b, c in shortest(links)}
    for source, target, path in network.facts("route"):
        nodes = []
        while path is not None:
            nodes.append(path[0])
            path = path[1]
        assert (nodes[0], nodes[-1]) == (source, target)
        assert sum(cost(a, b) for a, b in pairwise(nodes)) == costs[source, target]


@pytest.mark.slow
def test_best_paths_of_the_largest_topology_and_the_cost_of_a_failure() -> None:
    links = topology("Kdl")
    network = make_network(Program(BEST).checked)
    (first,) = network.run([Burst(priced(links))], Rounds())
    assert set(network.facts("best")) == shortest(links)
    messages, updates = [], []
    for failed in while_time(failures(links, 20, 1), 120):
        (report,) = network.run([Burst([], priced([failed]))], Rounds())
        rest = [link for link in links if link not in (failed, failed[::-1])]
        assert set(network.facts("best")) == shortest(rest)
        messages.append(report.messages / first.messages)
        updates.append(report.updates / first.updates)
        network.run([Burst(priced([failed]))], Rounds())
    assert set(network.facts("best")) == shortest(links)
    print(f"messages {statistics.median(messages):.3f}, updates {statistics.median(updates):.3f}")
    assert statistics.median(messages) < 0.1
    assert statistics.median(updates) < 0.1


def simple_paths(links: Links, most: int) -> set[tuple[str, str, tuple[str, ...]]] | None:
    """All paths without a loop, or None when there are more than `most`."""
    graph = networkx.Graph(links)
    found: set[tuple[str, str, tuple[str, ...]]] = set()
    for source in graph:
        for target in graph:
            for path in networkx.all_simple_paths(graph, source, target) if source != target else ():
                found.add((source, target, tuple(path)))
                if len(found) > most:
                    return None
    return found


def paths_of(network: Simulation) -> set[tuple[str, str, tuple[str, ...]]]:
    found = set()
    for source, target, path, _ in network.facts("path"):
        nodes = []
        while path is not None:
            nodes.append(path[0])
            path = path[1]
        found.add((source, target, tuple(nodes)))
    return found


def check_path_vector(links: Links, most: int, algorithm: str = "proofs") -> bool:
    expected = simple_paths(links, most)
    if expected is None:
        return False
    network = example("path_vector", algorithm)
    network.run([Burst(priced(links))], Rounds())
    assert paths_of(network) == expected
    (failed,) = failures(links, 1, 2)
    network.run([Burst([], priced([failed]))], Rounds())
    rest = [link for link in links if link not in (failed, failed[::-1])]
    assert paths_of(network) == simple_paths(rest, most)
    return True


@pytest.mark.parametrize("algorithm", ["proofs", "psn", "sets"])
def test_path_vector(algorithm: str) -> None:
    assert check_path_vector(topology("Abilene"), 2_000, algorithm)


@pytest.mark.slow
def test_path_vector_on_topologies_up_to_40_nodes() -> None:
    done = [check_path_vector(links, 4_000) for links in while_time(up_to(40), 120)]
    assert sum(done) > len(done) // 2


@pytest.mark.slow
def test_distance_vector_over_a_thousand_nodes() -> None:
    rng = random.Random(1)
    nodes = [f"n{number}" for number in range(1000)]
    links = {(nodes[at], nodes[rng.randrange(at)]): None for at in range(1, 1000)}
    while len(links) < 5000:
        a, b = rng.sample(nodes, 2)
        if (b, a) not in links:
            links[a, b] = None
    network = example("distance_vector")
    started = time.process_time()
    network.run([Burst([*priced(list(links)), *(("destination", (d,)) for d in nodes[:20])])], Rounds())
    seconds = time.process_time() - started
    print(f"{seconds:.1f} s")
    assert seconds < 60
    graph = networkx.Graph()
    graph.add_weighted_edges_from((a, b, cost(a, b)) for a, b in links)
    for target in nodes[:20]:
        lengths = networkx.single_source_dijkstra_path_length(graph, target)
        assert {a: c for a, d, c in network.facts("distance") if d == target} == lengths


@pytest.mark.parametrize("name", ["link_state", "ring", "distance_vector", "best_path", "reachability"])
def test_examples_equal_a_central_run(name: str) -> None:
    from sempre import Database

    links = topology("Abilene")
    nodes = sorted({node for link in links for node in link})
    facts = priced(links) if name != "reachability" else plain(links)
    if name == "ring":
        facts += [("identifier", (node, (at * 389 + 71) % 1024)) for at, node in enumerate(nodes)]
    if name == "distance_vector":
        facts += [("destination", (node,)) for node in nodes[:4]]
    program = Program.from_file(EXAMPLES / f"{name}.dl")
    network = make_network(program.checked)
    failed = ("link", facts[0][1])
    network.run([Burst(facts), Burst([], [failed])], Adversary(11))
    tables: dict[str, list[tuple[object, ...]]] = {}
    for relation, row in facts:
        if (relation, row) != failed:
            tables.setdefault(relation, []).append(row)
    with Database(program) as database:
        database.apply(insert=tables)
        for relation in program.relations:
            assert set(network.facts(relation)) == set(database[relation]), relation
