"""The page of `--profile`: what it says is what the report has, and it needs nothing but itself."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sempre import Database, Program
from sempre.cli import main
from sempre.explain.profile_page import MOST_BARS, MOST_SHOWN, profile_page

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.input edge
.decl reach(x: symbol, y: symbol)
.decl early(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
early(x, y) :- reach(x, y), x < y, x != "<b>&".
.output early
"""
VOID = {"meta", "br", "rect", "polyline", "link", "img"}


class Page(HTMLParser):
    """The tags of a page, which have to be closed in order, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.dl").write_text(PROGRAM)
    (tmp_path / "edge.facts").write_text("".join(f"{x}\t{x + 1}\n" for x in range(10, 19)) + "19\t10\n")
    (tmp_path / "c.txt").write_text('+edge("19", "20").\ncommit.\n-edge("10", "11").\ncommit.\n')
    return tmp_path


def test_a_run_writes_a_page_of_its_strata_rules_and_rounds(folder: Path) -> None:
    arguments = ["run", "p.dl", "--on", "local", "--changes", "c.txt", "--modules", "off"]
    assert main([*arguments, "--profile", "x.html", "--report", "r.json"]) == 0
    page = Page((folder / "x.html").read_text("utf-8"))
    report = json.loads((folder / "r.json").read_text("utf-8"))
    assert len(report["epochs"]) == 3
    for wanted in (
        "p.dl",
        "3 epochs",
        "Epoch 2",
        'early(x, y) :- reach(x, y), x < y, x != "<b>&".',
        "p.dl:8:1",
        "+100 −0",
    ):
        assert wanted in page.text
    for tag, attributes in page.tags:  # all it refers to is in it
        assert tag not in ("script", "link", "img")
        assert all(value and value.startswith("#") for name, value in attributes.items() if name in ("href", "src"))
    anchors = {attributes.get("id") for _, attributes in page.tags}
    assert {attributes["href"] for tag, attributes in page.tags if tag == "a"} == {f"#epoch-{n}" for n in range(3)}
    assert {f"epoch-{n}" for n in range(3)} <= anchors


def test_what_is_measured_of_rules_adds_up(folder: Path) -> None:
    program = Program(PROGRAM)
    rows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    with Database(program, profile=True, modules="off", strategy="dred", threads=1) as database:
        changes = database.apply(insert={"edge": rows})
        report = changes.report
        strata = {tuple(stratum["relations"]): stratum for stratum in report.strata}
        rules = [rule for stratum in report.strata for rule in stratum["profile"]["rules"]]
        assert [rule["rule"] for rule in strata["reach",]["profile"]["rules"]] == [
            "reach(x, y) :- edge(x, y).",
            "reach(x, z) :- reach(x, y), edge(y, z).",
        ]
        assert sum(rule["instances"] for rule in rules) == report.instances > 0
        found = strata["reach",]["profile"]["found"]
        assert len(found) == strata["reach",]["rounds"]
        assert [seconds for _, seconds in found] == sorted(seconds for _, seconds in found)
        assert "reach(x, z)" in Page(report.to_html("abc")).text
    with Database(program) as database:  # what nobody asked for is not measured, and not in the report
        report = database.apply(insert={"edge": rows}).report
        assert not any("profile" in stratum for stratum in report.strata)
        assert "Rules that took longest" not in Page(report.to_html()).text


def test_a_store_tells_of_its_epochs_by_their_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "s", "p.dl", "--profile", "0.html", "--report", "0.json"]) == 0
    assert main(["apply", "s", "c.txt", "--profile", "1.html", "--report", "1.json"]) == 0
    assert "Epoch 0" in Page((folder / "0.html").read_text("utf-8")).text
    text = Page((folder / "1.html").read_text("utf-8")).text
    assert "Epoch 1" in text
    assert "Epoch 2" in text
    assert [epoch["epoch"] for epoch in json.loads((folder / "1.json").read_text())["epochs"]] == [1, 2]
    assert main(["refresh", "s", "-F", ".", "--overwrite", "--report", "2.json"]) == 0
    assert [epoch["epoch"] for epoch in json.loads((folder / "2.json").read_text())["epochs"]] == [3]
    assert main(["refresh", "s", "--report", "3.json", "--profile", "3.html"]) == 0
    assert json.loads((folder / "3.json").read_text()) == {"epochs": [], "session_seconds": 0.0, "published": False}
    assert "0 epochs" in Page((folder / "3.html").read_text("utf-8")).text


def _report(seconds: float, found: list[list[float]]) -> dict[str, Any]:
    stratum = {"relations": ["p"], "strategy": "ranked", "rounds": len(found), "seconds": seconds, "added": 1}
    stratum |= {"removed": 0, "placement": "driver", "why": "", "modules": [], "profile": {"rules": [], "found": found}}
    told = {"seconds": seconds, "strategy": "auto", "placement": "driver", "rounds": 1, "instances": 1, "why": ""}
    return told | {"added": {"p": 1}, "removed": {"p": 0}, "strata": [stratum]}


def test_long_runs_have_short_pages() -> None:
    rounds = [[float(n), n / 10] for n in range(10_000)]
    page = profile_page("p", [_report(1 + n, rounds) for n in range(1000)])
    sections = [attributes["id"] for tag, attributes in Page(page).tags if tag == "section"]
    assert sections == [f"epoch-{n}" for n in range(1000 - MOST_SHOWN, 1000)]
    drawn = Page(profile_page("p", [_report(1, rounds)]))
    assert sum(tag == "rect" for tag, _ in drawn.tags) <= MOST_BARS
    assert "10,000 rounds" in drawn.text
    assert len(page) < 2_000_000


def test_a_folder_that_is_not_there_costs_no_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["run", "p.dl"], ["init", "s", "p.dl"], ["apply", "s", "c.txt"], ["refresh", "s"]):
        assert main([*command, "--profile", "no/x.html"]) == 2
        assert capsys.readouterr().err == "error: --profile: there is no folder `no`\n"
