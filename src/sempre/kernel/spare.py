"""Memory that is free, but not yet given back to the system.

A first run makes and drops many large arrays. What they leave is between arrays that stay, and the allocator keeps it
for the next; so do Arrow and the buckets of joins. Updates need little of it.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from sempre.kernel import gather


def give_back() -> None:
    """Give free memory back to the system, where that is possible; what is needed again costs as much as new memory."""
    gather.forget_idle()
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return  # another C library
