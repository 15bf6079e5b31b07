"""Files that are no longer what was written: flipped, cut, lost, exchanged, unreadable."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.storage.store import Store
from tests.faults.world import MODULES, SMALL_PIECES, STRATEGIES, TEXT, World
from tests.refusals import code_of

COPIES = 60
Harm = Callable[[Path, random.Random], None]


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def cut(path: Path, rng: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))])


def lengthen(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randint(1, 40)))


def blank(path: Path, rng: random.Random) -> None:
    """What a disk gives for a block that it has lost."""
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    data[at : at + 512] = bytes(len(data[at : at + 512]))
    data[0] ^= data == path.read_bytes()
    path.write_bytes(data)


def lose(path: Path, _: random.Random) -> None:
    path.unlink()


def exchange(path: Path, rng: random.Random) -> None:
    """The content of another file in the same folder, if there is one that differs."""
    content = path.read_bytes()
    others = [other for other in path.parent.iterdir() if other.is_file() and other.read_bytes() != content]
    if not others:
        flip(path, rng)
        return
    path.write_bytes(rng.choice(others).read_bytes())


def make_folder(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def make_loop(path: Path, _: random.Random) -> None:
    """Cannot be read, whoever asks."""
    path.unlink()
    path.symlink_to(path.name)


HARMS: tuple[Harm, ...] = (flip, flip, flip, cut, lengthen, blank, lose, exchange, make_folder, make_loop)


def damages(folder: Path, rng: random.Random, until: float) -> Counter[str]:
    """Harm a file of a copy of a store, and use the copy: an error that says so, or the right state; nothing else."""
    counts: Counter[str] = Counter()
    number = 0
    while time.monotonic() < until:
        number += 1
        world = World(rng.randrange(1 << 30))
        whole = folder / f"whole{number}"
        epoch = _make(whole, world, rng)
        for copy in range(COPIES):
            if time.monotonic() >= until:
                break
            path = folder / f"copy{number}-{copy}"
            shutil.copytree(whole, path)
            _harm_and_look(path, world, epoch, rng, counts)
            shutil.rmtree(path)
    return counts


def _make(path: Path, world: World, rng: random.Random) -> int:
    with sempre.Database(
        TEXT, store=path, strategy=rng.choice(STRATEGIES), modules=rng.choice(MODULES), limits=SMALL_PIECES
    ) as db:
        epochs = rng.randint(1, 9)
        for epoch in range(1, epochs + 1):
            db.apply(**world.change(epoch).arguments())
    if rng.random() < 0.5:
        vacuum(Store(path, limits=SMALL_PIECES), keep=rng.randint(1, 3))
    return epochs


def _harm_and_look(path: Path, world: World, epoch: int, rng: random.Random, counts: Counter[str]) -> None:
    newest = f"{epoch:010d}.manifest"
    files = sorted(file for file in path.rglob("*") if file.is_file() and file.name != "lock" and file.stat().st_size)
    file, harm = rng.choice(files), rng.choice(HARMS)
    harm(file, rng)
    counts["files harmed"] += 1
    where = f"{harm.__name__} of {file.relative_to(path)}"
    # A past epoch whose manifest is gone is one that was dropped, and a store need not have a HEAD, which only says how
    # far its writer had come. Everything else has to be noticed.
    dropped = harm in (lose, make_loop) and file.parent.name == "epochs" and file.name != newest
    if not dropped and file.name != "HEAD":
        assert _refused(lambda: check_files(path)), f"{where} was not noticed"
        counts["noticed by verify"] += 1
    counts["refused by a reader" if _refused(lambda: _read(path, world, epoch, where)) else "read and right"] += 1
    counts["refused by a writer" if _refused(lambda: _write(path, world, epoch, where)) else "written and right"] += 1


def _read(path: Path, world: World, epoch: int, where: str) -> None:
    with sempre.Database.open(path, limits=SMALL_PIECES) as db:
        world.check(db, epoch, where)


def _write(path: Path, world: World, epoch: int, where: str) -> None:
    with sempre.Database(TEXT, store=path, limits=SMALL_PIECES) as db:
        db.apply(**world.change(epoch + 1).arguments())
        world.check(db, epoch + 1, where)


def _refused(work: Callable[[], None]) -> bool:
    """Whether something ends with an error about the store."""
    code = code_of(work)
    assert code in ("", "E601", "E602", "E604", "E605", "E606", "E607", "E612"), code
    return bool(code)
