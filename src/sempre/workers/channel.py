"""Frames over one socket, both ways at once.

An end that waits to send takes in what comes meanwhile. So two ends that send at the same time never wait for each
other, however much they send.

**Nobody waits for ever.** The frames of a link are numbered, so a frame that is lost or comes twice is noticed with the
next one. A thread of each end sends a *beat* every second, which has the number of the last frame: so the loss of the
last frame of all is noticed, too, and so is an end that has stopped without hanging up, by its silence.

**Who may connect** knows a secret that is never sent. Each end sends a random challenge, and answers the other's with a
keyed hash of both. An end that does not know the secret is turned away before it can send a frame.
"""

from __future__ import annotations

import hmac
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from sempre.workers.framing import PREFIX, Frame, FrameError, decode, encode, lengths, size_of

CHALLENGE = 32
# How long the other end may take to prove that it knows the secret.
GREETING_SECONDS = 20.0
_READ = 1 << 20
# How often an end shows that it is there.
BEAT_SECONDS = 1.0
# After so long a silence an end that is waited for is taken for gone.
SILENT_SECONDS = 15.0
# What a frame that is nothing but a beat says.
_BEAT = "beat"


class Lost(Exception):
    """The other end is gone."""


class Channel:
    """One end of a connection. One thread uses it; another may only `beat`."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.name = name
        self._out: deque[memoryview] = deque()
        self._in = bytearray()
        self._need: tuple[int, int] | None = None
        self._frames: deque[Frame] = deque()
        self.sent = 0
        self._is_lost = False
        self._sending = threading.Lock()
        self._frames_sent = self._frames_taken = 0
        self.heard = time.monotonic()

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def has_output(self) -> bool:
        """Whether something is still to be sent."""
        return bool(self._out)

    @property
    def has_frames(self) -> bool:
        """Whether a frame has come that nobody has taken."""
        return bool(self._frames)

    @property
    def is_lost(self) -> bool:
        """Whether the other end is gone; what came before may still be taken."""
        return self._is_lost

    def put(self, frame: Frame) -> None:
        """Have a frame sent, as far as that can be done without waiting."""
        with self._sending:
            self._line_up(frame)
            self._send()

    def _line_up(self, frame: Frame) -> None:
        self._frames_sent += 1
        self._enqueue(encode(frame, self._frames_sent))

    def _enqueue(self, buffers: list[bytes | memoryview]) -> None:
        self.sent += size_of(buffers)
        self._out.extend(memoryview(buffer) for buffer in buffers)

    def beat(self) -> None:
        """Show that this end is there, and send on what is waiting to be sent."""
        with self._sending:
            if not self._out:
                self._enqueue(encode(Frame({_BEAT: True}), self._frames_sent))
            self._send()

    def push(self) -> None:
        """Send what the other end takes without waiting."""
        with self._sending:
            self._send()

    def _send(self) -> None:
        while self._out:
            try:
                if len(self._out) > 1:
                    done = self._sock.sendmsg([self._out[index] for index in range(min(len(self._out), 16))])
                else:
                    done = self._sock.send(self._out[0])
            except BlockingIOError:
                return
            except OSError as error:
                raise self._gone(error) from None
            while self._out and done >= len(self._out[0]):
                done -= len(self._out.popleft())
            if done:
                self._out[0] = self._out[0][done:]

    def pull(self) -> None:
        """Take in what has come, without waiting."""
        while not self._is_lost:
            try:
                some = self._sock.recv(_READ)
            except BlockingIOError:
                return
            except OSError as error:
                raise self._gone(error) from None
            if not some:
                self._is_lost = True  # what came before the end still counts
                return
            self.heard = time.monotonic()
            self._in += some
            self._take()
            if len(some) < _READ:
                return

    def _take(self) -> None:
        at = 0
        while True:
            if self._need is None:
                if len(self._in) - at < PREFIX.size:
                    break
                self._need = lengths(bytes(self._in[at : at + PREFIX.size]))
                at += PREFIX.size
            header, body = self._need
            if len(self._in) - at < header + body:
                break
            frame, number = decode(bytes(self._in[at : at + header]), bytes(self._in[at + header : at + header + body]))
            at += header + body
            self._need = None
            is_beat = _BEAT in frame.header
            if number != self._frames_taken + (not is_beat):
                raise self._missing(number)
            if not is_beat:
                self._frames_taken = number
                self._frames.append(frame)
        if at:
            del self._in[:at]

    def next(self) -> Frame | None:
        """The next frame that has come."""
        if self._frames:
            return self._frames.popleft()
        if self._is_lost:
            raise Lost(f"{self.name} has gone")
        return None

    def _missing(self, number: int) -> Lost:
        self._is_lost = True
        happened = "came twice" if number <= self._frames_taken else "was lost"
        return Lost(f"a message of {self.name} {happened}")

    def check_silence(self, since: float, seconds: float) -> None:
        """Raises if the other end has said nothing for so long; it is waited for since then."""
        silent = time.monotonic() - max(since, self.heard)
        if silent > seconds and not self._frames:
            self._is_lost = True
            raise Lost(f"{self.name} has said nothing for {silent:.0f} s")

    def _gone(self, error: OSError) -> Lost:
        self._is_lost = True
        return Lost(f"{self.name} has gone: {error.strerror or error}")

    def close(self) -> None:
        self._sock.close()


def wait(channels: Iterable[Channel], seconds: float | None = None) -> None:
    """Wait until some channel has got something, or can send more of what it has to; does both."""
    is_done = False
    poll = select.poll()  # needs no descriptor of its own, and is made anew for less than others take to change
    watched: dict[int, Channel] = {}
    for channel in channels:
        if channel.is_lost:
            continue  # whoever needs it is told when it asks
        if channel.has_output:
            channel.push()  # mostly that is all, and nobody waits to write
            is_done |= not channel.has_output
        watched[channel.fileno()] = channel
        poll.register(channel.fileno(), select.POLLIN | (select.POLLOUT if channel.has_output else 0))
    for file, events in poll.poll(0 if is_done else None if seconds is None else 1000 * seconds):
        if events & select.POLLOUT:
            watched[file].push()
        if events & ~select.POLLOUT:
            watched[file].pull()  # also where the other end has gone: the channel will find out


def take(
    channel: Channel, others: Iterable[Channel] = (), seconds: float | None = None, silence: float | None = None
) -> Frame:
    """The next frame of a channel, within so many seconds, or as long as the other end is not silent for longer than
    `silence`. What others send is taken in meanwhile, and what is to be sent to them goes on.
    """
    began = time.monotonic()
    until = None if seconds is None else began + seconds
    watched = [channel, *(other for other in others if other is not channel)]
    while True:
        found = channel.next()
        if found is not None:
            return found
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise Lost(f"{channel.name} does not answer")
        wait(watched, BEAT_SECONDS if left is None else min(left, BEAT_SECONDS))
        if silence is not None:
            channel.check_silence(began, silence)


class Heart:
    """A thread that beats on channels until it is stopped, or nobody listens any more."""

    def __init__(self, channels: Iterable[Channel], name: str) -> None:
        self._channels = list(channels)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=name, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while self._channels and not self._stopped.wait(BEAT_SECONDS):
            for channel in list(self._channels):
                try:
                    channel.beat()
                except (Lost, OSError):  # whoever uses the channel will notice
                    self._channels.remove(channel)

    def stop(self) -> None:
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)


# ------------------------------------------------------------------------------------------------- greetings


def greet(sock: socket.socket, secret: bytes, mine: str) -> None:
    """Prove to the other end that we know the secret, and have it prove the same. `mine` says which end we are."""
    sock.settimeout(GREETING_SECONDS)
    challenge = os.urandom(CHALLENGE)
    try:
        sock.sendall(challenge)
        theirs = _exactly(sock, CHALLENGE)
        sock.sendall(_answer(secret, theirs, challenge, mine))
        expected = _answer(secret, challenge, theirs, "caller" if mine == "listener" else "listener")
        answer = _exactly(sock, len(expected))
    except OSError as error:
        raise Lost(f"no greeting: {error}") from None
    if theirs == challenge or not hmac.compare_digest(answer, expected):
        raise FrameError("the other end does not know the secret")
    sock.setblocking(False)


def _answer(secret: bytes, theirs: bytes, own: bytes, role: str) -> bytes:
    return hmac.new(secret, theirs + own + role.encode("ascii"), "sha256").digest()


def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        some = sock.recv(size - len(found))
        if not some:
            raise Lost("the other end hung up during the greeting")
        found += some
    return found


def tuned(sock: socket.socket) -> socket.socket:
    """Small frames are sent at once; an end whose machine has gone is noticed."""
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock


def call(address: tuple[str, int], secret: bytes, seconds: float = GREETING_SECONDS) -> socket.socket:
    """A connection to a listener that knows the secret."""
    try:
        sock = tuned(socket.create_connection(address, seconds))
    except OSError as error:
        raise Lost(f"{address[0]}:{address[1]} cannot be reached: {error.strerror or error}") from None
    try:
        greet(sock, secret, "caller")
    except BaseException:
        sock.close()
        raise
    return sock


def answer(listener: socket.socket, secret: bytes, refused: Callable[[], None] = lambda: None) -> socket.socket:
    """The next connection from somebody who knows the secret; others are turned away."""
    while True:
        sock, _ = listener.accept()
        try:
            greet(tuned(sock), secret, "listener")
        except (Lost, FrameError):
            sock.close()
            refused()
            continue
        return sock
