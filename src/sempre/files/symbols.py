"""Columns of text as codes, all columns of an epoch at a time.

Arrow finds the different texts of all columns in one pass, and what it finds becomes the symbol table. No text becomes
an object of Python on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from sempre.files.arrays import numbers_of
from sempre.files.numbered import pool_of
from sempre.kernel.layout import Column
from sempre.kernel.texts import Pool
from sempre.kernel.values import Symbols

# Fewer texts are numbered one by one: a dictionary of Python does not cost much then, and is there for the next.
MANY = 1 << 16
# And so are texts that are few beside those that have codes already: all of these are looked at again.
SHARE = 4

# Where an array is: its offset and its length, and the addresses of its buffers.
_Place: TypeAlias = "tuple[int, ...]"


def pool_to_arrow(pool: Pool) -> Any:
    """The texts as an Arrow array, over the same memory."""
    starts, data = np.ascontiguousarray(pool.starts), np.ascontiguousarray(pool.data)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(pool), buffers)


def encode_columns(symbols: Symbols, columns: Sequence[Any]) -> list[Column] | None:
    """The codes of all `columns`, chunked arrays of texts or of dictionaries of texts, without nulls.

    None if they are too few to be worth it, or not as they should be: then they are better looked at one by one.
    """
    chunks = [chunk for column in columns for chunk in column.chunks if len(chunk)]
    # Chunks may share a dictionary, which is looked at once.
    texts: dict[_Place, Any] = {}
    for chunk in chunks:
        each = _texts_of(chunk)
        texts.setdefault(_place(each), each)
    total, before = sum(map(len, texts.values())), len(symbols)
    if total < MANY or SHARE * total < before or not symbols.takes_pools:
        return None
    if any(each.null_count for each in (*chunks, *texts.values())):
        return None
    if not _are_known(texts.values()):
        return None
    if len(texts) == 1 and not before and (pool := pool_of(next(iter(texts.values())))) is not None:
        if not symbols.pool(pool, before):
            return None
        return [_column([(chunk, None) for chunk in column.chunks if len(chunk)], len(column)) for column in columns]
    known = pool_to_arrow(symbols.utf8(0, before))
    # The texts that have codes come first, so they keep them. Arrow leaves empty chunks out of what it gives.
    parts = [each for each in (known, *(each.cast(pa.large_string()) for each in texts.values())) if len(each)]
    coded = pa.chunked_array(parts).dictionary_encode().chunks
    assert [len(each) for each in coded] == [len(each) for each in parts], "a chunk was split or joined"
    if not symbols.pool(_pool(coded[0].dictionary), before):
        return None
    filled = (place for place, each in texts.items() if len(each))
    indices = dict(zip(filled, (each.indices for each in coded[1 if before else 0 :]), strict=True))
    return [
        _column([(chunk, indices[_place(_texts_of(chunk))]) for chunk in column.chunks if len(chunk)], len(column))
        for column in columns
    ]


def _texts_of(chunk: Any) -> Any:
    return chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk


def _place(texts: Any) -> _Place:
    """Where an array is in memory: equal for those that are the same."""
    return texts.offset, len(texts), *(0 if buffer is None else buffer.address for buffer in texts.buffers())


def _are_known(texts: Iterable[Any]) -> bool:
    """Whether all texts are UTF-8, or bytes that are not would be in the table."""
    try:
        for each in texts:
            if pool_of(each) is None:
                each.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _pool(texts: Any) -> Pool:
    _, offsets, data = texts.buffers()
    starts = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    return Pool(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), starts)


def _column(parts: Sequence[tuple[Any, Any]], size: int) -> Column:
    """One column of the chunks and the codes of their texts; None where those are the places in their dictionary."""
    codes = np.empty(size, np.int64)
    at = 0
    for chunk, indices in parts:
        if indices is None:
            found = numbers_of(chunk.indices)
        else:
            found = numbers_of(indices)
            if pa.types.is_dictionary(chunk.type):
                found = found.take(numbers_of(chunk.indices))
        codes[at : at + len(chunk)] = found
        at += len(chunk)
    return codes
