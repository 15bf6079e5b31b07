"""Many texts as bytes side by side: no object of Python for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sempre.data import dataclass

# So many places are looked at together when a text is searched for.
PLACES = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Text `i` is `data[starts[i]:starts[i + 1]]`, in UTF-8. Neither array changes."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]

    @staticmethod
    def of(texts: Sequence[bytes]) -> Pool:
        starts = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=starts[1:])
        return Pool(np.frombuffer(b"".join(texts), np.uint8), starts)

    def __len__(self) -> int:
        return self.starts.size - 1

    def text(self, at: int) -> str:
        return self._bytes(at).decode("utf-8", "surrogatepass")

    def _bytes(self, at: int) -> bytes:
        return self.data[self.starts[at] : self.starts[at + 1]].tobytes()

    def encoded(self) -> list[bytes]:
        """All texts, still as bytes."""
        if not len(self):
            return []
        first, *ends = self.starts.tolist()
        whole = self.data[first : ends[-1]].tobytes()
        found, begin = [], 0
        for end in ends:
            found.append(whole[begin : end - first])
            begin = end - first
        return found

    def texts(self) -> list[str]:
        return [text.decode("utf-8", "surrogatepass") for text in self.encoded()]

    def find(self, text: bytes) -> int | None:
        """The first place of a text, if it is there. A pass over all lengths, and over what has the length."""
        size = len(text)
        places = np.flatnonzero(np.diff(self.starts) == size)
        wanted = np.frombuffer(text, np.uint8)
        for begin in range(0, places.size, PLACES):
            some = places[begin : begin + PLACES]
            # The last bytes first: names differ there.
            for at in range(size - 1, -1, -1):
                if not some.size:
                    break
                if some.size == 1:
                    some = some if self._bytes(int(some[0])) == text else some[:0]
                    break
                some = some[self.data[self.starts[some] + at] == wanted[at]]
            if some.size:
                return int(some[0])
        return None

    def first(self, count: int) -> Pool:
        """The first `count` texts."""
        return self if count >= len(self) else Pool(self.data, self.starts[: count + 1])

    def after(self, count: int) -> Pool:
        """All but the first `count` texts."""
        return self if not count else Pool(self.data, self.starts[count:])

    def joined(self, other: Pool) -> Pool:
        """These texts, and those of the other behind them."""
        mine, its = self.starts, other.starts
        data = np.concatenate([self.data[mine[0] : mine[-1]], other.data[its[0] : its[-1]]])
        return Pool(data, np.concatenate([mine - mine[0], its[1:] - its[0] + (mine[-1] - mine[0])]))


NO_TEXTS = Pool.of([])
