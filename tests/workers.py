"""Databases on workers that are threads of this process: what is tested is all but how they are started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import sempre
from sempre.lang import syntax as s
from sempre.workers import start
from tests.engine import database


class UnusedSession:
    """What goes for a session of Spark's, and is asked for nothing."""

    conf = None

    def createDataFrame(self, *_: object) -> None:  # noqa: N802
        raise AssertionError("no session is needed here")


@contextmanager
def on_workers(count: int, starting: Any = start.threads) -> Iterator[dict[str, Any]]:
    """The options of databases on so many workers, which `starting` starts."""

    def hire(spark: Any, checked: Any, workers: int, driver: Any) -> Any:
        return starting(checked, workers, driver.values, driver.limits)

    with patch("sempre.api.options.hire", hire):
        yield {"place": "workers", "workers": count, "spark": UnusedSession()}


@contextmanager
def database_on_workers(program: s.ParsedProgram, count: int | None, **options: Any) -> Iterator[sempre.Database]:
    """A database on so many workers; None for one in this process alone."""
    strategy = options.pop("strategy", "auto")
    if count is None:
        with database(program, strategy, **options) as db:
            yield db
        return
    with on_workers(count) as more, database(program, strategy, **options, **more) as db:
        yield db
