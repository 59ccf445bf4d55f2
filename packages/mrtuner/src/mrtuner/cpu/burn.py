"""One worker of the consistency test: a separate program that needs nothing but Python.

    python -I -S burn.py integer|gzip [CPU]

It prints "ready", then obeys lines on its standard input: "DEADLINE PIECES COUNT" makes it wait
until the monotonic clock shows DEADLINE, do PIECES pieces of COUNT steps, and report the times as
one line of JSON. Until the next line comes it keeps burning CPU: if it stopped, it would free its
core for the slow ones and hide the effect to be measured. It exits at the end of its input.

A step of the integer kind stays in registers and the first-level cache; one of the gzip kind takes
a kilobyte from a pipe that another process fills, and compresses it as gzip does.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import zlib
from collections.abc import Callable
from itertools import pairwise

BLOCK = 65536
Steps = Callable[[int], None]


def spin(count: int) -> None:
    """Do this many multiplications and additions."""
    value = 1
    for _ in range(count):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF


def squeezer() -> Steps:
    """Return a function that compresses a kilobyte from a pipe in every step."""
    pipe = _fed()

    def squeeze(count: int) -> None:
        packer, left = zlib.compressobj(6), count * 1024
        while left > 0:
            data = os.read(pipe, min(BLOCK, left))
            if not data:
                raise SystemExit("the process that feeds the pipe has ended")
            packer.compress(data)
            left -= len(data)

    return squeeze


def _fed() -> int:
    """Return the reading end of a pipe that a child process fills until we exit."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return reading
    try:
        os.close(reading)
        os.close(0)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the feeder ends when the reader does
        data = _text()
        while True:
            os.write(writing, data)
    finally:
        os._exit(0)


def _text() -> bytes:
    """Return letters that compress about as well as a table dump."""
    letters, seed = bytearray(), 1
    for _ in range(BLOCK):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        letters.append(97 + (seed >> 16) % 16)
    return bytes(letters)


def measured(steps: Steps, deadline: float, pieces: int, count: int) -> dict[str, object]:
    """Wait, work, and report the times in seconds, from the deadline on."""
    before = _account()
    time.sleep(max(0.0, deadline - time.monotonic()))
    marks, places = [deadline], []
    for _ in range(pieces):
        steps(count)
        marks.append(time.monotonic())
        places.append(_cpu())
    after = _account()
    return {
        "pieces": [end - start for start, end in pairwise(marks)],
        "cpu": after[0] - before[0],
        "delay": None if before[1] is None or after[1] is None else after[1] - before[1],
        "switches": after[2] - before[2],
        "cpus": places,
    }


def _account() -> tuple[float, float | None, int]:
    """Return CPU seconds, seconds runnable but not running, and involuntary switches."""
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return time.process_time(), _run_delay(), switches


def _run_delay() -> float | None:
    """Return the run delay [s].

    Source: Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat, second field.
    """
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:  # noqa: PTH123 - starts faster
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return None


def _cpu() -> int | None:
    """Return the CPU that last ran us. Source: proc(5), /proc/PID/stat, field 39."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().rpartition(")")[2].split()[36])
    except (OSError, IndexError, ValueError):
        return None


def main(kind: str, cpu: str | None = None) -> None:
    """Obey input lines until the input ends."""
    if cpu is not None:
        os.sched_setaffinity(0, {int(cpu)})
    steps = spin if kind == "integer" else squeezer()
    steps(1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while order := sys.stdin.readline().split():
        deadline, pieces, count = float(order[0]), int(order[1]), int(order[2])
        told = measured(steps, deadline, pieces, count)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        while not select.select([0], [], [], 0)[0]:  # no order waits
            steps(max(1, count // 8))


if __name__ == "__main__":
    main(*sys.argv[1:])
