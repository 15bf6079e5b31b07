"""What fixed-width integers can hold, and the error for what they cannot.

Values, keys, row numbers, weights, relations of a walk and slots are 64 bits wide. Whatever is narrower, or packed with
something else, has its bound here, and whoever fills it checks the bound. docs/dev/testing.md lists them all.
"""

from __future__ import annotations

# Keys of one run that a directory of 32-bit positions can point into.
MOST_DIRECTORY_KEYS = (1 << 32) - 1
# Nodes of a graph: two of them share one integer, the first above the second's 32 bits and below the sign.
MOST_NODES = 1 << 31


class CapacityError(ArithmeticError):
    """Something is larger than any number here can say; `hint` is the way around it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def uncountable() -> CapacityError:
    """One fact has more derivations than a counter can hold."""
    return CapacityError(
        "one fact has more derivations than 64 bits can count",
        "Use strategy `recompute` or `dred`, which count none, or let the atoms of a body share variables.",
    )


def check_nodes(nodes: int) -> None:
    """Raise where a graph is too large for its edges to be integers."""
    if nodes > MOST_NODES:
        raise CapacityError(f"a closure over {nodes:,} nodes, and {MOST_NODES:,} is the most", 'Use modules="off".')
