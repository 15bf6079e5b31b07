"""Real topologies, from where `SEMPRE_DATA` or a `shared/data` folder beside the repository has them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
Links = list[tuple[str, str]]


@cache
def _table() -> dict[str, Links]:
    folders = [Path(folder) for folder in [os.environ.get("SEMPRE_DATA", "")] if folder]
    folders += [parent / "shared" / "data" for parent in ROOT.parents]
    for folder in folders:
        path = folder / "topologies" / "links.tsv"
        if path.exists():
            found: dict[str, Links] = {}
            for line in path.read_text("utf-8").splitlines():
                name, a, b = line.split("\t")
                if a != b:
                    found.setdefault(name, []).append((a, b))
            return found
    return {}


def topology(name: str) -> Links:
    """The undirected links of a topology; skips the test when the data is not there."""
    return topologies()[name]


def topologies() -> dict[str, Links]:
    if not _table():
        pytest.skip("no topologies: set SEMPRE_DATA to a folder with topologies/links.tsv")
    return _table()


def both_ways(links: Links) -> Links:
    return [pair for a, b in dict.fromkeys(links) for pair in ((a, b), (b, a))]


def size(links: Links) -> int:
    return len({node for link in links for node in link})
