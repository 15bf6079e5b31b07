"""Places with a scheme are never folders of this machine's."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

import sempre
from sempre.cli import main
from sempre.diagnostics import DataError, StateError
from sempre.files.locations import is_url, local_path, path_inside

ELSEWHERE = ("s3://b/x", "s3:/b/x", "dbfs:/mnt/x", "abfss://c@a.dfs.core.windows.net/x", "hdfs:///x", "file://host/x")
HERE = {
    "x": "x",
    "/x/y": "/x/y",
    "file:/x/y": "/x/y",
    "file:///x/y": "/x/y",
    "C:/x": "C:/x",
    "a:b/c": "a:b/c",
    "ab:c.facts": "ab:c.facts",
    "./s3:/b": "s3:/b",
    "x/s3:/b": "x/s3:/b",
}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_places_elsewhere(place: str) -> None:
    assert is_url(place)
    assert local_path(place) is None
    with pytest.raises(DataError, match="E515"):
        path_inside("facts", place)
    with pytest.raises(DataError, match="E515"):
        path_inside(place, "r.facts")
    # A path loses one of its slashes.
    assert local_path(Path(place)) is None or place == "file://host/x"


@pytest.mark.parametrize(("place", "path"), HERE.items())
def test_places_here(place: str, path: str) -> None:
    assert local_path(place) == Path(path)


@pytest.mark.parametrize("place", ["dbfs:/mnt/x", "viewfs:/b/x", "viewfs://b/x"])
def test_nothing_is_made_here_for_a_place_elsewhere(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.dl").write_text(".decl r(x: number)\nr(1).\n.output r\n", "utf-8")
    Path("q.dl").write_text(f'.decl r(x: number)\nr(1).\n.output r(filename="{place}/r.csv")\n', "utf-8")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StateError, match="E608"):
        sempre.Database(".decl r(x: number)\n", store=place)
    with pytest.raises(StateError, match="E608"):
        sempre.Database(".decl r(x: number)\n", store=Path(place))
    with pytest.raises(DataError, match="E515"):
        sempre.Database(".decl r(x: number)\n.input r\n").load(place)
    for arguments in (
        ["run", "p.dl", "-D", place],
        ["run", "p.dl", "-F", place],
        ["run", "q.dl"],
        ["run", "p.dl", "-D", "-", "--changes-out", place],
    ):
        assert main([*arguments, "--on", "local"]) == 1, arguments
        assert "error[E515]" in capsys.readouterr().err, arguments
    assert sorted(tmp_path.iterdir()) == before


def test_scratch_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from sempre.spark.cluster import scratch

    monkeypatch.setattr(scratch, "Jobs", lambda spark: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "open"))
    (tmp_path / "open").mkdir()
    old = os.umask(0o022)
    try:
        for chosen, mode in ((None, 0o700), (tmp_path / "chosen" / "below", 0o755)):
            if chosen is None:
                monkeypatch.delenv(scratch.SCRATCH_VARIABLE, raising=False)
            else:
                monkeypatch.setenv(scratch.SCRATCH_VARIABLE, str(chosen))
            made = scratch.Scratch(None)  # type: ignore[arg-type]  # no job runs here
            with made.folders_for_tasks(["r"]) as paths:
                assert paths["r"].is_dir()
            assert stat.S_IMODE(made.folder.stat().st_mode) == mode
            made.close()
            assert not made.folder.exists()
    finally:
        os.umask(old)
    monkeypatch.setenv(scratch.SCRATCH_VARIABLE, "dbfs:/tmp/x")
    assert not scratch.Scratch(None).is_here, "it is reached through Spark"  # type: ignore[arg-type]


def test_scratch_that_executors_do_not_share(tmp_path: Path) -> None:
    from sempre.diagnostics import BackendError
    from sempre.spark.cluster.shelves import FolderShelf

    shelf = FolderShelf(tmp_path, 0o700, "Share it.")
    with pytest.raises(BackendError, match="E707"):
        shelf.rows_at(shelf.fresh("t0"))
