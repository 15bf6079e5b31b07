"""Says when everything has settled: no host has anything to do, and nothing is on its way.

Every host counts the frames that it sent to other hosts, and those it is done with: see `host`. The driver counts the
frames of changes that it sent. Both kinds of counters only ever grow. Hosts say them when they become idle, and when
they are asked to in a *wave*.

Let D be the sum of what hosts had said they were done with when a wave began, at time t, and S* the sum of what hosts
said in that wave to have sent, and of what the driver has sent by its end. D was said before t, and S* after it. With
D(t) and S(t) for the sums at t itself:

    D  <=  D(t)  <=  S(t)  <=  S*

If D = S*, then D(t) = S(t): at t every frame that had ever been sent was done with, so no host had anything to do, and
nothing was on its way. Nobody begins anything by himself but the driver, and it had not: that would be in S*. So all
was settled at t, and still is. Nothing is assumed about the order in which frames come, and every answer may be late.

Reference: [Mattern87], the four counter method.
Differs: the first two counters are those that hosts said when they became idle, so there is a wave only when these
agree: usually one. A counter of frames done with takes the place of one of frames received, so that a host may take
frames in while it is at work.
"""

from __future__ import annotations


class Detector:
    """The counters of all hosts, as far as they are known."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._sent = [0] * size
        self._done = [0] * size
        self.delivered = [0] * size
        self.wave = 0
        self._answered: dict[int, int] = {}
        self._before = -1  # what all hosts were done with when the wave began
        self._under_way = False

    def told(self, host: int, sent: int, done: int, delivered: int) -> None:
        """A host said its counters; what it said earlier may come later."""
        self._sent[host] = max(self._sent[host], sent)
        self._done[host] = max(self._done[host], done)
        self.delivered[host] = max(self.delivered[host], delivered)

    def may_be_settled(self, changes: int) -> bool:
        """Whether a wave is worth while: as far as is known, all is done. The driver sent so many frames of changes."""
        return not self._under_way and sum(self._done) == sum(self._sent) + changes

    def begin_wave(self) -> int:
        """The number of a wave that begins now."""
        self.wave += 1
        self._answered = {}
        self._before = sum(self._done)
        self._under_way = True
        return self.wave

    def answered(self, host: int, wave: int, sent: int) -> None:
        """A host said in a wave how many frames it has sent."""
        if wave == self.wave:
            self._answered[host] = sent
            self._under_way = len(self._answered) < self._size

    def is_settled(self, changes: int) -> bool:
        """Whether the last wave shows that all was settled when it began."""
        return (
            self.wave > 0
            and not self._under_way
            and len(self._answered) == self._size
            and self._before == sum(self._answered.values()) + changes
        )
