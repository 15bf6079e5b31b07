"""A store as metrics: OpenMetrics text, which Prometheus and its likes read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from sempre.storage.manifest import Manifest
from sempre.storage.store import Store

Labels: TypeAlias = Mapping[str, str]
Samples: TypeAlias = list[tuple[Labels, float]]


def openmetrics(store: Store, manifest: Manifest) -> str:
    """The figures of the last epoch of a store."""
    return "".join(_lines(store, manifest)) + "# EOF\n"


def _lines(store: Store, manifest: Manifest) -> Iterator[str]:
    report, published = manifest.report, store.published()
    written = datetime.fromisoformat(manifest.written).timestamp()
    yield from _one("epochs", "counter", "Epochs since the store was made.", manifest.epoch + 1)
    yield from _one("epochs_kept", "gauge", "Epochs that can be read.", len(store.epochs()))
    yield from _one("store_bytes", "gauge", "Size of the files of the current epoch.", manifest.bytes)
    yield from _one("store_pieces", "gauge", "Stretches of epochs that the state is put together from.",
                    len(manifest.pieces))  # fmt: skip
    yield from _one("symbols", "gauge", "Symbols with a code.", manifest.lists.get("symbols", 0))
    yield from _family("facts", "gauge", "Facts.", _by("relation", manifest.sizes))
    yield from _one("epoch_timestamp_seconds", "gauge", "When the last epoch was committed.", written)
    yield from _one("epoch_seconds", "gauge", "Time the last epoch took to evaluate.", report["seconds"])
    yield from _one("epoch_rounds", "gauge", "Rounds of the last epoch.", report["rounds"])
    yield from _one("epoch_instances", "gauge", "Rule instances the last epoch looked at.", report["instances"])
    ignored = {side: report.get(f"ignored_{side}", 0) for side in ("insertions", "deletions")}
    yield from _family("epoch_ignored", "gauge", "Changes that changed nothing.", _by("change", ignored))
    yield from _family("epoch_added", "gauge", "Facts the last epoch added.", _by("relation", report["added"]))
    yield from _family("epoch_removed", "gauge", "Facts the last epoch removed.", _by("relation", report["removed"]))
    told = {"kind": manifest.kind, "strategy": report["strategy"]}
    yield from _family("epoch", "info", "What made the last epoch.", [(told, 1)])
    yield from _strata(report.get("strata", ()))
    if manifest.batches:
        yield from _family("stream_batch", "gauge", "The last batch of each stream.", _by("stream", manifest.batches))
    if manifest.sources:
        yield from _sources(manifest.sources)
    if published is not None:
        yield from _one("published_epoch", "gauge", "The epoch that the outputs show.", published[0])
        yield from _one("unpublished_epochs", "gauge", "Epochs that the outputs are behind.",
                        max(0, manifest.epoch - published[0]))  # fmt: skip


def _strata(strata: Any) -> Iterator[str]:
    """How each stratum of the last epoch went; those that nothing had changed for are not in it."""
    labels = [
        {"relations": " ".join(each["relations"]), "strategy": each["strategy"], "place": each["placement"]}
        for each in strata
    ]
    for name, about in (("seconds", "Time a stratum took in the last epoch."), ("rounds", "Rounds it took.")):
        found: Samples = [(label, each[name]) for label, each in zip(labels, strata, strict=True)]
        yield from _family(f"stratum_{name}", "gauge", about, found)


def _sources(sources: Mapping[str, Any]) -> Iterator[str]:
    """Which versions of sources the store has: the number where it is one, and whether it is known at all."""
    known: Samples = []
    numbers: Samples = []
    for relation, followed in sources["relations"].items():
        for number, version in enumerate(followed["versions"], 1):  # where a source is may say more than is to be shown
            labels = {"relation": relation, "source": str(number)}
            known.append((labels, int(version is not None and not followed["by_hand"])))
            if version is not None and isinstance(version.get("version"), int):
                numbers.append((labels, version["version"]))
    yield from _family("source_known", "gauge", "Whether the facts are those of a version of the source.", known)
    if numbers:
        yield from _family("source_version", "gauge", "The version of a table that the facts are of.", numbers)


def _by(label: str, values: Mapping[str, float]) -> Samples:
    return [({label: name}, value) for name, value in values.items()]


def _one(name: str, kind: str, about: str, value: float) -> Iterator[str]:
    yield from _family(name, kind, about, [({}, value)])


def _family(name: str, kind: str, about: str, samples: Samples) -> Iterator[str]:
    """A family of metrics: what it is, and its samples."""
    yield f"# TYPE sempre_{name} {kind}\n# HELP sempre_{name} {about}\n"
    suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"sempre_{name}{suffix}{{{shown}}} {value}\n" if shown else f"sempre_{name}{suffix} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
