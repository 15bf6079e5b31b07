"""A step that no signal splits."""

import signal
import threading

import pytest

from sempre.unsplit import unsplit


def test_the_step_ends_before_an_interrupt_is_raised() -> None:
    done: list[int] = []

    def step() -> None:
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            done.append(len(done))

    with pytest.raises(KeyboardInterrupt):
        unsplit(step)
    assert len(done) == 1000


def test_an_error_of_the_step_is_raised() -> None:
    def step() -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        unsplit(step)


def test_in_another_thread_it_is_a_call() -> None:
    ran_in: list[threading.Thread] = []
    thread = threading.Thread(target=lambda: unsplit(lambda: ran_in.append(threading.current_thread())))
    thread.start()
    thread.join()
    assert ran_in == [thread]
