"""Columns of text that are numbered while files are read: one dictionary for all of them, in which each text is once.

Nothing in Arrow says that the texts of a dictionary are different. Of those that were made here it is known.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sempre.analysis.model import Kind, Relation
from sempre.kernel.numbering import Numbering
from sempre.kernel.texts import Pool

NO_BYTES = np.empty(0, np.uint8)


class _Starts(np.ndarray[Any, Any]):
    """The array in which a dictionary made here has where its texts begin; Arrow keeps it as long as it needs it."""

    pool: Pool


# By address: as long as the array is there, nothing else is at this place.
_made: WeakValueDictionary[int, _Starts] = WeakValueDictionary()


class NumberedTexts:
    """The texts of some files. Columns of their codes are `closed` when all are read: then the dictionary is there."""

    def __init__(self, numbering: Numbering) -> None:
        self._numbering = numbering
        self._dictionary: Any = None

    @staticmethod
    def ready() -> NumberedTexts | None:
        """None where there are no compiled loops to number with."""
        numbering = Numbering.ready()
        return None if numbering is None else NumberedTexts(numbering)

    def __len__(self) -> int:
        return len(self._numbering)

    def codes(self, texts: Any) -> Any:
        """The codes of an Arrow array of strings without nulls, which is UTF-8."""
        ends, data = _ends(texts), texts.buffers()[2]
        found = self._numbering.codes(NO_BYTES if data is None else np.frombuffer(data, np.uint8), ends)
        return pa.Array.from_buffers(pa.int32(), found.size, [None, pa.py_buffer(found)])

    def back_to(self, count: int) -> None:
        """Take back the codes from `count` on."""
        self._numbering.back_to(count)

    def numbered(self, table: Any, relation: Relation) -> Any:
        """The table with codes where it has symbols as plain strings."""
        for index, kind in enumerate(relation.kinds):
            column, field = table.column(index), table.schema.field(index)
            if kind is Kind.SYMBOL and column.type == pa.string() and not column.null_count and _is_utf8(column):
                codes = pa.chunked_array([self.codes(chunk) for chunk in column.chunks], pa.int32())
                table = table.set_column(index, field.with_type(pa.int32()), codes)
        return table

    def closed(self, table: Any, relation: Relation) -> Any:
        """The table with texts where it has codes of symbols; no other text is numbered after this."""
        for index, kind in enumerate(relation.kinds):
            column = table.column(index)
            if kind is Kind.SYMBOL and column.type == pa.int32():
                texts = self._texts()
                chunks = [pa.DictionaryArray.from_arrays(chunk, texts, safe=False) for chunk in column.chunks]
                made = pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.large_string()))
                field = table.schema.field(index)
                table = table.set_column(index, field.with_type(made.type), made)
        return table

    def _texts(self) -> Any:
        if self._dictionary is None:
            self._dictionary = dictionary_of(self._numbering.pool())
        return self._dictionary


def _is_utf8(texts: Any) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def has_empty(texts: Any) -> bool:
    """Whether one of the strings of an Arrow array is empty."""
    ends = _ends(texts)
    return bool((ends[1:] == ends[:-1]).any())


def _ends(texts: Any) -> NDArray[np.uint32]:
    if not len(texts):
        return np.zeros(1, np.uint32)
    return np.frombuffer(texts.buffers()[1], np.uint32, len(texts) + 1, 4 * texts.offset)


def dictionary_of(pool: Pool) -> Any:
    """A dictionary of the texts of a pool, which are different and UTF-8."""
    starts = np.ascontiguousarray(pool.starts).view(_Starts)
    starts.pool = pool
    _made[starts.ctypes.data] = starts
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(pool.data))]
    return pa.Array.from_buffers(pa.large_string(), len(pool), buffers)


def pool_of(dictionary: Any) -> Pool | None:
    """The pool that a dictionary was made of; None if it was not made here, or is a part of one."""
    buffers = dictionary.buffers()
    starts = _made.get(buffers[1].address) if dictionary.type == pa.large_string() and buffers[1] is not None else None
    if starts is None or dictionary.offset or len(dictionary) != len(starts.pool):
        return None
    return starts.pool
