"""Signals are never lost, and nothing is left half-done."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from sempre.cli import main
from sempre.cli.signals import SignalExit, Terminated


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with SignalExit():
        pass
    with pytest.raises(ZeroDivisionError), SignalExit():
        _ = 1 // 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with SignalExit() as ending:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
        assert ending.code == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_not_concerned() -> None:
    found: list[object] = []

    def work() -> None:
        with SignalExit() as ending:
            found.append(ending.code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0]


def test_a_signal_twice_is_one_request() -> None:
    with SignalExit() as ending:
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # while it tidies up
    assert ending.code == 143


class Swallowing:
    """Is interrupted where Python passes over exceptions."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)


def test_an_interrupt_that_nothing_heeds_is_raised_again() -> None:
    def work() -> None:
        Swallowing()
        gc.collect()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            time.sleep(0.01)

    with SignalExit() as ending, pytest.raises(KeyboardInterrupt):
        work()
    assert ending.code == 130


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_exit_code_and_what_is_left(
    number: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal between any two of the files that are written: none of them is there."""
    monkeypatch.chdir(tmp_path)
    Path("p.dl").write_text(".decl r(x: number)\nr(1).\n.output r\n.decl s(x: number)\ns(1).\n.output s\n", "utf-8")
    from sempre.files import write

    real, seen = write._encode, [0]

    def encode(*arguments: object) -> int:
        seen[0] += 1
        if seen[0] == 2:
            signal.raise_signal(number)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(write, "_encode", encode)
    assert main(["run", "p.dl", "-D", "out", "--on", "local"]) == code
    assert list((tmp_path / "out").iterdir()) == []
    assert capsys.readouterr().err == {130: "interrupted\n", 143: "terminated\n"}[code]


def test_files_are_renamed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.dl").write_text(".decl r(x: number)\nr(1).\n.output r\n.decl s(x: number)\ns(1).\n.output s\n", "utf-8")
    real = Path.replace

    def replace(path: Path, target: Path) -> Path:
        signal.raise_signal(signal.SIGTERM)
        return real(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    assert main(["run", "p.dl", "-D", "out", "--on", "local"]) == 143
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["r.csv", "s.csv"]
