"""Machine code of the loops stands alone, is found again, and is made again where it is damaged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sempre.kernel import object_code
from sempre.kernel.compiled_loops import CompiledLoops
from sempre.kernel.loops import LOOPS

# What a process does that finds the loops: it must not import what takes longer than they save.
CHILD = """
import sys
from sempre.kernel.compiled_loops import CompiledLoops
assert CompiledLoops.kept() is not None
assert "numba" not in sys.modules
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the loops."""
    folder = tmp_path_factory.mktemp("code")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(folder))
        assert object_code.kept() is None
        assert object_code.made().keys() == LOOPS.keys()
    return folder


@pytest.fixture
def file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    (found,) = folder.iterdir()
    return found


def test_what_was_made_is_found_without_the_compiler(file: Path) -> None:
    assert object_code.kept() is not None
    subprocess.run([sys.executable, "-c", CHILD], check=True)


@pytest.mark.parametrize("at", [0, 20, 200, -1])
def test_what_is_damaged_is_not_opened(at: int, file: Path) -> None:
    whole = file.read_bytes()
    damaged = bytearray(whole)
    damaged[at] ^= 1
    try:
        for data in (bytes(damaged), whole[:at], b""):
            file.write_bytes(data)
            assert object_code.kept() is None
    finally:
        file.write_bytes(whole)
    assert object_code.kept() is not None


def test_code_that_calls_others_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocating(size: int) -> int:
        return int(np.empty(size, np.int64).size)

    allocating.__annotations__ = {"size": "int", "return": "int"}
    for name in list(LOOPS):
        monkeypatch.delitem(LOOPS, name)
    monkeypatch.setitem(LOOPS, "allocating", allocating)
    with pytest.raises(RuntimeError, match="cannot stand alone"):
        object_code.made()


def test_loops_read_any_array_and_write_to_no_other(file: Path) -> None:
    loops = CompiledLoops.kept()
    assert loops is not None
    every = np.arange(20)
    assert loops.merge(every[::2], every[1::2].astype(np.int32)).tolist() == every.tolist()
    assert loops.without(every[1::3], every[::4]).tolist() == [n for n in every[1::3].tolist() if n % 4]
    fixed = every.copy()
    fixed.flags.writeable = False
    others: list[Any] = [fixed, every[::2], every.astype(np.int32)]
    for array in others:
        with pytest.raises(AssertionError):
            loops.distinct(array)


def test_a_source_that_may_not_find_room_waits_until_there_is(file: Path) -> None:
    """Every node of a complete graph reaches every other, which is more than the first arrays hold."""
    loops = CompiledLoops.kept()
    assert loops is not None
    nodes = 9
    starts, heads = np.arange(nodes + 1) * nodes, np.tile(np.arange(nodes), nodes)
    rows, found = loops.reach(starts, heads, np.arange(nodes))
    assert sorted(zip(rows.tolist(), found.tolist(), strict=True)) == [
        (i, j) for i in range(nodes) for j in range(nodes)
    ]
