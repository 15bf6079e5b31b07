"""Frames, channels and the exchange between workers, on sockets that behave badly."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sempre.workers.channel import Channel, Lost, answer, call, greet, take, wait
from sempre.workers.framing import MAGIC, PREFIX, Column, Frame, FrameError, decode, encode, lengths
from sempre.workers.mesh import Aborted, Mesh
from sempre.workers.placing import owners, split

INT64 = np.iinfo(np.int64)
SPANS = [(0, 0), (5, 260), (-7, 65_528), (-(1 << 31), 1 << 31), (INT64.min, INT64.max)]
_open: list[socket.socket] = []


@pytest.fixture(autouse=True)
def hang_up() -> Iterator[None]:
    yield
    while _open:
        _open.pop().close()


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets, closed when the test is over."""
    ends = socket.socketpair()
    _open.extend(ends)
    return ends


def whole(frame: Frame) -> bytes:
    return b"".join(bytes(buffer) for buffer in encode(frame, 7))


def read(data: bytes) -> Frame:
    header, body = lengths(data[: PREFIX.size])
    start = PREFIX.size + header
    assert len(data) == start + body
    found, number = decode(data[PREFIX.size : start], data[start:])
    assert number == 7
    return found


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000])
@pytest.mark.parametrize(("low", "high"), SPANS)
def test_columns_come_as_they_went(size: int, low: int, high: int) -> None:
    rng = random.Random(size)
    column = np.array([rng.randint(low, high) for _ in range(size)], np.int64)
    frame = read(whole(Frame({"text": "ä\ud800", "n": [1, None]}, [column, column[:0]])))
    assert frame.header == {"text": "ä\ud800", "n": [1, None]}
    assert [found.tolist() for found in frame.columns] == [column.tolist(), []]


def test_small_values_take_few_bytes() -> None:
    small, large = (len(whole(Frame({}, [np.arange(1000) + offset]))) for offset in (1 << 40, 0))
    assert small < large + 40 < 2200


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"GET " + data[4:],
        lambda data: PREFIX.pack(MAGIC, 1 << 31, 0) + data[PREFIX.size :],
        lambda data: PREFIX.pack(MAGIC, 4, 1 << 40) + data[PREFIX.size :],
    ],
)
def test_what_is_no_frame_is_refused_before_anything_is_allocated(harm: Any) -> None:
    with pytest.raises(FrameError):
        lengths(harm(whole(Frame({"a": 1})))[: PREFIX.size])


@pytest.mark.parametrize(
    "header",
    [
        b"{}",
        b"[1]",
        b"{",
        b'{"h":{},"c":[[0,8,9]],"s":1}',
        b'{"h":{},"c":[[0,3,1]],"s":1}',
        b'{"h":0,"c":[[0,8,-1]],"s":1}',
    ],
)
def test_a_header_that_lies_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError):
        decode(header, b"12345678")


class Crumbs:
    """A socket that takes and gives a few bytes at a time, at moments of its own choosing."""

    def __init__(self, sock: socket.socket, seed: int) -> None:
        self._sock = sock
        self._rng = random.Random(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def _some(self) -> int:
        if self._rng.random() < 0.2:
            raise BlockingIOError
        return self._rng.choice((1, 3, 17, 1 << 12, 1 << 16))

    def send(self, data: Any) -> int:
        return self._sock.send(data[: self._some()])

    def sendmsg(self, buffers: Any) -> int:
        return self._sock.send(bytes(buffers[0])[: self._some()])

    def recv(self, size: int) -> bytes:
        return self._sock.recv(min(size, self._some()))


def meshes(count: int, seed: int | None = None) -> tuple[list[Mesh], list[dict[int, Channel]]]:
    ends: dict[tuple[int, int], Any] = {}
    for i in range(count):
        for j in range(i):
            ends[i, j], ends[j, i] = pair()
    if seed is not None:
        ends = {key: Crumbs(sock, seed + 31 * key[0] + key[1]) for key, sock in ends.items()}
    peers = [{j: Channel(ends[i, j], f"worker {j}") for j in range(count) if j != i} for i in range(count)]
    return [Mesh(i, peers[i]) for i in range(count)], peers


def together(actions: list[Any]) -> list[Any]:
    found: list[Any] = [None] * len(actions)

    def run(index: int) -> None:
        try:
            found[index] = actions[index]()
        except Exception as error:  # noqa: BLE001 - compared by the test
            found[index] = error

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "they wait for each other"
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_every_row_arrives_once_at_its_owner(count: int, seed: int | None) -> None:
    """Also when all send a lot at once, and the sockets take it in crumbs."""
    all_meshes, _ = meshes(count, seed)
    rows = 3_000 if seed is not None else 400_000  # more than all buffers between them hold

    def work(mesh: Mesh) -> list[Column]:
        came = []
        rng = np.random.default_rng(mesh.me)
        for number in range(1, 4):
            mesh.begin(number)
            values = rng.integers(INT64.min, INT64.max, rows)
            gathered = mesh.exchange(split([values, values + 1], owners(values, count), count), more=mesh.me == number)
            assert gathered.rows == rows * count
            assert gathered.more == (number < count)
            came += [np.concatenate(column) for column in zip(*gathered.parts, strict=True)]
        return came

    found = together([lambda mesh=mesh: work(mesh) for mesh in all_meshes])
    sent = [np.random.default_rng(me) for me in range(count)]
    for number in range(3):
        values = np.sort(np.concatenate([rng.integers(INT64.min, INT64.max, rows) for rng in sent]))
        first = [came[2 * number] for came in found]
        assert np.array_equal(np.sort(np.concatenate(first)), values)
        assert all((owners(part, count) == me).all() for me, part in enumerate(first))
        assert all(np.array_equal(part + 1, came[2 * number + 1]) for part, came in zip(first, found, strict=True))


def test_who_fails_stops_the_others_and_all_begin_anew() -> None:
    all_meshes, _ = meshes(3)
    nothing: list[list[Column]] = [[], [], []]

    def fail() -> str:
        mesh = all_meshes[0]
        mesh.begin(1)
        mesh.abort()
        mesh.begin(5)
        mesh.begin_anew(4)
        mesh.exchange(nothing)
        return "failed"

    def work(mesh: Mesh) -> str:
        mesh.begin(1)
        if mesh.me == 1:  # this one notices at a later command
            mesh.begin(2)
        with pytest.raises(Aborted):
            mesh.exchange(nothing)
        mesh.begin_anew(4)
        mesh.begin(5)
        mesh.exchange(nothing)
        return "stopped"

    assert together([fail, lambda: work(all_meshes[1]), lambda: work(all_meshes[2])]) == [
        "failed",
        "stopped",
        "stopped",
    ]


def test_a_worker_that_goes_is_noticed() -> None:
    all_meshes, peers = meshes(2)
    for channel in peers[1].values():
        channel.close()
    with pytest.raises(Lost):
        all_meshes[0].exchange([[], []])


def test_frames_before_the_end_still_count() -> None:
    left, right = pair()
    sender, receiver = Channel(left, "sender"), Channel(right, "receiver")
    sender.put(Frame({"a": 1}))
    sender.close()
    assert take(receiver).header == {"a": 1}
    with pytest.raises(Lost):
        take(receiver)


def test_a_time_limit_is_kept() -> None:
    left, right = pair()
    began = time.monotonic()
    with pytest.raises(Lost, match="does not answer"):
        take(Channel(left, "somebody"), seconds=0.1)
    assert time.monotonic() - began < 5
    right.close()


def test_two_that_send_at_once_do_not_wait_for_each_other() -> None:
    left, right = pair()
    ends = [Channel(left, "right"), Channel(right, "left")]
    large = np.arange(3_000_000)

    def work(channel: Channel) -> int:
        channel.put(Frame({}, [large * 977]))
        frame = take(channel)
        while channel.has_output:
            wait([channel])
        return int(frame.columns[0].size)

    assert together([lambda end=end: work(end) for end in ends]) == [large.size, large.size]


# ----------------------------------------------------------------------------------------------------- greetings


def test_only_those_who_know_the_secret_get_in() -> None:
    refused: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()[:2]

        def callers() -> list[str]:
            said = []
            for secret in (b"wrong", b"", b"right"):
                try:
                    call(address, secret).close()
                    said.append("in")
                except (Lost, FrameError):
                    said.append("out")
            return said

        def listen() -> str:
            answer(listener, b"right", lambda: refused.append(1)).close()
            return "served"

        assert together([callers, listen]) == [["out", "out", "in"], "served"]
    assert len(refused) == 2


def test_an_answer_cannot_be_sent_back_as_ones_own() -> None:
    """Whoever repeats what it hears proves nothing."""
    left, right = pair()

    def parrot() -> None:
        right.settimeout(5)
        with contextlib.suppress(OSError):  # the other end hangs up
            while some := right.recv(4096):
                right.sendall(some)

    threading.Thread(target=parrot, daemon=True).start()
    with pytest.raises((FrameError, Lost)):
        greet(left, b"secret", "listener")
    left.close()
