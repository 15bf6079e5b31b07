"""A process that is killed again and again while it writes a store; run by `test_kill`.

python killing.py STORE SEED FIRST KILLS

This process only forks. One child opens the store and applies epochs until its disk kills it; what it acknowledged, and
where it died, comes back through a pipe. Another child then opens the store and looks: every acknowledged epoch is
there, the one under way is there as a whole or not at all, and the state is what a run from scratch gives.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet

import sempre
import sempre.storage.keeper
import sempre.verify
from sempre.api.stores import check_files, vacuum
from sempre.limits import Limits
from sempre.storage.store import Store
from tests.disks import KillingDisk

# Loaded once, before the first fork: a child that is to be killed must not spend its life on imports.
LOADED = (pyarrow.parquet, sempre.verify, sempre.storage.keeper)
PROGRAM = sempre.Program(
    """
    .decl edge(x: symbol, y: symbol)
    .decl reach(x: symbol, y: symbol)
    .decl alone(x: symbol)
    edge("start", "n0").
    reach(x, y) :- edge(x, y).
    reach(x, z) :- reach(x, y), edge(y, z).
    alone(x) :- edge(x, _), !reach(x, x).
    """
)
Edges = frozenset[tuple[str, str]]
EPOCHS = 2
# So that segments and merges happen all the time.
SMALL_PIECES = Limits(shared_rows=12, merged_pieces=3)


def change(seed: int, epoch: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The insertions and deletions of an epoch; it may have new symbols."""
    rng = random.Random(seed * 1_000_003 + epoch)
    nodes = [f"n{number}" for number in range(6)] + [f"e{epoch}"]
    pick = [(rng.choice(nodes), rng.choice(nodes)) for _ in range(rng.randint(1, 6))]
    gone = [(rng.choice(nodes[:-1]), rng.choice(nodes[:-1])) for _ in range(rng.randint(0, 6))]
    return pick, gone


def edges_after(seed: int, epoch: int) -> Edges:
    edges = {("start", "n0")}
    for number in range(1, epoch + 1):
        insert, delete = change(seed, number)
        edges = (edges - set(delete)) | set(insert)
    return frozenset(edges)


def closure(edges: Edges) -> Edges:
    reach = set(edges)
    while more := {(x, z) for x, y in reach for a, z in edges if a == y} - reach:
        reach |= more
    return frozenset(reach)


def in_child(work: Callable[[int], None]) -> tuple[int, list[str]]:
    """Run `work` with the writing end of a pipe in a child; its status, and the lines it wrote."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = 1
        try:
            work(writing)
            status = 0
        except Exception:  # noqa: BLE001  # it ends here, whatever it is, and must be seen
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().split("\n")[:-1]
    return os.waitpid(child, 0)[1], lines


def write(path: Path, seed: int, last: int, torn: bool, out: int) -> None:
    disk = KillingDisk(last, torn, lambda where: tell(out, f"died {where}"))
    with sempre.Database(PROGRAM, store=Store(path, disk, SMALL_PIECES), modules="off") as db:
        for _ in range(EPOCHS):
            epoch = db.epoch + 1
            insert, delete = change(seed, epoch)
            db.apply(insert={"edge": insert}, delete={"edge": delete})
            tell(out, f"epoch {epoch}")
    vacuum(Store(path, disk, SMALL_PIECES), keep=1 if last % 2 else 2)
    tell(out, "vacuumed")


def look(path: Path, seed: int, acknowledged: int, out: int) -> None:
    store = Store(path)
    if not store.exists:
        assert acknowledged < 0, f"epoch {acknowledged} was acknowledged, and there is no store"
        tell(out, "at -1")
        return
    check_files(path)
    with sempre.Database(PROGRAM, store=path, modules="off", limits=SMALL_PIECES) as db:
        epoch = db.epoch
        assert acknowledged <= epoch <= acknowledged + 1, f"acknowledged {acknowledged}, found {epoch}"
        edges = edges_after(seed, epoch)
        assert set(db["edge"]) == edges, f"epoch {epoch}"
        assert set(db["reach"]) == closure(edges), f"epoch {epoch}"
        found = db.verify()
        assert found.ok, found
    tell(out, f"at {epoch}")


def tell(out: int, text: str) -> None:
    os.write(out, f"{text}\n".encode())


def main(folder: Path, seed: int, first: int, kills: int) -> None:
    acknowledged, killed, last, store = -1, 0, first, 0
    while killed < kills:
        path = folder / f"store{store}"
        status, lines = in_child(partial(write, path, seed, last, (killed + store) % 2 == 1))
        acknowledged = max([acknowledged, *(int(line[6:]) for line in lines if line.startswith("epoch"))])
        print(*(line for line in lines if line.startswith("died")), sep="\n")
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            killed, last = killed + 1, last + 1
        else:
            assert status == 0, f"the writer failed: {status}"
            assert lines[-1] == "vacuumed"
            last, store, acknowledged = 0, store + 1, -1  # past the last step: begin again with a new store
            continue
        status, lines = in_child(partial(look, path, seed, acknowledged))
        assert status == 0, f"after {killed} kills, the last at step {last - 1}: {lines}"
        acknowledged = int(lines[0].split()[1])
    print(f"killed {killed}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:]))
