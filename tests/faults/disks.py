"""Disks that fill up, at any write and in the middle of one."""

from __future__ import annotations

import errno
import os
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path, PurePath

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.storage.disk import Disk
from sempre.storage.store import Store
from tests.disks import FullDisk
from tests.faults.world import MODULES, SMALL_PIECES, STRATEGIES, TEXT, World
from tests.refusals import code_of

EPOCHS = 40


class ShortDisk(Disk):
    """Has room for so many bytes: the write that meets the end is cut there."""

    def __init__(self) -> None:
        self.room = 1 << 60

    def write_some(self, handle: int, path: PurePath, data: memoryview) -> int:
        self.step("write", path)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written = os.write(handle, data[: self.room])
        self.room -= written
        return written


def full_disks(folder: Path, rng: random.Random, until: float) -> Counter[str]:
    """Epochs and vacuums on disks that have room for some of it."""
    counts: Counter[str] = Counter()
    stores = 0
    while time.monotonic() < until:
        stores += 1
        _one_store(folder / f"store{stores}", rng, until, counts)
    return counts


def _one_store(path: Path, rng: random.Random, until: float, counts: Counter[str]) -> None:
    world, epoch = World(rng.randrange(1 << 30)), 0
    disk, db = _opened(path, rng)
    assert db.epoch == 0
    while epoch < EPOCHS and time.monotonic() < until:
        _fill(disk, rng)
        counts["full disks"] += 1
        refused = code_of(partial(db.apply, **world.change(epoch + 1).arguments()))
        assert refused in ("", "E606"), refused
        dead = isinstance(disk, FullDisk) and disk.dead
        _clear(disk)
        counts["epochs refused" if refused else "epochs kept"] += 1
        epoch += not refused
        if not (refused and dead):  # a disk that cannot even remove: only opening again says what is there
            world.check(db, epoch, "in memory")
            with sempre.Database.open(path, limits=SMALL_PIECES) as fresh:
                world.check(fresh, epoch, "on the disk")
        if (refused and dead) or rng.random() < 0.1:
            db.close()
            _vacuum(path, rng, counts)
            disk, db = _opened(path, rng)
            assert epoch <= db.epoch <= epoch + bool(refused and dead)
            epoch = db.epoch
            world.check(db, epoch, "opened again")
    db.close()
    check_files(path)


def _vacuum(path: Path, rng: random.Random, counts: Counter[str]) -> None:
    disk = rng.choice((FullDisk(1 << 60), ShortDisk()))
    _fill(disk, rng)
    counts["full disks"] += 1
    refused = code_of(partial(vacuum, Store(path, disk, SMALL_PIECES), keep=rng.randint(1, 3)))
    assert refused in ("", "E606"), refused
    counts["vacuums refused" if refused else "vacuums done"] += 1


def _opened(path: Path, rng: random.Random) -> tuple[FullDisk | ShortDisk, sempre.Database]:
    disk: FullDisk | ShortDisk = rng.choice((FullDisk(1 << 60, dead=rng.random() < 0.3), ShortDisk()))
    strategy, modules = rng.choice(STRATEGIES), rng.choice(MODULES)
    return disk, sempre.Database(
        TEXT, store=Store(path, disk, SMALL_PIECES), strategy=strategy, modules=modules, limits=SMALL_PIECES
    )


def _fill(disk: FullDisk | ShortDisk, rng: random.Random) -> None:
    if isinstance(disk, FullDisk):
        disk.room = disk.steps + rng.randrange(16)
    else:
        disk.room = rng.randrange(20_000)


def _clear(disk: FullDisk | ShortDisk) -> None:
    disk.room = 1 << 60
