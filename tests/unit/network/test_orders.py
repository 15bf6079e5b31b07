"""All delivery orders of small cases, and what a carrier may do to messages."""

from __future__ import annotations

import random
from functools import partial
from itertools import islice

import numpy as np
import pytest

from sempre.network import wire
from sempre.network.assembly import make_network
from sempre.network.freight import packed, unpacked
from sempre.network.node import Message
from sempre.network.proofs import ProofNode
from sempre.network.simulate import Adversary, Burst, Replay, Rounds, Simulation
from sempre.workers.framing import Frame, FrameError
from tests.property.networks import Case, case_of, difference, random_case
from tests.unit.network.carried import sent_over
from tests.unit.network.explore import TooMany, every_order
from tests.unit.network.programs import CYCLE, FIGURE_6, REACH, links, network_of

BEST = """
.decl link(@s: symbol, d: symbol, c: number)
.decl best(@s: symbol, d: symbol, c: number)
best(@s, d, min(c)) :- link(@s, d, c).
best(@s, d, min(c1 + c2)) :- link(@s, z, c1), best(@z, d, c2).
"""
NEGATION = """
.decl e(@s: symbol, d: symbol)
.decl p(@s: symbol)
.decl q(@s: symbol)
p(@d) :- e(@s, d).
q(@d) :- e(@s, d), !p(@s).
"""

SMALL: list[tuple[str, str, list[Burst]]] = [
    ("proofs", FIGURE_6, [Burst([("q", (3,)), ("u", (4,)), ("r", (2,))]), Burst([], [("q", (3,)), ("u", (4,))])]),
    ("psn", FIGURE_6, [Burst([("q", (3,)), ("u", (4,)), ("r", (2,))]), Burst([], [("q", (3,))])]),
    ("proofs", CYCLE, [Burst([("a", (0,))]), Burst([], [("a", (0,))]), Burst([("a", (0,))])]),
    ("sets", CYCLE, [Burst([("a", (0,))]), Burst([], [("a", (0,))])]),
    ("sets", CYCLE, [Burst([("a", (0,))]), Burst([], [("a", (0,))]), Burst([("a", (0,))])]),
    ("sets", REACH, [Burst(links("ab", "ba", "bc")), Burst([], links("bc"))]),
    ("proofs", REACH, [Burst(links("ab", "ba")), Burst([], links("ab"))]),
    ("proofs", REACH, [Burst(links("ab", "ba", "bc")), Burst([], links("bc"))]),
    ("proofs", BEST, [Burst([("link", ("a", "b", 1)), ("link", ("b", "a", 2))]), Burst([], [("link", ("a", "b", 1))])]),
    ("proofs", NEGATION, [Burst([("e", ("a", "b")), ("e", ("b", "c"))]), Burst([], [("e", ("a", "b"))])]),
]


@pytest.mark.parametrize("number", range(len(SMALL)))
def test_every_order_gives_the_central_result(number: int) -> None:
    algorithm, text, bursts = SMALL[number]
    case = case_of(text, tuple(bursts))
    expected = case.central()
    count = 0
    compiled = network_of(text, algorithm)
    try:
        for network in every_order(lambda: Simulation(compiled.make, compiled.location), bursts, most=500):
            assert difference(case, network, expected) == ""
            count += 1
    except TooMany:
        assert count == 500
    assert count > 4


def test_an_explored_order_is_a_real_one() -> None:
    """The number of orders of messages to one node is what it must be: all of them."""
    text = ".decl e(@s: number, d: number) .decl p(@s: number, d: number) p(@9, s) :- e(@s, _)."
    bursts = [Burst([("e", (node, 0)) for node in range(3)])]
    assert sum(1 for _ in every_order(lambda: network_of(text), bursts)) >= 6


# ------------------------------------------------------------------------------------------------ carriers


def cases(count: int, algorithm: str = "proofs") -> list[Case]:
    return [random_case(random.Random(seed), algorithm) for seed in range(count)]


def some(rng: random.Random, message: Message) -> int:
    return rng.choice((1, 1, 2, 3))


@pytest.mark.parametrize("algorithm", ["proofs", "sets"])
def test_messages_may_be_repeated(algorithm: str) -> None:
    for seed, case in enumerate(cases(40, algorithm)):
        network = make_network(case.checked, algorithm)
        network.copies = partial(some, random.Random(seed))
        network.run(case.bursts, Adversary(seed))
        assert difference(case, network, case.central()) == ""


def test_a_trace_does_the_same_again() -> None:
    for seed, case in enumerate(cases(20)):
        first, second = make_network(case.checked), make_network(case.checked)
        first.run(case.bursts, Adversary(seed, overlap=0.3))
        second.run(case.bursts, Replay(first.trace))
        assert second.trace == first.trace
        assert [r.bytes for r in first.reports] == [r.bytes for r in second.reports]


@pytest.mark.parametrize("algorithm", ["proofs", "psn", "sets"])
def test_messages_cross_a_socket(algorithm: str) -> None:
    """Nodes that only ever see what was read from bytes settle alike, and sizes are those of the bytes."""
    for seed, case in enumerate(cases(30, algorithm)):
        network = make_network(case.checked, algorithm)
        numbers = {name: number for number, name in enumerate(network.location)}
        pending: list[Message] = []
        rng = random.Random(seed)
        for burst in case.bursts:
            for sign, facts in ((0, burst.delete), (1, burst.insert)):
                for name, row in facts:
                    node = network.node(row[network.location[name]])
                    pending += node.change([(name, row)], []) if sign else node.change([], [(name, row)])
            while pending:
                data = wire.encode(message := pending.pop(rng.randrange(len(pending))), numbers)
                assert len(data) == wire.message_size(message)
                assert wire.decode(data, list(numbers)) == message
                ((read, depth),) = unpacked(sent_over(packed({}, [(message, 7)], numbers)), list(numbers))
                assert (read, depth) == (message, 7)
                pending += network.node(read.target).receive([read])
        assert difference(case, network, case.central()) == ""


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0", b"\1\0\0\0x", b"\5\0\0\0t\xff\xff\xff\xff"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(data, [])


def test_values_that_are_equal_and_of_other_types_stay_what_they_are() -> None:
    """Within a frame each value is written once."""
    rows = [("p", (1, 1.0)), ("q", (1.0, 1)), ("q", (float("inf"), None)), ("p", ("1", ("é", (2**64 - 1, None))))]
    updates = tuple((name, row, (row[0], 3, value, None), None) for name, row in rows for value in (1, 1.0, "1", None))
    counted = tuple((-1, name, row, tuple(rows), ()) for name, row in rows)
    for each in (updates, counted):
        mail = [(Message(source, "é\n", 5, each), 2) for source in (1, 1.0, "1", (1, (2.5, None)))]
        read = unpacked(sent_over(packed({}, mail, {"p": 0, "q": 1})), ["p", "q"])
        assert repr(read) == repr(mail)


def test_frames_that_are_no_messages_are_refused() -> None:
    mail = [(Message(1, 2, 1, (("p", (1, 2), (0, 1, None, ("p", (1,), None, 9, 4)), ("p", (1,), 3)),)), 1)]
    frame = packed({}, mail, {"p": 0})
    for at, column in enumerate(frame.columns):
        for wrong in (column[:-1], np.append(column, 99), column + 99):
            columns = [*frame.columns[:at], wrong, *frame.columns[at + 1 :]]
            with pytest.raises(FrameError):
                unpacked(Frame(frame.header, columns), ["p"])


def test_no_tombstones_are_left_when_messages_have_come() -> None:
    network = network_of(REACH)
    network.run([Burst(links("ab", "bc", "ca")), Burst([], links("ab", "bc", "ca"))], Adversary(3))
    for node in network.nodes.values():
        assert isinstance(node, ProofNode)
        assert not any(channel.ahead or channel.newest for channel in node.heard.values())
        assert not any(node.claims)
        assert not any(node.told)


def test_rounds_count_hops() -> None:
    network = network_of(REACH)
    (report,) = network.run([Burst(links("ab", "bc", "cd"))], Rounds())
    assert report.messages == sum(traffic.messages for traffic in report.nodes.values())
    assert sum(report.timeline.values()) == report.messages
    assert report.steps == 4  # the changes, then one round per hop
    assert len(list(islice(network.facts("reach"), 10))) == 6
