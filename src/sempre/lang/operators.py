"""The operators of terms: their spellings, and how tightly they bind. Shared by the parser and the printer."""

from __future__ import annotations

# From loosest to tightest, as in Soufflé; all but `^` associate to the left.
PRECEDENCE: dict[str, int] = {
    "lor": 1,
    "lxor": 2,
    "land": 3,
    "bor": 4,
    "bxor": 5,
    "band": 6,
    "bshl": 7, "bshr": 7, "bshru": 7,
    "+": 8, "-": 8,
    "*": 9, "/": 9, "%": 9,
    "^": 11,
}  # fmt: skip

UNARY_PRECEDENCE = 10
PRIMARY = 12

# Other spellings of binary operators.
BINARY_SPELLINGS: dict[str, str] = {
    "||": "lor", "^^": "lxor", "&&": "land", "|": "bor", "&": "band", "<<": "bshl", ">>": "bshr", ">>>": "bshru",
    "**": "^",
}  # fmt: skip

# Unary operators as written, and the functor each becomes.
UNARY: dict[str, str] = {"-": "neg", "~": "bnot", "!": "lnot", "bnot": "bnot", "lnot": "lnot"}

# Unary functors, and how the printer writes each.
UNARY_TEXT: dict[str, str] = {"neg": "-", "bnot": "bnot ", "lnot": "lnot "}

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")

AGGREGATES = ("count", "sum", "min", "max", "mean")

HEAD_AGGREGATES = ("count", "sum", "min", "max")


def binary_operator(kind: str, text: str) -> str | None:
    """The canonical binary operator a token stands for, if any."""
    name = BINARY_SPELLINGS.get(text, text)
    if kind == "word" and not name.isalpha():
        return None
    return name if name in PRECEDENCE else None
