"""Metrics of stores: text that parsers of OpenMetrics take, with what the last epoch did; and lines of logs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sempre
from sempre.cli import main

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
.output reach
"""
# https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md
NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
LABEL = rf'{NAME}="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (-?[0-9.e+-]+)")
SUFFIXES = {"counter": "_total", "info": "_info", "gauge": ""}

Samples = dict[tuple[str, str], float]


def parsed(text: str) -> Samples:
    """The samples, by name and labels; what the format does not allow fails."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    found: Samples = {}
    kinds: dict[str, str] = {}
    family = ""
    for line in lines[:-2]:
        words = line.split(" ", 3)
        if words[:2] == ["#", "TYPE"]:
            _, _, family, kind = words
            assert family not in kinds, "families are not interleaved"
            kinds[family] = kind
        elif words[:2] == ["#", "HELP"]:
            assert words[2] == family
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] == family + SUFFIXES[kinds[family]]
            assert (sample[1], sample[2] or "") not in found
            found[sample[1], sample[2] or ""] = float(sample[3])
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "edge.facts").write_text("a\tb\nb\tc\n")
    yield tmp_path
    package = logging.getLogger("sempre")
    package.handlers.clear()
    package.setLevel(logging.NOTSET)


def metrics(capsys: pytest.CaptureFixture[str]) -> Samples:
    capsys.readouterr()
    assert main(["history", "s", "--metrics"]) == 0
    return parsed(capsys.readouterr().out)


def test_a_store_that_follows_sources(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "s", "p.dl"]) == 0
    found = metrics(capsys)
    assert found["sempre_facts", 'relation="reach"'] == 3
    assert found["sempre_epochs_total", ""] == 1
    assert found["sempre_source_known", 'relation="edge",source="1"'] == 1
    assert ("sempre_published_epoch", "") not in found
    (folder / "edge.facts").write_text("a\tb\nb\td\n")
    assert main(["refresh", "s", "-D", "out"]) == 0
    found = metrics(capsys)
    assert found["sempre_epoch_info", 'kind="refresh",strategy="auto"'] == 1
    assert found["sempre_epoch_added", 'relation="reach"'] == found["sempre_epoch_removed", 'relation="reach"'] == 2
    assert found["sempre_published_epoch", ""] == 1
    assert found["sempre_unpublished_epochs", ""] == 0
    assert found["sempre_epoch_timestamp_seconds", ""] > 1.7e9
    strata = {labels for name, labels in found if name == "sempre_stratum_seconds"}
    assert any(labels.startswith('relations="reach",strategy=') for labels in strata)
    assert all(labels.endswith('place="driver"') for labels in strata)
    with sempre.Database.open("s") as db:
        db.apply(insert={"edge": [("q", "r")]})
    found = metrics(capsys)
    assert found["sempre_unpublished_epochs", ""] == 1
    assert found["sempre_source_known", 'relation="edge",source="1"'] == 0


def test_names_are_escaped(folder: Path) -> None:
    with sempre.Database(".decl edge(x: symbol)", store="s") as db:
        db.apply(insert={"edge": [("a",)]}, delete={"edge": [("b",)]})
        assert db._keeper is not None
        object.__setattr__(db._keeper.manifest, "batches", {'a"b\\c\nd': 7})
        found = parsed(db.metrics())
        assert found["sempre_stream_batch", r'stream="a\"b\\c\nd"'] == 7
        assert found["sempre_epoch_ignored", 'change="deletions"'] == 1


def test_stores_of_before_have_no_strata(folder: Path) -> None:
    with sempre.Database(".decl edge(x: symbol)", store="s") as db:
        db.apply(insert={"edge": [("a",)]})
        assert db._keeper is not None
        assert db._keeper.manifest is not None
        report = {name: value for name, value in db._keeper.manifest.report.items() if name != "strata"}
        object.__setattr__(db._keeper.manifest, "report", report)
        assert not [name for name, _ in parsed(db.metrics()) if name.startswith("sempre_stratum")]


def test_an_epoch_is_one_line_with_fields(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "sempre.epochs"), sempre.Database(PROGRAM) as db:
        changes = db.apply(insert={"edge": [("a", "b")]})
    (first, second) = [record for record in caplog.records if record.name == "sempre.epochs"]
    assert vars(first)["epoch"] == 0
    fields = vars(second)
    assert (fields["epoch"], fields["added"], fields["removed"]) == (1, 2, 0)
    assert fields["seconds"] == changes.report.seconds
    assert fields["placement"] == "driver"
    assert second.getMessage().startswith("epoch 1: +2 -0 facts in ")


def test_lines_of_commands(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def logged() -> list[dict[str, object]]:
        return [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    monkeypatch.setenv("SEMPRE_LOG", "json")
    assert main(["init", "s", "p.dl", "-D", "out"]) == 0
    lines = logged()
    assert [line["logger"] for line in lines] == ["sempre.storage.keeper", "sempre.epochs", "sempre.publish"]
    assert (lines[1]["added"], lines[1]["level"], lines[2]["epoch"]) == (5, "info", 0)
    assert main(["refresh", "s"]) == 0
    assert ("sempre.refresh", "nothing new") in [(line["logger"], line.get("read")) for line in logged()]
    monkeypatch.setenv("SEMPRE_LOG", "text")
    assert main(["refresh", "s"]) == 0
    assert "INFO sempre.refresh: edge: nothing new\n" in capsys.readouterr().err
    monkeypatch.setenv("SEMPRE_LOG", "loud")
    assert main(["refresh", "s"]) == 2
    assert capsys.readouterr().err == "error: SEMPRE_LOG is `loud`\nhint: use text or json\n"
