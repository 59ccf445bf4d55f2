"""Workers that start together, are timed, and keep burning CPU until the last is done."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Final

from mrtuner.cpu.model import Mode, Worker
from mrtuner.errors import MrTunerError

_PROGRAM: Final = Path(__file__).with_name("burn.py")
#: Between the order and the start [s]: time for every worker to read it and get ready.
_NOTICE: Final = 0.05
#: A worker that takes this many times its expected time counts as stuck.
_PATIENCE: Final = 20
#: The calibration ends with a run of at least this length [s].
_LONG_ENOUGH: Final = 0.1


class Crew:
    """A group of running workers."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process ids of the workers, without those that feed their pipes."""
        return tuple(process.pid for process in self._processes)

    def run(self, pieces: int, count: int, *, expected: float) -> tuple[Worker, ...]:
        """Let all workers do `pieces` pieces of `count` steps at the same time; return the times.

        Then they burn CPU until the next order. Raises MrTunerError if one dies, or takes so much
        longer than `expected` [s] that it counts as stuck.
        """
        from mrtuner.documents import convert

        start = time.monotonic() + _NOTICE
        for process in self._processes:
            _tell(process, f"{start} {pieces} {count}\n")
        answers = self._answers(start + 10 + _PATIENCE * expected)
        return tuple(
            convert(json.loads(answers[process.pid]), Worker) for process in self._processes
        )

    def ready(self) -> None:
        """Wait until every worker has started and done a first step."""
        self._answers(time.monotonic() + 30 + len(self._processes))

    def _answers(self, deadline: float) -> dict[int, str]:
        told: dict[int, str] = {}
        with DefaultSelector() as selector:
            for process in self._processes:
                selector.register(_stream(process.stdout), EVENT_READ, process)
            while len(told) < len(self._processes):
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise MrTunerError("a worker does not respond", "Is the machine swapping?")
                for key, _ in ready:
                    told[key.data.pid] = _line(key.data)
                    selector.unregister(key.fileobj)
        return told


@contextmanager
def crew(mode: Mode, count: int, cpus: Sequence[int] = ()) -> Iterator[Crew]:
    """Yield `count` workers, pinned if `cpus` has one CPU for each; they are ended afterwards."""
    pins: list[str | None] = [str(cpu) for cpu in cpus] or [None] * count
    with ExitStack() as stack:
        workers = Crew([stack.enter_context(_started(mode, pin)) for pin in pins])
        workers.ready()
        yield workers


@contextmanager
def _started(mode: Mode, pin: str | None) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-S", str(_PROGRAM), mode.value, *([pin] if pin else [])]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, bufsize=1, process_group=0,  # Ctrl-C is for us: we end the workers
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def steps_per_second(mode: Mode) -> float:
    """Return how many steps one worker alone does per second; the fastest of three tries."""
    with crew(mode, 1) as alone:
        return fastest(partial(_timed, alone), 1)


def fastest(timed: Callable[[int], float], count: int) -> float:
    """Return the most steps per second of three tries; `timed` returns the time of a count [s].

    If `count` steps are too short to be timed, the tries use more.
    """
    while (took := timed(count)) < _LONG_ENOUGH:
        count = max(2 * count, int(count * min(100, 1.2 * _LONG_ENOUGH / max(took, 1e-6))))
    return max(count / each for each in (took, timed(count), timed(count)))


def _timed(alone: Crew, count: int) -> float:
    """Return CPU seconds, so that other load on the machine does not reduce the work."""
    (worker,) = alone.run(1, count, expected=1.0)
    return worker.cpu or worker.wall


def _tell(process: subprocess.Popen[str], order: str) -> None:
    try:
        stream = _stream(process.stdin)
        stream.write(order)
        stream.flush()
    except BrokenPipeError:
        raise _died(process) from None


def _line(process: subprocess.Popen[str]) -> str:
    line = _stream(process.stdout).readline()
    if not line:
        raise _died(process)
    return line


def _died(process: subprocess.Popen[str]) -> MrTunerError:
    process.kill()
    _, said = process.communicate()
    last = said.strip().splitlines()[-1:] or ["it was killed"]
    return MrTunerError(
        f"a worker died: {last[0]}", "Check the limits on memory and on the number of processes."
    )


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # noqa: S101 - all of them are pipes
    return stream
