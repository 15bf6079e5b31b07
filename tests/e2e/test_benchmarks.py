"""Every benchmark program does what it says; tests/spark has the examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sempre.api")

ROOT = Path(__file__).parents[2]


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
