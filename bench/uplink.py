"""A line of a given speed: the kernel's token bucket on the loopback of our own network namespace.

Packets have 1,500 bytes as on a real line, so that headers count. The machine's own network is
never limited: everything that uses the line runs in the namespace. Source: tc-tbf(8).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The environment variable that names the network namespace we came from.
_FROM = "MRTUNER_BENCH_CAME_FROM"
_PACKET = 1_500
_BURST = 32_000  # bytes, more than 50 Mbit/s send in a tick of 4 ms
_QUEUE = "100ms"


class Line:
    """Restarts the program in a network namespace that has only a loopback device."""

    def __init__(self) -> None:
        came_from = os.environ.pop(_FROM, None)
        if came_from is None:
            for program in ("unshare", "ip", "tc"):
                if shutil.which(program) is None:
                    raise SystemExit(f"error: program {program} not found")
            os.environ[_FROM] = _network()
            command = ["unshare", "--net", "--", sys.executable, *sys.argv]
            os.execvp(command[0], command)
        if came_from == _network():
            raise SystemExit("error: no network namespace was created")
        _run("ip", "link", "set", "lo", "mtu", str(_PACKET), "up")

    @contextmanager
    def limited(self, rate: float) -> Iterator[None]:
        """Let `rate` bytes per second pass, headers included."""
        _run(
            "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", f"{round(8 * rate)}bit",
            "burst", str(_BURST), "latency", _QUEUE,
        )  # fmt: skip
        try:
            yield
        finally:
            _run("tc", "qdisc", "del", "dev", "lo", "root")


def _network() -> str:
    return str(Path("/proc/self/ns/net").readlink())


def _run(*words: str) -> None:
    subprocess.run(words, check=True)
