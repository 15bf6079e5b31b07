"""Regular expressions, in time that is linear in the text whatever the pattern: patterns may come from data.

The engine is RE2, which PyArrow brings along.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def is_elsewhere(pattern: str) -> bool:
    """Whether other engines take the pattern: it looks around, or refers to what it matched before."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


class BadPattern(Exception):
    """A pattern that is no regular expression; the message says why."""


def full_matches(pattern: str, texts: Sequence[str]) -> NDArray[np.bool_]:
    """Which of `texts` the pattern matches as a whole; `.` matches every character, a line end too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # By itself first: in the group below, `a)(b` would be a pattern, too.
        pc.match_substring_regex(pa.array([""]), pattern)
        found = pc.match_substring_regex(pa.array(texts, pa.large_string()), rf"(?s)\A(?:{pattern})\z")
    except pa.ArrowInvalid as error:
        raise BadPattern(str(error).removeprefix("Invalid regular expression: ")) from None
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
