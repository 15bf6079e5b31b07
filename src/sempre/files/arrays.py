"""NumPy arrays as Arrow arrays and back, by their buffers.

Arrow's own conversions import pandas where it is installed, which takes longer than most queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def to_arrow(values: NDArray[Any], type_: Any) -> Any:
    """An Arrow array over the memory of a NumPy array of 64-bit values."""
    return pa.Array.from_buffers(type_, values.size, [None, pa.py_buffer(np.ascontiguousarray(values))])


def to_numpy(array: Any) -> NDArray[np.int64]:
    """The 64-bit integers of an Arrow array without nulls."""
    if isinstance(array, pa.ChunkedArray):
        parts = [to_numpy(chunk) for chunk in array.chunks]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])
    data = array.buffers()[1]
    return np.frombuffer(data, np.int64, len(array), 8 * array.offset) if len(array) else np.empty(0, np.int64)


def numbers_of(array: Any) -> NDArray[Any]:
    """The integers or floats of an Arrow array without nulls, in the width they have."""
    if isinstance(array, pa.ChunkedArray):
        parts = [numbers_of(chunk) for chunk in array.chunks]
        return np.concatenate(parts) if parts else np.empty(0, _dtype(array.type))
    dtype = _dtype(array.type)
    return (
        np.frombuffer(array.buffers()[1], dtype, len(array), dtype.itemsize * array.offset)
        if len(array)
        else np.empty(0, dtype)
    )


def _dtype(type_: Any) -> np.dtype[Any]:
    """The type of the numbers in the buffer of an Arrow array of integers or floats."""
    return np.dtype(f"f{type_.bit_width // 8}" if pa.types.is_floating(type_) else str(type_))


def bytes_to_arrow(texts: Sequence[bytes], type_: Any) -> Any:
    """An Arrow array of `binary` or `string`, or of the `large_` kind of these."""
    large = type_ in (pa.large_binary(), pa.large_string())
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
    if not large:
        if ends[-1] >= 1 << 31:
            raise pa.ArrowCapacityError("more than 2 GiB of text in one array")
        ends = ends.astype(np.int32)
    return pa.Array.from_buffers(type_, len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))])
