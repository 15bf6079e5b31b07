"""A worker as a process of its own: `python -m sempre.workers.process [HOST]`.

It reads the secret from standard input, prints the address it listens at, waits for the driver and the other workers,
and ends when the driver has gone.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

from sempre.kernel import compiled
from sempre.workers.channel import Channel, Lost, answer, call, take
from sempre.workers.codec import from_json
from sempre.workers.framing import Frame
from sempre.workers.mesh import Mesh
from sempre.workers.worker import Worker

# How long a worker waits for the driver and for the others before it gives up.
LONELY_SECONDS = 120.0


def serve(listener: socket.socket, secret: bytes, kind: type[Worker] = Worker) -> None:
    """Work for whoever knows the secret and calls first, as a worker of some kind."""
    compiled.after_requests()  # what follows single facts is for one process
    hello, driver, peers = meet(listener, secret)
    mesh = Mesh(int(hello["me"]), peers)
    kind(from_json(hello["program"]), mesh, driver, from_json(hello["limits"])).run()


def meet(listener: socket.socket, secret: bytes) -> tuple[dict[str, Any], Channel, dict[int, Channel]]:
    """What the driver says first, and the connections to it and to the other workers."""
    listener.settimeout(LONELY_SECONDS)
    driver = Channel(answer(listener, secret), "the driver")
    hello = take(driver, seconds=LONELY_SECONDS).header
    me, addresses = int(hello["me"]), [(str(host), int(port)) for host, port in hello["addresses"]]
    peers: dict[int, Channel] = {}
    for other in range(me):
        channel = Channel(call(addresses[other], secret), f"worker {other}")
        channel.put(Frame({"me": me}))
        peers[other] = channel
    while len(peers) < len(addresses) - 1:
        channel = Channel(answer(listener, secret), "a worker")
        other = int(take(channel, peers.values(), LONELY_SECONDS).header["me"])
        channel.name = f"worker {other}"
        peers[other] = channel
    listener.close()
    driver.put(Frame({"ready": me}))
    return hello, driver, peers


def main(host: str, serve: Callable[[socket.socket, bytes], None] = serve) -> None:
    """Listen on an address of this machine, say where, and serve."""
    secret = bytes.fromhex(sys.stdin.readline().strip())
    with socket.create_server((host, 0)) as listener:
        print(*listener.getsockname()[:2], flush=True)
        try:
            serve(listener, secret)
        except (Lost, TimeoutError):
            return


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1")
