"""Processes that die while they write: killed, terminated or interrupted at any moment.

The process that runs this only forks: what writes, and what looks afterwards, are children.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.cli import main
from sempre.storage.store import Store
from tests.e2e.killing import in_child
from tests.faults.world import MODULES, SMALL_PIECES, STRATEGIES, TEXT, World

EPOCHS = 40
AT_ONCE = 4


def write(path: Path, world: World, choice: int, out: int) -> None:
    """Epoch after epoch until somebody ends it; tells of each when it is announced."""
    rng = random.Random(choice)
    with sempre.Database(
        TEXT, store=path, strategy=rng.choice(STRATEGIES), modules=rng.choice(MODULES), limits=SMALL_PIECES
    ) as db:
        tell(out, db.epoch)
        for _ in range(AT_ONCE):
            epoch = db.epoch + 1
            db.apply(**world.change(epoch).arguments())
            tell(out, epoch)
    vacuum(Store(path, limits=SMALL_PIECES), keep=rng.randint(1, 3))


def command(path: Path, world: World, choice: int, out: int) -> None:
    """The same by the command, which prints a line for each epoch."""
    os.dup2(out, sys.stdout.fileno())
    os.dup2(os.open(path.parent / "stderr", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), sys.stderr.fileno())
    rng = random.Random(choice)
    with sempre.Database.open(path, limits=SMALL_PIECES) as db:
        epoch = db.epoch
    script = path.parent / f"changes{choice}.txt"
    script.write_text("".join(world.change(epoch + 1 + number).script() for number in range(AT_ONCE)))
    status = main(["apply", str(path), str(script)])
    if status == 0 and rng.random() < 0.3:
        status = main(["vacuum", str(path)])
    sys.stdout.flush()
    os._exit(status)


def tell(out: int, epoch: int) -> None:
    os.write(out, f"epoch {epoch}\n".encode())


def look(path: Path, world: World, acknowledged: int, out: int) -> None:
    """What was announced is there, at most one epoch more, and all of it is right."""
    if not Store(path).exists:
        assert acknowledged < 0, f"epoch {acknowledged} was announced, and there is no store"
        tell(out, -1)
        return
    check_files(path)
    with sempre.Database(TEXT, store=path, limits=SMALL_PIECES) as db:
        epoch = db.epoch
        assert acknowledged <= epoch <= acknowledged + 1, f"announced {acknowledged}, found {epoch}"
        world.check(db, epoch, "after a death")
        assert db.verify().ok
    tell(out, epoch)


def deaths(folder: Path, rng: random.Random, until: float, number: signal.Signals, by_command: bool) -> Counter[str]:
    """Let processes die of a signal, again and again; what came of it."""
    counts: Counter[str] = Counter()
    stores = 0
    while time.monotonic() < until:
        stores += 1
        path, world, epoch = folder / f"store{stores}", World(rng.randrange(1 << 30)), -1
        while epoch < EPOCHS and time.monotonic() < until:
            makes = by_command and epoch >= 0
            work = partial(command if makes else write, path, world, rng.randrange(1 << 30))
            status, lines = ended(work, number, rng.random() < 0.8, rng.random() * 0.15)
            told = [int(line.split()[1].rstrip(":")) for line in lines if line.startswith("epoch ")]
            counts["processes"] += 1
            said = (folder / "stderr").read_text() if makes and (folder / "stderr").exists() else ""
            counts[_manner(status, number, said)] += 1
            counts["epochs announced"] += len(told)
            before, announced = epoch, max([epoch, *told])
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0 and makes:
                assert announced == before + AT_ONCE, f"the command ended well after {announced - before} epochs"
            status, lines = in_child(partial(look, path, world, announced))
            assert status == 0, f"after a death at epoch {announced} of {path}"
            epoch = int(lines[0].split()[1])
            counts["found with one more" if epoch > announced else "found as announced"] += 1
    return counts


def _manner(status: int, number: signal.Signals, said: str) -> str:
    """How a process ended, which is for one of the reasons that there are."""
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == number, f"ended by signal {os.WTERMSIG(status)}: {said}"
        return "died of the signal"
    code = os.WEXITSTATUS(status)
    if code == 0:
        return "had ended"
    if number == signal.SIGINT:
        assert code == 130, f"exit code {code}: {said}"
        return "ended by the interrupt"
    assert code == 128 + number, f"exit code {code}: {said}"
    return "ended by the signal"


def ended(work: Callable[[int], None], number: signal.Signals, begun: bool, delay: float) -> tuple[int, list[str]]:
    """Run `work` in a child, and end it by a signal some time after it began, or after it first told of something.

    Returns its status, and the lines it wrote.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            work(writing)
            status = 0
        except KeyboardInterrupt:
            status = 130
        except Exception:  # noqa: BLE001  # it ends here, whatever it is, and must be seen
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        first = pipe.readline() if begun else ""
        time.sleep(delay)
        os.kill(child, number)
        lines = (first + pipe.read()).split("\n")[:-1]
    return os.waitpid(child, 0)[1], lines
