"""Settings that all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A shell that runs the tests in the background ignores Ctrl-C for them, and for all that they start. Tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "sempre",
    deadline=None,  # the first run of an operation may compile it
    derandomize=True,  # `make test` says the same twice; the slow tests go further
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("sempre")


def pytest_collection_finish() -> None:
    """Thousands of tests are there to stay: looking at them again and again for garbage takes a seventh of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is about a folder is left out where there is none."""
    if os.environ.get("SEMPRE_TEST_STORES"):
        out = [item for item in items if item.get_closest_marker("folder")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="session", autouse=True)
def stores_elsewhere() -> Iterator[None]:
    """With SEMPRE_TEST_STORES, stores are behind URLs."""
    if not os.environ.get("SEMPRE_TEST_STORES"):
        yield
        return
    from tests.elsewhere import elsewhere

    with elsewhere():
        yield
