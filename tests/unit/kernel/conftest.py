from __future__ import annotations

import pytest

from sempre.kernel import compiled


@pytest.fixture(params=["numpy", "compiled"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test twice: by NumPy alone, and by the compiled loops however few rows there are."""
    if request.param == "numpy":
        monkeypatch.setattr(compiled, "WORTH_ROWS", 1 << 62)
    else:
        compiled.load(wait=True)
        monkeypatch.setattr(compiled, "WORTH_ROWS", 0)
        monkeypatch.setattr("sempre.kernel.run.PROBES_PER_KEY", 0)
    return str(request.param)
