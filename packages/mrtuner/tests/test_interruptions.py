"""Interruptions at any moment: none is lost, and none tears what must stay whole."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType

import pytest

from mrtuner.change.settings.restart import ended, started
from mrtuner.interruptions import uninterrupted

NOWHERE = "host=/nowhere dbname=none"


def test_an_interruption_is_raised_at_the_end_of_the_block() -> None:
    reached = []

    def interrupted() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_error_of_the_block_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="ours"), uninterrupted():
        raise ValueError("ours")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("effect", [signal.SIG_DFL, signal.SIG_IGN])
def test_signals_without_a_handler_keep_their_effect(effect: signal.Handlers) -> None:
    before = signal.signal(signal.SIGHUP, effect)
    try:
        with uninterrupted():
            assert signal.getsignal(signal.SIGHUP) is effect
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_nothing_is_changed() -> None:
    seen = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_a_restart_command_is_waited_for_whenever_the_interruption_came(
    tmp_path: Path,
) -> None:
    """The interruptions are spread over the moments at which a process starts."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def restart(after: float, command: str) -> None:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGTERM)).start()
        started(NOWHERE, command, 5)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        for number in range(50):
            done = tmp_path / str(number)
            with pytest.raises(KeyboardInterrupt):
                restart(0.001 + number * 8e-5, f"sleep 0.02; touch {done}")
            assert ended(5), number
            at_the_end = done.exists()  # not if the interruption came before the command
            time.sleep(0.04)
            assert done.exists() == at_the_end, number
    finally:
        signal.signal(signal.SIGTERM, before)
