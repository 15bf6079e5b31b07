"""An epoch as Prometheus text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sempre.storage.manifest import Manifest


def prometheus(manifest: Manifest, kept: int) -> str:
    """The figures of the last epoch; `kept` is how many epochs can be read."""
    return "".join(_lines(manifest, kept))


def _lines(manifest: Manifest, kept: int) -> Iterator[str]:
    report = manifest.report
    yield from _metric("epochs_total", "counter", "Epochs since the store was made.", manifest.epoch + 1)
    yield from _metric("epochs_kept", "gauge", "Epochs that can be read.", kept)
    yield from _metric("store_bytes", "gauge", "Size of the files of the current epoch.", manifest.bytes)
    yield from _metric("store_pieces", "gauge", "Stretches of epochs that the state is put together from.",
                       len(manifest.pieces))  # fmt: skip
    yield from _metric("symbols", "gauge", "Symbols with a code.", manifest.lists.get("symbols", 0))
    yield from _per_relation("facts", "gauge", "Facts.", manifest.sizes)
    yield from _metric("epoch_seconds", "gauge", "Time the last epoch took to evaluate.", report["seconds"])
    yield from _metric("epoch_rounds", "gauge", "Rounds of the last epoch.", report["rounds"])
    yield from _metric("epoch_instances", "gauge", "Rule instances the last epoch looked at.", report["instances"])
    yield from _per_relation("epoch_added", "gauge", "Facts the last epoch added.", report["added"])
    yield from _per_relation("epoch_removed", "gauge", "Facts the last epoch removed.", report["removed"])
    if manifest.batches:
        yield from _head("stream_batch", "gauge", "The last batch of each stream.")
        for stream, batch in manifest.batches.items():
            yield f'sempre_stream_batch{{stream="{_escaped(stream)}"}} {batch}\n'


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP sempre_{name} {about}\n# TYPE sempre_{name} {kind}\n"


def _metric(name: str, kind: str, about: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, about)
    yield f"sempre_{name} {value}\n"


def _per_relation(name: str, kind: str, about: str, values: Mapping[str, int]) -> Iterator[str]:
    yield from _head(name, kind, about)
    for relation, value in values.items():
        yield f'sempre_{name}{{relation="{_escaped(relation)}"}} {value}\n'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
