"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "sempre",
    deadline=None,  # the first run of an operation may compile it
    derandomize=True,  # `make test` says the same twice; the slow tests go further
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.load_profile("sempre")
