"""A host as a process of its own: `python -m sempre.network.host_process [HOST]`; see `sempre.workers.process`."""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from typing import Any

from sempre.network.assembly import local_program, node_maker
from sempre.network.host import DRIVER, Host
from sempre.network.placement import placement_from
from sempre.workers.channel import BEAT_SECONDS, Channel, Heart, Lost, wait
from sempre.workers.codec import from_json
from sempre.workers.framing import Frame, FrameError
from sempre.workers.process import main, meet
from sempre.workers.worker import LEASE_SECONDS

# So many nodes are attended to before a host looks for what has come meanwhile.
NODES_AT_ONCE = 32
# How often a host that is at work says how far it is.
TELL_SECONDS = 0.5


def host_from(hello: Mapping[str, Any]) -> Host:
    """The host that the driver asks for."""
    local = local_program(from_json(hello["program"]), hello["algorithm"])
    make = node_maker(local, hello["algorithm"], int(hello["most"]))
    return Host(int(hello["me"]), make, local.relations, placement_from(hello["placement"]))


def attend(host: Host, driver: Channel, peers: Mapping[int, Channel]) -> None:
    """Carry the frames of a host until the driver has gone."""
    channels = {DRIVER: driver, **peers}
    heart = Heart(channels.values(), f"heart of host {host.me}")
    told = began = time.monotonic()
    try:
        while True:
            wait(channels.values(), 0 if host.busy else BEAT_SECONDS)
            driver.check_silence(began, LEASE_SECONDS)
            for sender, channel in channels.items():
                while (frame := channel.next()) is not None:
                    if frame.header.get("op") == "end":
                        return
                    host.take(sender, frame)
            host.work(NODES_AT_ONCE)
            if host.busy and time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                host.tell()
            for target, frame in host.outgoing():
                channels[target].put(frame)
    except (Lost, FrameError):
        return  # without the driver there is nothing to do; without another host the network is not whole
    except Exception as error:  # noqa: BLE001 - a defect, and the driver should know more than that this is gone
        with contextlib.suppress(Lost):
            place = traceback.extract_tb(error.__traceback__)[-1]
            defect = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
            kind = "deep" if isinstance(error, RecursionError) else "defect"
            driver.put(Frame({"failed": {kind: defect}}))
            wait([driver], BEAT_SECONDS)
    finally:
        heart.stop()
        for channel in channels.values():
            channel.close()


def serve_network(listener: socket.socket, secret: bytes) -> None:
    """Host nodes for whoever knows the secret and calls first."""
    hello, driver, peers = meet(listener, secret)
    # Nodes hold millions of tuples and no cycles: looking for cycles among them takes a third of the time.
    gc.disable()
    attend(host_from(hello), driver, peers)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1", serve_network)
