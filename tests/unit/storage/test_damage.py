"""A file that is not what it was is found, named, and never used."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.cli import main
from sempre.limits import Limits
from tests.interrupts import interrupted

pytestmark = pytest.mark.folder

PROGRAM = """
.decl edge(x: symbol, y: symbol)
.decl reach(x: symbol, y: symbol)
reach(x, y) :- edge(x, y).
reach(x, z) :- reach(x, y), edge(y, z).
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every kind of file."""
    path = tmp_path_factory.mktemp("stores") / "store"
    with sempre.Database(PROGRAM, store=path, limits=Limits(shared_rows=8)) as db:
        db.apply(insert={"edge": [(f"n{i}", f"n{i + 1}") for i in range(9)]})
        db.apply(insert={"edge": [("n9", "n0")]}, delete={"edge": [("n4", "n5")]})
    assert {file.parent.name for file in path.rglob("*.*")} == {"programs", "log", "segments", "epochs"}
    return path


def files(store: Path) -> list[str]:
    """What the state consists of. `lock` and `HEAD` are not part of it: both may be lost."""
    found = (path for path in store.rglob("*") if path.is_file() and path.name not in ("lock", "HEAD"))
    return sorted(str(path.relative_to(store)) for path in found)


def flip_first(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def flip_middle(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


def flip_last(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 0x80])


def truncate(data: bytes) -> bytes:
    return data[:-1]


def halve(data: bytes) -> bytes:
    return data[: len(data) // 2]


def empty(data: bytes) -> bytes:
    return b""


def extend(data: bytes) -> bytes:
    return data + b"\0"


@pytest.mark.parametrize("harm", [flip_first, flip_middle, flip_last, truncate, halve, empty, extend])
def test_any_file_that_changed_is_named(harm: Callable[[bytes], bytes], whole: Path, tmp_path: Path) -> None:
    for name in files(whole):
        store = tmp_path / name.replace("/", "-")
        shutil.copytree(whole, store)
        path = store / name
        path.write_bytes(harm(path.read_bytes()))
        with pytest.raises(sempre.StateError) as raised:
            check_files(store)
        assert str(path) in str(raised.value)
        assert raised.value.diagnostics[0].code in ("E602", "E605")


def test_a_missing_file_is_named(whole: Path, tmp_path: Path) -> None:
    newest = max(name for name in files(whole) if name.startswith("epochs/"))
    for name in files(whole):
        if name.startswith("epochs/") and name != newest:
            continue  # an epoch without a manifest is one that a vacuum has dropped
        store = tmp_path / name.replace("/", "-")
        shutil.copytree(whole, store)
        (store / name).unlink()
        with pytest.raises(sempre.StateError, match="is missing"):
            check_files(store)


def test_a_store_without_its_only_manifest_is_not_made_anew(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    vacuum(store)
    left = files(store)
    (manifest,) = (store / "epochs").iterdir()
    manifest.unlink()
    for use in (partial(sempre.Database.open, store), partial(sempre.Database, PROGRAM, store=store)):
        with pytest.raises(sempre.StateError, match=r"0000000002\.manifest` is damaged: it is missing"):
            use()
    assert {*left} - {*files(store)} == {"epochs/0000000002.manifest"}, "nothing else was removed"


def test_a_file_that_cannot_be_read_is_named(whole: Path, tmp_path: Path) -> None:
    """A folder in its place: it can be opened, and reading it fails, as it does on a broken disk."""
    for name in files(whole):
        if not name.startswith(("log/", "segments/", "programs/")):
            continue
        store = tmp_path / name.replace("/", "-")
        shutil.copytree(whole, store)
        (store / name).unlink()
        (store / name).mkdir()
        with pytest.raises(sempre.StateError, match="is a directory") as raised, sempre.Database.open(store) as db:
            db.verify()
        assert str(store / name) in str(raised.value)


def test_closing_that_was_interrupted_closes_nothing_twice(whole: Path, tmp_path: Path) -> None:
    """The number of a file that was closed may be that of another by then."""
    closed = 0
    for moment in range(1_000):
        db = sempre.Database.open(whole)
        list(db["reach"])
        sent = interrupted(db.close, moment, ("/sempre/storage/",))
        with (tmp_path / "others").open("w") as another:
            db.close()
            another.write("still open")
        closed += sent.sent
        if not sent.sent:
            break
    assert closed > 3


def test_commands_exit_with_1_and_name_the_file(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("log", "segments", "programs", "epochs"):
        store = tmp_path / kind
        shutil.copytree(whole, store)
        path = max((store / kind).iterdir())
        path.write_bytes(flip_middle(path.read_bytes()))
        assert main(["verify", str(store)]) == 1
        error = capsys.readouterr().err
        assert f"`{path}` is damaged" in error, kind


def test_damage_is_found_by_whoever_reads(whole: Path, tmp_path: Path) -> None:
    """Also without `verify`: a query that needs the file fails."""
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    for path in (store / "segments").glob("*.facts_*"):
        path.write_bytes(flip_middle(path.read_bytes()))
    db = sempre.Database(PROGRAM, store=store)
    with pytest.raises(sempre.StateError, match="its checksum does not match"):
        len(db["reach"])
    with pytest.raises(sempre.StateError, match="its checksum does not match"):
        db.query('reach("n0", X)')
    with pytest.raises(sempre.StateError, match="its checksum does not match"):
        db.apply(insert={"edge": [("x", "y")]})
    db.close()


def test_a_manifest_under_another_number_is_not_taken(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    shutil.copy(store / "epochs/0000000001.manifest", store / "epochs/0000000003.manifest")
    with pytest.raises(sempre.StateError, match="it is the manifest of epoch 1"):
        sempre.Database(PROGRAM, store=store)


def test_a_later_format_is_refused_with_both_versions(whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    (store / "FORMAT").write_text("sempre store 2\n")
    with pytest.raises(sempre.StateError, match="has format 2, and this version of sempre reads format 1"):
        sempre.Database(PROGRAM, store=store)
