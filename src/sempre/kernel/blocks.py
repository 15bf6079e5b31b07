"""A sorted set that is cheap to change a little: keys in blocks, shared between versions.

A `Trace` is made for lookups and keeps removed rows until it is worth rewriting; whoever asks for the *next* key would
have to step over them. Here a change copies the blocks it touches and the list of blocks, so that the next key is
always the next one, and old versions stay as they were.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sempre.kernel import join
from sempre.kernel.join import Mask
from sempre.kernel.layout import Keys

BLOCK_KEYS = 1024
# A change of more than one key in this many is made on one array.
REBUILD_SHARE = 16
# With more probes than this, one array is searched instead of a block for each.
MANY_PROBES = 256


class Blocks:
    """Sorted distinct keys; immutable. Blocks are never empty and hold up to twice `BLOCK_KEYS` keys."""

    __slots__ = ("_blocks", "_firsts", "size")

    def __init__(self, blocks: list[Keys], firsts: Keys, size: int) -> None:
        self._blocks = blocks
        self._firsts = firsts
        self.size = size

    @staticmethod
    def of(keys: Keys) -> Blocks:
        """A set of sorted distinct keys."""
        return Blocks(_cut(keys), keys[::BLOCK_KEYS].copy(), keys.size)

    def __len__(self) -> int:
        return self.size

    def flat(self) -> Keys:
        """All keys, sorted."""
        return np.concatenate(self._blocks) if self._blocks else self._firsts

    def changed(self, plus: Keys, minus: Keys) -> Blocks:
        """The set with `plus`, none of which it has, and without `minus`, all of which it has; both are sorted."""
        if (plus.size + minus.size) * REBUILD_SHARE > self.size:
            left = self.flat()
            if minus.size:
                left = np.delete(left, left.searchsorted(minus))
            return Blocks.of(join.merge(left, plus) if plus.size else left)
        blocks, firsts = list(self._blocks), self._firsts.copy()
        # From the last block on, so that the numbers of those to come stay what they are.
        for home, coming, going in reversed(self._touched(plus, minus)):
            keys = blocks[home]
            if going.size:
                keys = np.delete(keys, keys.searchsorted(going))
            if coming.size:
                keys = np.insert(keys, keys.searchsorted(coming), coming)
            if 0 < keys.size <= 2 * BLOCK_KEYS:
                blocks[home], firsts[home] = keys, keys[0]
            else:
                blocks[home : home + 1] = _cut(keys)
                firsts = np.concatenate((firsts[:home], keys[::BLOCK_KEYS], firsts[home + 1 :]))
        return Blocks(blocks, firsts, self.size + plus.size - minus.size)

    def _touched(self, plus: Keys, minus: Keys) -> list[tuple[int, Keys, Keys]]:
        """The blocks that a change touches, each with its part of it."""
        homes = [np.maximum(self._firsts.searchsorted(keys, side="right") - 1, 0) for keys in (plus, minus)]
        found = []
        for home in np.unique(np.concatenate(homes)).tolist():
            parts = []
            for keys, at in zip((plus, minus), homes, strict=True):
                begin, end = at.searchsorted((home, home + 1))
                parts.append(keys[begin:end])
            found.append((home, parts[0], parts[1]))
        return found

    def before(self, probes: Keys) -> tuple[Mask, Keys]:
        """The greatest key below each probe, where there is one."""
        if probes.size > MANY_PROBES or not self.size:
            flat = self.flat()
            at = flat.searchsorted(probes) - 1
            return at >= 0, _taken(flat, at, probes)
        found, keys = np.zeros(probes.size, np.bool_), probes.copy()
        for index, home in enumerate((self._firsts.searchsorted(probes) - 1).tolist()):
            if home >= 0:
                block = self._blocks[home]
                found[index], keys[index] = True, block[block.searchsorted(probes[index]) - 1]
        return found, keys

    def after(self, probes: Keys, inclusive: bool = False) -> tuple[Mask, Keys]:
        """The least key above each probe, or, `inclusive`, not below it, where there is one."""
        side: Literal["left", "right"] = "left" if inclusive else "right"
        if probes.size > MANY_PROBES or not self.size:
            flat = self.flat()
            at = flat.searchsorted(probes, side=side)
            return at < flat.size, _taken(flat, at, probes)
        found, keys = np.zeros(probes.size, np.bool_), probes.copy()
        for index, home in enumerate((self._firsts.searchsorted(probes, side=side) - 1).tolist()):
            place = int(self._blocks[home].searchsorted(probes[index], side=side)) if home >= 0 else 0
            if home < 0 or place == self._blocks[home].size:
                home, place = home + 1, 0
            if home < len(self._blocks):
                found[index], keys[index] = True, self._blocks[home][place]
        return found, keys


def _cut(keys: Keys) -> list[Keys]:
    return [keys[begin : begin + BLOCK_KEYS] for begin in range(0, keys.size, BLOCK_KEYS)]


def _taken(flat: Keys, at: join.Rows, probes: Keys) -> Keys:
    """The keys at these places; the probe itself where a place does not exist."""
    inside = (at >= 0) & (at < flat.size)
    keys = probes.copy()
    keys[inside] = flat[at[inside]]
    return keys
