"""How much memory a run may take before it is stopped: ever more facts must not take the machine down."""

from __future__ import annotations

import os
from pathlib import Path

# The part of the machine's memory that a run may use unless the user says otherwise.
RUN_MEMORY_SHARE = 0.75
_STATM = Path("/proc/self/statm")


def default_budget() -> int | None:
    """Bytes, or None where the system does not tell."""
    try:
        return int(RUN_MEMORY_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return None


def resident() -> int:
    """The memory that this process holds now, in bytes; 0 where the system does not tell."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
