"""Versions of sources, in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DIGITS = 12


def shown_version(version: Mapping[str, Any] | None) -> str:
    """What a store knows of a source, so that its user can tell versions apart."""
    match version:
        case None:
            return "not known"
        case {"snapshot": snapshot}:
            return "empty" if snapshot is None else f"snapshot {snapshot}"
        case {"version": number}:
            return f"version {number}"
        case {"last": last}:
            return "empty" if last is None else f"up to {last}"
        case {"parts": parts}:
            return f"{len(parts):,} files"
        case {"digest": digest}:
            return f"content {digest[:DIGITS]}"
    return "not known"


def shown_sources(raw: Mapping[str, Any]) -> dict[str, list[str]]:
    """The versions that an epoch has of the sources of each relation; `raw` is what its manifest says of them."""
    relations: Mapping[str, Any] = raw.get("relations", {})
    return {
        name: [shown_version(version) + (", then changed by hand" if each["by_hand"] else "") for version in versions]
        for name, each in relations.items()
        if (versions := each["versions"])
    }
