"""What `make dist` builds can be installed where there is nothing else, and works there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sempre

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sempre
db = sempre.Database(
    ".decl edge(x: number, y: number) .input edge "
    ".decl reach(x: number, y: number) .output reach "
    "reach(x, y) :- edge(x, y). reach(x, z) :- reach(x, y), edge(y, z)."
)
db.apply(insert={"edge": [(1, 2), (2, 3)]})
print(sempre.__file__)
print(db.apply(delete={"edge": [(1, 2)]}))
print(sorted(db["reach"]))
"""


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command says that finds no module but by its own installation."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources() -> set[str]:
    folder = ROOT / "src"
    return {
        path.relative_to(folder).as_posix()
        for path in (folder / "sempre").rglob("*")
        if path.is_file() and path.suffix in (".py", ".typed", ".css", ".js")
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    return folder


def test_both_have_all_of_the_package_and_its_license(dist: Path) -> None:
    name = f"sempre-{sempre.__version__}"
    with zipfile.ZipFile(dist / f"{name}-py3-none-any.whl") as wheel:
        packed = set(wheel.namelist())
        metadata = wheel.read(f"{name}.dist-info/METADATA").decode()
    assert {entry for entry in packed if entry.startswith("sempre/")} == sources()
    assert f"{name}.dist-info/licenses/LICENSE" in packed
    assert f"\nVersion: {sempre.__version__}\n" in metadata
    with tarfile.open(dist / f"{name}.tar.gz") as archive:
        packed = set(archive.getnames())
    assert {f"{name}/src/{source}" for source in sources()} <= packed
    others = ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "Makefile")
    assert {f"{name}/{file}" for file in others} <= packed


def test_the_changelog_has_the_version() -> None:
    assert f"\n## {sempre.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.slow  # half a minute on a busy machine, most of it making the environment
def test_the_wheel_works_in_an_empty_environment(dist: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    pytest.importorskip("ensurepip", reason="this Python cannot make environments with pip")
    venv.create(home, with_pip=True)
    binaries = home / "bin"
    wheel = next(dist.glob("*.whl"))
    run(binaries / "python", "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps", wheel)
    # Tests have no network, so the dependencies are lent. A folder that a .pth names is looked at, but not its own .pth
    # files, one of which may lead to these sources.
    site = Path(run(binaries / "python", "-c", "import site; print(site.getsitepackages()[0])").strip())
    (site / "lent.pth").write_text(f"{Path(np.__file__).parents[1]}\n")

    assert run(binaries / "sempre", "--version", cwd=tmp_path) == f"sempre {sempre.__version__}\n"
    program = tmp_path / "first.py"
    program.write_text(PROGRAM)
    file, change, rows = run(binaries / "python", program, cwd=tmp_path).splitlines()
    assert Path(file).is_relative_to(site)
    assert change == "<ChangeSet: edge +0 -1, reach +0 -2>"
    assert rows == "[(2, 3)]"
