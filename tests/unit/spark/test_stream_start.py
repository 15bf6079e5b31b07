"""A stream that Spark is too impatient to start is started again; other errors are the user's to see."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sempre.spark.streams import STARTS, started


class Writer:
    def __init__(self, *errors: str) -> None:
        self.errors = list(errors)

    def start(self) -> str:
        if self.errors:
            raise RuntimeError(self.errors.pop(0))
        return "query"


SLOW = "org.apache.spark.SparkException: Python worker failed to connect back."


def start(*errors: str) -> tuple[Any, Writer]:
    writer = Writer(*errors)
    return cast("Any", started)(writer), writer


def test_a_slow_process_gets_another_try() -> None:
    assert start(*[SLOW] * (STARTS - 1))[0] == "query"


def test_a_process_that_never_comes_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="failed to connect back"):
        start(*[SLOW] * STARTS)


def test_other_errors_are_raised_at_once() -> None:
    writer = Writer("no such table", SLOW)
    with pytest.raises(RuntimeError, match="no such table"):
        cast("Any", started)(writer)
    assert writer.errors == [SLOW]
