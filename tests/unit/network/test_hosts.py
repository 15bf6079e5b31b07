"""Networks whose nodes are spread over hosts: any order of frames, repetition, death, and the end that is found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import sempre
from sempre.diagnostics import BackendError, DataError, StateError
from sempre.network.assembly import local_program, make_network, node_maker
from sempre.network.detector import Detector
from sempre.network.host import DRIVER, Host, Seen
from sempre.network.placement import Placement, cut, hashed, link_graph, partition, placed, placement_from
from sempre.network.simulate import Rounds
from sempre.workers.framing import Frame
from tests.property.networks import Case, random_case
from tests.unit.network.carried import AdversarialCarrier, adversary, carried_by, differing, sent_over, settle_in
from tests.unit.network.programs import REACH


def cases(count: int, algorithm: str = "proofs", first: int = 0) -> Iterator[tuple[int, Case]]:
    return ((seed, random_case(random.Random(seed), algorithm)) for seed in range(first, first + count))


@pytest.mark.parametrize("algorithm", ["proofs", "psn"])
def test_any_order_of_frames_gives_the_central_result(algorithm: str) -> None:
    for seed, case in cases(60, algorithm):
        with carried_by(adversary(seed)):
            assert settle_in(case, random.Random(seed), algorithm=algorithm) == "", f"seed {seed}"


def test_tasks_that_die_are_started_again() -> None:
    restarts = 0
    for seed, case in cases(60):
        rng = random.Random(seed)
        with (
            carried_by(adversary(seed, dies=rng.randint(0, 40))),
            sempre.Network(case.text, workers=rng.randint(1, 3)) as network,
        ):
            for number, burst in enumerate(case.bursts, 1):
                network.apply(insert=grouped(burst.insert), delete=grouped(burst.delete))
                assert differing(case, network, number) == "", f"seed {seed}"
            restarts += network.stats["restarts"]
    assert restarts > 30


def grouped(facts: Any) -> dict[str, list[Any]]:
    return {name: [row for other, row in facts if other == name] for name, _ in facts}


def test_one_host_does_what_rounds_do() -> None:
    """Same messages, same bytes, and as many steps: the longest chain of messages is what a round is for others."""
    for seed, case in cases(40, first=500):
        simulated = make_network(case.checked)
        reports = simulated.run(case.bursts, Rounds())
        local = local_program(case.checked)
        with (
            carried_by(lambda hello, count, seed=seed: adversary(seed, repeats=0.0)(hello, count)),
            sempre.Network(case.text, workers=1) as network,
        ):
            for burst, expected in zip(case.bursts, reports, strict=True):
                found = network.apply(insert=grouped(burst.insert), delete=grouped(burst.delete))
                assert set(network) == set(case.checked.relations) <= set(local.relations)
                if len(network.nodes) < 2:
                    continue
                assert found.crossed == 0
                have = (found.messages, found.updates, found.bytes, found.timeline, found.nodes)
                assert have == (
                    expected.messages, expected.updates, expected.bytes, expected.timeline, expected.nodes
                ), f"seed {seed}"  # fmt: skip


# ----------------------------------------------------------------------------------------- what can go wrong


def test_an_epoch_that_fails_has_not_happened() -> None:
    text = """
    .decl link(@s: number, d: number, c: number)
    .decl best(@s: number, d: number, c: number)
    best(@s, d, min(c)) :- link(@s, d, c).
    best(@s, d, min(c1 + c2)) :- link(@s, z, c1), best(@z, d, c2).
    """
    for seed in range(10):
        with carried_by(adversary(seed)), sempre.Network(text, workers=2) as network:
            network.apply(insert={"link": [(1, 2, 1), (2, 1, 1)]})
            before = sorted(network["best"])
            network.send(insert={"link": [(2, 3, 1)]})
            with pytest.raises(DataError, match="smaller"):
                network.apply(insert={"link": [(2, 1, -5)]})
            assert sorted(network["best"]) == before
            assert network.epoch == 0
            network.apply(insert={"link": [(2, 3, 1)]})
            assert (1, 3, 2) in network["best"]


def test_tasks_that_die_again_and_again_are_an_error() -> None:
    def dying(hello: Any, count: int) -> AdversarialCarrier:
        return adversary(1, dies=3)(hello, count)

    with carried_by(dying), sempre.Network(REACH, workers=2) as network:
        with pytest.raises(BackendError, match="lost") as error:
            network.apply(insert={"link": [("a", "b")]})
        assert error.value.diagnostics[0].code == "E741"
        with carried_by(adversary(1)):
            network.apply(insert={"link": [("a", "c")]})
            assert list(network["reach"]) == [("a", "c")]


def test_a_recursion_without_end_stops_at_the_limit() -> None:
    text = ".decl n(@x: number, i: number) n(@1, 0). n(@3 - x, i + 1) :- n(@x, i)."
    with carried_by(adversary(1)), sempre.Network(text, workers=2, limit=100) as network:
        with pytest.raises(DataError, match="not settled after") as error:
            list(network["n"])
        assert error.value.diagnostics[0].code == "E531"


def test_a_value_that_is_too_deep_is_an_error() -> None:
    text = """
    .type list = [x: number, rest: list]
    .decl p(@n: number, l: list)
    .decl q(@n: number, l: list)
    q(@n + 1, l) :- p(@n, l).
    """
    for length in (600, 3_000):
        deep: Any = None
        for number in range(length):
            deep = (number, deep)
        with carried_by(adversary(1)), sempre.Network(text, workers=2, placement="hash") as network:
            with pytest.raises(DataError) as error:
                network.apply(insert={"p": [(number, deep) for number in range(9)]})
            assert error.value.diagnostics[0].code == "E535"
            assert not len(network["q"])


def test_arguments_are_checked() -> None:
    for options in ({"placement": "here"}, {"workers": 0}, {"workers": True}):
        with pytest.raises(StateError):
            sempre.Network(REACH, **options)
    with carried_by(adversary(1)):
        network = sempre.Network(REACH, workers=1)
        with pytest.raises(DataError, match="nothing"):
            network["nothing"]
        network.close()
        with pytest.raises(StateError, match="closed"):
            list(network["reach"])


# ------------------------------------------------------------------------------------------------- reading


def test_values_of_every_type_come_back_as_a_database_shows_them() -> None:
    text = """
    .type list = [x: float, rest: list]
    .type tree = Leaf {} | Node {n: unsigned, t: tree}
    .decl p(@n: symbol, f: float, l: list, t: tree)
    .decl q(@n: symbol, f: float, l: list, t: tree)
    q(@"b", f, l, t) :- p(@_, f, l, t).
    """
    rows = [
        ("a", float("nan"), (1.5, (float("inf"), None)), ("Node", 2**64 - 1, ("Leaf",))),
        ("é\n", -0.0, None, ("Leaf",)),
    ]
    with carried_by(adversary(1)), sempre.Network(text, workers=2, placement="hash") as network:
        network.apply(insert={"p": rows})
        with sempre.Database(text) as database:
            database.apply(insert={"p": rows})
            for name in ("p", "q"):
                assert sorted(map(repr, network[name])) == sorted(map(repr, database[name]))
                assert network[name].to_arrow().schema == database[name].to_arrow().schema
        assert list(network["p"].at("b")) == []
        assert len(network["q"].at("b")) == len(network["q"]) == 2
        network.apply(delete={"p": rows})
        assert len(network["q"]) == 0


def test_locations_may_be_records_and_floats() -> None:
    text = """
    .type place = [x: number, y: float]
    .decl e(@a: place, b: place)
    .decl r(@a: place, b: place)
    r(@a, b) :- e(@a, b).
    r(@a, c) :- e(@a, b), r(@b, c).
    """
    here, there, nowhere = (1, 0.5), (2, float("inf")), (2, -1.0)
    with carried_by(adversary(1)), sempre.Network(text, workers=3) as network:
        network.apply(insert={"e": [(here, there), (there, nowhere)]})
        assert set(network["r"].at(here)) == {(here, there), (here, nowhere)}
        assert len(network.nodes) == 3
        network.apply(delete={"e": [(there, nowhere)]})
        assert list(network["r"]) == [(here, there)]


def test_the_programs_own_facts_are_epoch_0() -> None:
    with carried_by(adversary(1)), sempre.Network(REACH + 'link(@"a", "b").', workers=2) as network:
        assert list(network["reach"]) == [("a", "b")]
        assert network.epoch == 0
        network.apply(delete={"link": [("a", "b")]})
        assert (len(network["reach"]), network.epoch) == (0, 1)


# ------------------------------------------------------------------------------------------------ placement


def test_a_partition_cuts_few_links_and_is_balanced() -> None:
    relations = local_program(sempre.Program(REACH).checked).relations
    groups = [[f"{group}-{number}" for number in range(30)] for group in "abc"]
    rng = random.Random(1)
    facts = [("link", (rng.choice(group), rng.choice(group))) for group in groups for _ in range(150)]
    facts += [("link", (groups[0][0], groups[1][0])), ("link", (groups[1][1], groups[2][0]))]
    rng.shuffle(facts)
    graph = link_graph(relations, facts)
    by_links = Placement(3, partition(graph, 3))
    assert cut(graph, by_links) * 3 < cut(graph, Placement(3))
    loads = [sum(1 + sum(graph[node].values()) for node in graph if by_links.task(node) == task) for task in range(3)]
    assert max(loads) < 1.25 * min(loads)
    assert placed("auto", 3, relations, facts).table == by_links.table
    assert (
        placed("hash", 3, relations, facts) == placed("links", 1, relations, [])
        or not placed("hash", 3, relations, facts).table
    )
    assert placement_from(sent_over(Frame(by_links.to_json())).header) == by_links


def test_a_hash_is_the_same_in_every_process() -> None:
    assert [hashed(address, 97) for address in ("a", 12, ("a", (1.5, None)))] == [80, 93, 50]


# ------------------------------------------------------------------------------------------------- frames


def test_numbers_are_noticed_when_they_come_again() -> None:
    seen = Seen()
    assert [seen.admit(number) for number in (2, 1, 2, 1, 4, 3, 4, 5)] == [
        True, True, False, False, True, True, False, True
    ]  # fmt: skip
    assert (seen.prefix, seen.ahead) == (5, set())


def test_changes_are_made_in_order() -> None:
    local = local_program(sempre.Program(REACH).checked)
    host = Host(0, node_maker(local), local.relations, Placement(1))
    insert = Frame({"change": 1, "insert": {"link": [["a", "b"]]}, "delete": {}})
    delete = Frame({"change": 2, "insert": {}, "delete": {"link": [["a", "b"]]}})
    for frame in (delete, insert, delete, insert):
        host.take(DRIVER, frame)
    host.work(100)
    assert not list(host.nodes["a"].facts("link"))
    assert (host.taken, host.done) == (2, 2)


def test_a_detector_is_not_deceived() -> None:
    """Counters that agree by chance, since they were said at different times, are not taken for the end."""
    detector = Detector(2)
    detector.told(0, sent=1, done=1, delivered=1)  # host 0 was done with the change, and sent a frame
    detector.told(1, sent=0, done=1, delivered=1)  # host 1 was done with it, but then sent another one
    assert detector.may_be_settled(1)
    wave = detector.begin_wave()
    assert not detector.is_settled(1)
    detector.answered(0, wave, sent=1)
    detector.answered(0, wave, sent=1)
    assert not detector.is_settled(1)
    detector.answered(1, wave, sent=1)
    assert not detector.is_settled(1)
    detector.told(0, sent=1, done=2, delivered=2)
    detector.told(1, sent=1, done=1, delivered=1)
    assert detector.may_be_settled(1)
    second = detector.begin_wave()
    detector.answered(1, second, sent=1)
    detector.answered(0, wave, sent=1)  # it comes again, and host 0 has sent another frame since it was said
    assert not detector.is_settled(1)
    detector.answered(0, second, sent=1)
    assert detector.is_settled(1)
    assert not detector.is_settled(2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "x"}, "no algorithm is called `x`\nhint: They are auto, proofs, sets, psn, sn."),
        ({"placement": 3}, "no placement is called `3`\nhint: They are auto, hash, links."),
        ({"limit": "many"}, "`limit` is 'many'\nhint: Use a whole number of messages from 1, or leave it out."),
        ({"limit": 0}, "`limit` is 0\nhint: Use a whole number of messages from 1, or leave it out."),
        ({"workers": 1.5}, "`workers` is 1.5\nhint: Use a whole number from 1, or leave it out."),
    ],
)
def test_options_that_there_are_not_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sempre.StateError) as found:
        sempre.Network(".decl e(@k: number)", **options)
    assert str(found.value) == f"error[E600]: {message}"


@pytest.mark.parametrize(
    ("kind", "address"), [("symbol", 7), ("number", "a"), ("number", True), ("float", "1"), ("symbol", object())]
)
def test_addresses_of_another_kind_are_refused(kind: str, address: Any) -> None:
    with sempre.Network(f".decl e(@k: {kind})") as network:
        with pytest.raises(sempre.DataError) as found:
            network["e"].at(address)
        what = f"{address!r} ({type(address).__name__})"
        assert str(found.value) == f"error[E500]: relation `e`: column `k` is {kind}, and {what} is not"
        assert network._coordinator is None  # nothing was started for that
