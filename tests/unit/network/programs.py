"""Programs of the papers, and networks of them."""

from __future__ import annotations

from sempre.analysis.check import check
from sempre.lang.parser import parse
from sempre.network.assembly import make_network
from sempre.network.localize import localize
from sempre.network.node_program import NodeProgram
from sempre.network.psn import CountingNode
from sempre.network.simulate import Adversary, Burst, Rounds, Simulation

# [Nigam10] Figure 1, [Nigam11] Figure 6: propositions, each at its own node; `_` columns would only distract.
FIGURE_6 = """
.decl p(@n: number)
.decl s(@n: number)
.decl t(@n: number)
.decl r(@n: number)
.decl q(@n: number)
.decl u(@n: number)
p(@1) :- s(@2), t(@2), r(@2).
s(@2) :- q(@3).
t(@2) :- u(@4).
"""

# [Nigam11] section 5: p and q hold each other up.
CYCLE = """
.decl a(@n: number)
.decl p(@n: number)
.decl q(@n: number)
p(@1) :- a(@0).
q(@2) :- p(@1).
p(@1) :- q(@2).
"""

# [Nigam11] Figures 4 and 5.
FIGURE_5 = """
.decl s(@n: number)
.decl p(@n: number)
.decl q(@n: number)
.decl r(@n: number)
p(@1) :- s(@0).
q(@2) :- p(@1).
r(@3) :- q(@2).
p(@1) :- r(@3).
q(@2) :- r(@3).
"""

# [Nigam11] section 3.2, on the topology of Figure 1.
HOPS = """
.decl link(@x: symbol, y: symbol)
.decl hop(@x: symbol, y: symbol)
.decl tri_hop(@x: symbol, y: symbol)
hop(@x, y) :- link(@x, z), link(@z, y).
tri_hop(@x, y) :- hop(@x, z), link(@z, y).
"""

REACH = """
.decl link(@s: symbol, d: symbol)
.decl reach(@s: symbol, d: symbol)
reach(@s, d) :- link(@s, d).
reach(@s, d) :- link(@s, z), reach(@z, d).
"""


def network_of(text: str, algorithm: str = "proofs", **options: int) -> Simulation:
    return make_network(check(parse(text), {"<text>": text}), algorithm, **options)


def derivation_sets(text: str) -> Simulation:
    """Nodes that keep every derivation with the facts it rests on, and take one update at a time, as in the paper."""
    local = localize(check(parse(text), {"<text>": text}))
    program = NodeProgram(local)
    where = {name: local.location(name) for name in local.relations}
    return Simulation(lambda address: CountingNode(program, address, annotated=True, together=False), where)


def links(*pairs: str) -> list[tuple[str, tuple[str, str]]]:
    """`ab` is a link from a to b."""
    return [("link", (pair[0], pair[1])) for pair in pairs]


def run(text: str, bursts: list[Burst], algorithm: str = "proofs", seed: int | None = None) -> Simulation:
    network = derivation_sets(text) if algorithm == "derivations" else network_of(text, algorithm)
    network.run(bursts, Rounds() if seed is None else Adversary(seed))
    return network
