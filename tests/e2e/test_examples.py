"""Every example and every benchmark program does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sempre.api")

ROOT = Path(__file__).parents[2]
ACCESS = ROOT / "examples" / "access"


def facts_of(path: Path) -> set[tuple[str, ...]]:
    return {tuple(line.split("\t")) for line in path.read_text("utf-8").splitlines()}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of `make demo`."""
    folder = tmp_path_factory.mktemp("access")
    command = [sys.executable, str(ACCESS / "demo.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return folder, done.stdout


def may_open(facts: Path) -> set[tuple[str, str]]:
    """The rules of access.dl as loops, for the facts before any change."""
    member, within, grant, holds, blocked = (
        facts_of(facts / f"{name}.facts") for name in ("member", "within", "grant", "holds", "blocked")
    )
    outer = {inner: {o for i, o in within if i == inner} for inner, _ in within}
    folders: dict[str, set[str]] = {}
    for team, folder in grant:
        folders.setdefault(team, set()).add(folder)
    documents: dict[str, set[str]] = {}
    for folder, document in holds:
        documents.setdefault(folder, set()).add(document)
    found = set()
    for person, team in member:
        teams, todo = {team}, [team]
        while todo:
            new = outer.get(todo.pop(), set()) - teams
            teams |= new
            todo += new
        for each in teams:
            for folder in folders.get(each, ()):
                found |= {(person, document) for document in documents[folder]}
    return found - blocked


def test_the_demo_is_right(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    assert facts_of(folder / "changes" / "0" / "may_open.added.csv") == may_open(folder / "facts")


def test_the_demo_shows_its_result(demo: tuple[Path, str]) -> None:
    _, output = demo
    assert "everyone" in output
    assert "the next day" in output
    assert "documents can be opened by nobody" in output


def test_the_changes_of_the_demo_add_up(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    before = facts_of(folder / "changes" / "0" / "may_open.added.csv")
    added = facts_of(folder / "changes" / "1" / "may_open.added.csv")
    removed = facts_of(folder / "changes" / "1" / "may_open.removed.csv")
    assert added
    assert removed
    assert not added & before
    assert removed <= before
    assert facts_of(folder / "out" / "may_open.csv") == (before - removed) | added


@pytest.mark.parametrize("program", sorted(ROOT.glob("benchmarks/programs/*.dl")), ids=lambda path: path.stem)
def test_benchmark_programs_are_correct_programs(program: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "sempre.cli", "check", str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "results"), [("chain", 20_001), ("same_generation", 4_000_000)])
def test_benchmarks_have_the_size_they_claim(name: str, results: int, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "generate.py"), str(tmp_path), name]
    subprocess.run(command, check=True)
    program = ROOT / "benchmarks" / "programs" / f"{name}.dl"
    command = [sys.executable, "-m", "sempre.cli", "run", str(program), "-F", str(tmp_path / name), "-D", str(tmp_path)]
    command += ["--on", "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split("\t")[1]) == pytest.approx(results, rel=0.03)
