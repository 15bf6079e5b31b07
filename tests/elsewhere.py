"""Stores of the tests in another place: what opens one in a folder opens one behind a URL.

SEMPRE_TEST_STORES=s3 puts them on a server that speaks S3, `memory` into a file system in memory. Tests that look into
the folder of a store, give it a disk of their own or rest on its lock are marked `folder`, and left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sempre.storage.disk import Disk
from sempre.storage.store import Store
from tests.s3_server import BUCKET, ENVIRONMENT, S3Server

SYSTEM = os.environ.get("SEMPRE_TEST_STORES", "")


def url_of(path: Path) -> str:
    """Where the store of a folder is."""
    return f"{SYSTEM}://{BUCKET}{path.absolute()}"


@contextmanager
def elsewhere() -> Iterator[None]:
    """Open every store of a folder behind its URL."""
    assert SYSTEM in ("s3", "memory"), SYSTEM
    begin = Store.__init__

    def moved(self: Store, place: object, disk: Disk | None = None, *args: Any, **options: Any) -> None:
        is_ours = disk is None and isinstance(place, str | Path) and "://" not in str(place)
        begin(self, url_of(Path(place)) if is_ours else place, disk, *args, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "__init__", moved)
        if SYSTEM == "memory":
            yield
            return
        server = S3Server()
        try:
            for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.url}.items():
                patch.setenv(name, value)
            yield
        finally:
            server.close()
