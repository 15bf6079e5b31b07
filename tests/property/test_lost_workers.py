"""Workers that die, and messages that are lost or come twice, at random moments: no state is wrong, nothing hangs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from typing import Any

import pytest

import sempre
from sempre.workers import channel
from sempre.workers.channel import Channel, Lost
from sempre.workers.crew import WorkersLost
from sempre.workers.framing import Frame
from sempre.workers.worker import Worker
from tests import engine
from tests.budget import seeds
from tests.engine import STRATEGIES, check_epochs
from tests.memories import check_memories
from tests.property.programs import random_case
from tests.workers import on_workers

pytestmark = pytest.mark.oracle
CASES = 3


@pytest.fixture(autouse=True)
def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks at memories asks the backend itself: when workers are lost meanwhile, it looks once more."""
    original = check_memories

    def patient(db: sempre.Database, *others: Any) -> int:
        try:
            return original(db, *others)
        except WorkersLost:
            for name in db:
                list(db[name])  # whoever reads finds other workers
            return original(db, *others)

    monkeypatch.setattr(engine, "check_memories", patient)


@pytest.fixture(autouse=True)
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss of a last message is noticed at the next beat."""
    monkeypatch.setattr(channel, "BEAT_SECONDS", 0.05)


class Trouble:
    """Something that happens once, the nth time that it could."""

    def __init__(self, rng: random.Random, most: int) -> None:
        self.left = rng.randrange(most)
        self.happened = False

    def now(self) -> bool:
        self.left -= 1
        if self.left >= 0 or self.happened:
            return False
        self.happened = True
        return True


def check(strategy: str, seed: int) -> None:
    case = random_case(random.Random(seed))
    began = time.monotonic()
    with on_workers(2 + seed % 2) as options:
        check_epochs(case.program, [(case.facts, {}), *case.updates], strategy, **options)
    assert time.monotonic() - began < 60


def die(monkeypatch: pytest.MonkeyPatch, trouble: Trouble) -> None:
    """A worker is gone in the middle of a command, at some worker or another."""
    original = Worker._try

    def dying(self: Worker, name: str, frame: Any) -> None:
        if trouble.now():
            raise Lost("killed")
        original(self, name, frame)

    monkeypatch.setattr(Worker, "_try", dying)


def die_in_exchange(monkeypatch: pytest.MonkeyPatch, trouble: Trouble) -> None:
    """A worker is gone when others have its rows already, or wait for them."""
    from sempre.workers.mesh import Mesh

    original = Mesh.exchange_all

    def dying(self: Mesh, parcels: Any) -> Any:
        before = trouble.left % 2
        if before and trouble.now():
            raise Lost("killed")
        found = original(self, parcels)
        if not before and trouble.now():
            raise Lost("killed")
        return found

    monkeypatch.setattr(Mesh, "exchange_all", dying)


def lose(monkeypatch: pytest.MonkeyPatch, trouble: Trouble) -> None:
    """A message does not arrive."""
    original = Channel._enqueue

    def losing(self: Channel, buffers: Any) -> None:
        if not trouble.now():
            original(self, buffers)

    monkeypatch.setattr(Channel, "_enqueue", losing)


def double(monkeypatch: pytest.MonkeyPatch, trouble: Trouble) -> None:
    """A message comes twice."""
    original = Channel._enqueue

    def doubling(self: Channel, buffers: Any) -> None:
        original(self, [*buffers, *buffers] if trouble.now() else buffers)

    monkeypatch.setattr(Channel, "_enqueue", doubling)


TROUBLES = {"die": (die, 150), "die_in_exchange": (die_in_exchange, 60), "lose": (lose, 200), "double": (double, 200)}


@pytest.mark.parametrize("kind", sorted(TROUBLES))
@pytest.mark.parametrize("strategy", ["auto", "counting", "bf"])
def test_trouble(kind: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(kind, strategy, range(540_000, 540_000 + CASES), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(TROUBLES))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_much_trouble(kind: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(kind, strategy, seeds(541_000, 15), monkeypatch)


def run(kind: str, strategy: str, tried: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> None:
    plant, most = TROUBLES[kind]
    cases = happened = 0
    for seed in tried:
        cases += 1
        with monkeypatch.context() as patched:
            trouble = Trouble(random.Random(seed), most)
            plant(patched, trouble)
            check(strategy, seed)
            happened += trouble.happened
    assert happened or cases < CASES, "nothing ever went wrong"


def test_beats_do_not_count_as_messages() -> None:
    import socket

    left, right = socket.socketpair()
    ends = [Channel(left, "left"), Channel(right, "right")]
    ends[0].beat()
    ends[0].put(Frame({"a": 1}))
    ends[0].beat()
    assert channel.take(ends[1]).header == {"a": 1}
    with ends[0]._sending:  # a message that somebody took away
        ends[0]._frames_sent += 1
    ends[0].beat()
    with pytest.raises(Lost, match="was lost"):
        channel.take(ends[1], seconds=5)
    for end in ends:
        end.close()
