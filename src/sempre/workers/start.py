"""Workers as threads of this process, for tests, or as processes of this machine."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from sempre.analysis.model import CheckedProgram
from sempre.diagnostics import BackendError
from sempre.kernel.values import Values
from sempre.limits import Limits
from sempre.workers.channel import Channel, Lost, call, take
from sempre.workers.codec import to_json
from sempre.workers.crew import Crew
from sempre.workers.framing import Frame
from sempre.workers.mesh import Mesh
from sempre.workers.worker import Worker

# How long a worker may take to start and to be ready.
READY_SECONDS = 120.0
# What a process runs.
WORKER = "sempre.workers.process"


def threads(program: CheckedProgram, count: int, values: Values, limits: Limits, kind: type[Worker] = Worker) -> Crew:
    """Workers that are threads of this process, over the same sockets as all others."""
    ends: dict[tuple[int, int], socket.socket] = {}
    for i in range(count):
        for j in range(i):
            ends[i, j], ends[j, i] = socket.socketpair()
    channels = []
    started: list[threading.Thread] = []
    for i in range(count):
        mine, theirs = socket.socketpair()
        channels.append(Channel(mine, f"worker {i}"))
        peers = {j: Channel(ends[i, j], f"worker {j}") for j in range(count) if j != i}
        driver = Channel(theirs, "the driver")

        def work(me: int = i, peers: dict[int, Channel] = peers, driver: Channel = driver) -> None:
            try:
                kind(program, Mesh(me, peers), driver, limits).run()
            finally:
                for channel in (driver, *peers.values()):
                    channel.close()

        started.append(threading.Thread(target=work, name=f"worker {i}", daemon=True))
    for thread in started:
        thread.start()

    def stop() -> None:
        for thread in started:
            thread.join(5)

    return Crew(channels, values, program.sources, stop)


def connected(
    program: CheckedProgram, addresses: Sequence[tuple[str, int]], secret: bytes, values: Values, limits: Limits
) -> Crew:
    """The crew of workers that listen at these addresses: they get the program, and connect to each other."""
    hello = {"program": to_json(program), "limits": to_json(limits)}
    return Crew(introduced(addresses, secret, hello), values, program.sources, lambda: None)


def introduced(addresses: Sequence[tuple[str, int]], secret: bytes, hello: dict[str, Any]) -> list[Channel]:
    """Channels to workers that listen at these addresses; they have heard `hello`, and are connected to each other."""
    channels: list[Channel] = []
    try:
        for index, address in enumerate(addresses):
            channels.append(Channel(call(address, secret), f"worker {index} at {address[0]}:{address[1]}"))
        for index, channel in enumerate(channels):
            channel.put(Frame({"me": index, "addresses": [list(each) for each in addresses], **hello}))
        for channel in channels:
            take(channel, channels, READY_SECONDS)
    except Lost as error:
        for channel in channels:
            channel.close()
        raise BackendError(f"the workers cannot be reached: {error}") from None
    return channels


def launched(
    secret: bytes, host: str = "127.0.0.1", module: str = WORKER
) -> tuple[subprocess.Popen[bytes], tuple[str, int]]:
    """A process that is ready to work for whoever knows the secret, and where it listens.

    It is a session of its own and has none of our files open, so that it outlives whoever started it: it ends when the
    driver hangs up, or does not call in time.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", module, host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin, process.stdout:
            process.stdin.write(secret.hex().encode("ascii") + b"\n")
            process.stdin.flush()
            line = process.stdout.readline().split()
        if len(line) != 2:
            raise BackendError("a worker did not start", hint="Can the tasks of this session start processes?")
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process, (line[0].decode("ascii"), int(line[1]))


def processes(program: CheckedProgram, count: int, values: Values, limits: Limits, module: str = WORKER) -> Crew:
    """Workers that are processes of this machine."""
    hello = {"program": to_json(program), "limits": to_json(limits)}
    channels, stop = started_here(count, hello, module)
    return Crew(channels, values, program.sources, stop)


def started_here(count: int, hello: dict[str, Any], module: str = WORKER) -> tuple[list[Channel], Callable[[], None]]:
    """Channels to processes of this machine that have heard `hello`, and how to wait for their end."""
    secret = secrets.token_bytes(32)
    started: list[subprocess.Popen[bytes]] = []
    addresses = []
    try:
        for _ in range(count):
            process, address = launched(secret, module=module)
            started.append(process)
            addresses.append(address)
        channels = introduced(addresses, secret, hello)
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        raise

    def stop() -> None:
        for process in started:
            try:
                process.wait(2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    return channels, stop
