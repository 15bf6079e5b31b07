"""Random programs run on the compiled loops from the first case on: a test alone finds what it finds among others."""

from __future__ import annotations

import pytest

from sempre.kernel import compiled


@pytest.fixture(scope="session", autouse=True)
def loops() -> None:
    """They are loaded in the background otherwise, and a short test ends before they are there."""
    compiled.load(wait=True)
