"""Settings that all tests share."""

from __future__ import annotations

import gc
import signal

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
