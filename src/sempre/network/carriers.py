"""Hosts as threads of this process, as processes of this machine, or in the tasks of a Spark job."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sempre.network.host_process import attend, host_from
from sempre.workers.channel import BEAT_SECONDS, SILENT_SECONDS, Channel, Heart, Lost, wait
from sempre.workers.framing import Frame, FrameError
from sempre.workers.start import introduced, started_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Hello = dict[str, Any]
MODULE = "sempre.network.host_process"


class ChannelCarrier:
    """Frames to hosts over one channel each."""

    def __init__(self, channels: Sequence[Channel], stop: Callable[[], None] = lambda: None) -> None:
        self.size = len(channels)
        self._channels = list(channels)
        self._stop = stop
        self._heard: deque[tuple[int, Frame]] = deque()
        self._heart = Heart(channels, "heart of the driver")

    def put(self, host: int, frame: Frame) -> None:
        """See `Carrier.put`."""
        self._channels[host].put(frame)

    def next(self) -> tuple[int, Frame]:
        """See `Carrier.next`; raises `Lost` when a host is gone, or has been silent for too long."""
        began = time.monotonic()
        while True:
            try:
                for host, channel in enumerate(self._channels):
                    while (frame := channel.next()) is not None:
                        self._heard.append((host, frame))
            except FrameError as error:
                raise Lost(str(error)) from None
            if self._heard:
                return self._heard.popleft()
            wait(self._channels, BEAT_SECONDS)
            for channel in self._channels:
                channel.check_silence(began, SILENT_SECONDS)

    def close(self) -> None:
        """See `Carrier.close`."""
        self._heart.stop()
        for channel in self._channels:
            try:
                channel.put(Frame({"op": "end"}))
                wait([channel], 0)
            except (Lost, OSError):
                pass
            channel.close()
        self._stop()


def network_threads(hello: Hello, count: int) -> ChannelCarrier:
    """Hosts that are threads of this process, over the same sockets as all others."""
    ends: dict[tuple[int, int], socket.socket] = {}
    for i in range(count):
        for j in range(i):
            ends[i, j], ends[j, i] = socket.socketpair()
    channels, started = [], []
    for i in range(count):
        mine, theirs = socket.socketpair()
        channels.append(Channel(mine, f"host {i}"))
        peers = {j: Channel(ends[i, j], f"host {j}") for j in range(count) if j != i}
        host = host_from({**hello, "me": i})
        started.append(threading.Thread(target=attend, args=(host, Channel(theirs, "the driver"), peers), daemon=True))
    for thread in started:
        thread.start()

    def stop() -> None:
        for thread in started:
            thread.join(5)

    return ChannelCarrier(channels, stop)


def network_processes(hello: Hello, count: int) -> ChannelCarrier:
    """Hosts that are processes of this machine."""
    return ChannelCarrier(*started_here(count, hello, MODULE))


def network_tasks(spark: SparkSession, hello: Hello, count: int | None) -> ChannelCarrier:
    """Hosts in so many tasks of a Spark session."""
    from sempre.spark.hired import started_there

    secret = secrets.token_bytes(32)
    return ChannelCarrier(introduced(started_there(spark, count, secret, MODULE), secret, hello))
