"""Ctrl-C at any moment: another process sends SIGINT while this one applies, asks, closes, opens and vacuums."""

from __future__ import annotations

import os
import random
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.storage.store import Store
from tests.faults.world import MODULES, SMALL_PIECES, STRATEGIES, TEXT, World

# How long to wait for a signal that was sent; if none comes, somebody swallowed it.
PATIENCE = 5.0
EPOCHS = 60


class Sender:
    """A process that sends SIGINT to this one, so many seconds after it was asked to; once per request."""

    def __init__(self) -> None:
        reading, self._requests = os.pipe()
        target = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.close(self._requests)
            while request := os.read(reading, 8):
                time.sleep(struct.unpack("d", request)[0])
                os.kill(target, signal.SIGINT)
            os._exit(0)
        os.close(reading)
        # What is raised in a finalizer, the interpreter prints and forgets.
        self.lost = False
        sys.unraisablehook = self._note

    def _note(self, what: sys.UnraisableHookArgs) -> None:
        self.lost = self.lost or isinstance(what.exc_value, KeyboardInterrupt)
        if not self.lost:
            sys.__unraisablehook__(what)

    def during(self, work: Callable[[], Any], delay: float) -> tuple[bool, Any]:
        """Do something while the signal comes; whether it came to its end, and what it gave or raised."""
        done, found, self.lost = False, None, False
        try:
            os.write(self._requests, struct.pack("d", delay))
            try:
                found = work()
                done = True
            except sempre.SempreError as error:
                found = error
            except SystemError as error:
                # Compiled functions of Numba give an interrupt on as the cause of an error of the interpreter.
                self.lost = _began_with_interrupt(error)
                if not self.lost:
                    raise
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until and not self.lost:
                time.sleep(0.002)
        except KeyboardInterrupt:
            return done, found
        if self.lost:
            return done, found
        raise AssertionError(f"a signal was swallowed; {done=} {found!r}")

    def end(self) -> None:
        os.close(self._requests)
        os.waitpid(self._pid, 0)


def _began_with_interrupt(error: BaseException | None) -> bool:
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or _began_with_interrupt(error.__cause__ or error.__context__)
    )


class Interrupts:
    """One store after the other, each with a random strategy; every epoch and everything else under a signal."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.folder = folder
        self.rng = rng
        self.counts: Counter[str] = Counter()
        self.sender = Sender()
        self._stores = 0
        # How late a signal may come: longer when too few came too late, so that every part of the work has its share.
        self._latest: dict[str, float] = {}

    def run(self, until: float, most: int = 1 << 60) -> Counter[str]:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        try:
            while time.monotonic() < until and self.counts["interrupts"] < most:
                self._stores += 1
                self._one_store(self.folder / f"store{self._stores}", until, most)
        finally:
            self.sender.end()
        return self.counts

    def _open(self, path: Path) -> sempre.Database:
        strategy, modules = self.rng.choice(STRATEGIES), self.rng.choice(MODULES)
        return sempre.Database(TEXT, store=path, strategy=strategy, modules=modules, limits=SMALL_PIECES)

    def _one_store(self, path: Path, until: float, most: int) -> None:
        world = World(self.rng.randrange(1 << 30))
        db, epoch = self._open(path), 0
        assert db.epoch == 0
        while epoch < EPOCHS and time.monotonic() < until and self.counts["interrupts"] < most:
            roll = self.rng.random()
            if roll < 0.8:
                epoch = self._epoch(db, world, epoch)
            elif roll < 0.88:
                self._ask(db, world, epoch)
            else:
                db = self._reopened(db, path, vacuumed=roll > 0.95)
            world.check(db, epoch, "in memory")
            with sempre.Database.open(path, limits=SMALL_PIECES) as fresh:
                world.check(fresh, epoch, "on the disk")
                if self.rng.random() < 0.05:
                    assert fresh.verify().ok
                    assert db.verify().ok
            self.counts["compared"] += 1
        db.close()
        check_files(path)

    def _during(self, what: str, work: Callable[[], Any]) -> tuple[bool, Any]:
        latest = self._latest.setdefault(what, 0.02)
        done, found = self.sender.during(work, self.rng.random() * latest)
        if isinstance(found, sempre.SempreError):
            raise AssertionError(f"an interrupt became {found!r}") from found
        self.counts["interrupts"] += 1
        self.counts["not raised as such"] += self.sender.lost
        self.counts[f"{what} {'had ended' if done else 'interrupted'}"] += 1
        self._latest[what] = latest * (0.85 if done else 1.05)
        return done, found

    def _epoch(self, db: sempre.Database, world: World, epoch: int) -> int:
        change = world.change(epoch + 1).arguments()
        done, _ = self._during("apply", lambda: db.apply(**change))
        now = db.epoch
        assert now == epoch + 1 if done else now in (epoch, epoch + 1), f"epoch {now} after {epoch}"
        self.counts["found after" if now > epoch else "found before"] += 1
        return now

    def _ask(self, db: sempre.Database, world: World, epoch: int) -> None:
        change = world.change(epoch + 1).arguments()
        work = self.rng.choice((db.verify, lambda: db.whatif(**change), lambda: db.query('reach("n0", X)')))
        self._during("question", work)

    def _reopened(self, db: sempre.Database, path: Path, vacuumed: bool) -> sempre.Database:
        self._during("close", db.close)
        db.close()
        if vacuumed:
            self._during("vacuum", lambda: vacuum(Store(path, limits=SMALL_PIECES), keep=self.rng.randint(1, 3)))
        done, found = self._during("open", lambda: self._open(path))
        return found if done else self._open(path)
