"""The net changes of stretches of epochs: sets are read from them, and pieces of about one size become one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sempre.data import dataclass
from sempre.kernel import join
from sempre.kernel.layout import EMPTY, fields_covering, packing
from sempre.limits import Limits
from sempre.storage.manifest import Piece, StoredFile
from sempre.storage.parquet_blocks import Block, Content, SegmentFile, Texts, joined, read_log

# Lists: one piece continues the other.
LISTS = ("symbols", "records/")

Load = Callable[[StoredFile], Any]


class PieceReader:
    """The sets of some pieces; `load` gives the content of a file after checking it."""

    def __init__(self, pieces: Sequence[Piece], load: Load) -> None:
        self._pieces = pieces
        self._load = load
        self._logs: dict[str, dict[str, Content]] = {}

    def names(self) -> list[str]:
        """The sets that some piece says something about."""
        return sorted({name for piece in self._pieces for file in piece.files for name in file.holds})

    def contents(self, name: str) -> Iterator[Content]:
        """What each piece has of a set, in order."""
        for piece in self._pieces:
            for file in piece.files:
                if name in file.holds:
                    yield self._content(file, name)

    def blocks(self, name: str) -> Iterator[Block]:
        for content in self.contents(name):
            assert isinstance(content, Block)
            yield content

    def stretches(self, name: str, first: int | None = None) -> Iterator[tuple[int, bool, Iterator[Block]]]:
        """What each piece has of a set: how many rows, whether they have weights, and the rows, a stretch at a time.

        Rows whose first column is not `first`, if that is given, may be left out.
        """
        for piece in self._pieces:
            for file in piece.files:
                if name not in file.holds:
                    continue
                if _is_log(file):
                    content = self._content(file, name)
                    assert isinstance(content, Block)
                    yield len(content), True, iter([content])
                else:
                    segment = SegmentFile(self._load(file))
                    yield segment.size, segment.is_weighted, segment.stretches(first)

    def total(self, name: str) -> Content:
        """The sum of all pieces."""
        return summed(name, list(self.contents(name)))

    def _content(self, file: StoredFile, name: str) -> Content:
        if not _is_log(file):
            return SegmentFile(self._load(file)).content()
        if file.path not in self._logs:
            self._logs[file.path] = read_log(self._load(file))
        return self._logs[file.path][name]


def _is_log(file: StoredFile) -> bool:
    return file.path.startswith("log/")


def summed(name: str, parts: Sequence[Content]) -> Content:
    """Several parts of one set as one: lists are continued, weights added."""
    if len(parts) == 1:
        return parts[0]
    texts = [text for part in parts if isinstance(part, Texts) for text in part.texts]
    if texts:
        return Texts(texts)
    blocks = [part for part in parts if isinstance(part, Block)]
    whole = joined(blocks)
    if name.startswith(LISTS):
        return Block(whole.columns, None, len(whole))
    return sorted_block(whole.columns, whole.numbers(), len(whole))


def sorted_block(columns: Sequence[np.ndarray], weights: np.ndarray, size: int) -> Block:
    """Rows sorted, weights of equal ones added, those that come to zero dropped."""
    layout = packing(fields_covering(columns, (EMPTY,) * len(columns)), tuple(range(len(columns))))
    keys, sums = join.consolidate(layout.pack(columns, size), weights)
    plain = bool((sums == 1).all())
    return Block(layout.columns(keys), None if plain else sums, int(keys.size))


@dataclass(frozen=True, slots=True)
class NewPiece:
    """A piece that is not written yet."""

    first: int
    contents: Mapping[str, Content]

    @property
    def rows(self) -> int:
        return sum(map(len, self.contents.values()))


def pieces_due(rows: Sequence[int], limits: Limits) -> int:
    """How many of the last pieces, given by their numbers of rows, are to become one; 0 if none."""
    levels = [number.bit_length() // limits.level_bits for number in rows]
    for wanted in sorted(set(levels), reverse=True):
        tail = 0
        while tail < len(levels) and levels[-1 - tail] <= wanted:
            tail += 1
        if levels[len(levels) - tail :].count(wanted) >= limits.merged_pieces:
            return tail
    return 0


def merged(pieces: Sequence[Piece], new: Mapping[str, Content], load: Load) -> dict[str, Content]:
    """The sum of some pieces and a new one, set by set."""
    reader = PieceReader(pieces, load)
    names = {*reader.names(), *new}
    totals = {
        name: summed(name, [*reader.contents(name), *([new[name]] if name in new else [])]) for name in sorted(names)
    }
    return {name: total for name, total in totals.items() if len(total)}
