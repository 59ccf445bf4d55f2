"""Did others use the machine while we measured? Steal, and CPU used by neither us nor the server.

Source: /proc/stat and /proc/PID/stat (proc(5)). On systems other than Linux the readings are None.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.bench.load.pgbench import children_cpu
from mrtuner.host.counters import cpu_times
from mrtuner.host.tree import Tree
from mrtuner.postgres.local import Process, process

_HERE: Final = Tree()
_PROC: Final = Path("/proc")
_CANARY_ROUNDS: Final = 50_000  # some 30 ms
_TRIES: Final = 20  # attempts to read a server whose backends end all the time


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Seconds of CPU time so far, summed over all CPUs of this machine."""

    total: float
    steal: float
    busy: float  # user, nice and system; interrupts belong to no process
    own: float  # this process and the programs it ran
    server: float | None  # None when we cannot see the server's processes


@dataclass(frozen=True, slots=True)
class Noise:
    """Shares of this machine's CPU time, 0 to 1; None where unknown."""

    steal: float | None
    foreign: float | None


def read(
    postmaster: int | None, tree: Tree = _HERE, companions: Iterable[int] = ()
) -> CpuTime | None:
    """Take a reading; None without /proc/stat. CPU time of `companions` counts as the server's.

    Without a postmaster (the server may run on another machine, or in a container on this one),
    the server's share is unknown, and so is that of others.
    """
    times = cpu_times(tree)
    if times is None:
        return None
    return CpuTime(
        total=times.total,
        steal=times.steal,
        busy=times.user + times.system,
        own=time.process_time() + children_cpu(),
        server=_server(postmaster, companions, tree.at("/proc")),
    )


def noise_between(before: CpuTime | None, after: CpuTime | None) -> Noise:
    """What others took from the machine between two readings."""
    if before is None or after is None or after.total <= before.total:
        return Noise(None, None)
    total = after.total - before.total
    steal = (after.steal - before.steal) / total
    if before.server is None or after.server is None:
        return Noise(steal, None)
    known = after.own - before.own + after.server - before.server
    return Noise(steal, max(0.0, (after.busy - before.busy - known) / total))


def _server(postmaster: int | None, companions: Iterable[int], proc: Path) -> float | None:
    """CPU seconds of the postmaster, its children, living or ended, and its companions."""
    if postmaster is None:
        return None
    main, living = process(postmaster, proc), 0
    for _ in range(_TRIES):
        before = main
        living = sum(
            child.used for child in _used_by_pid(proc).values() if child.parent == postmaster
        )
        main = process(postmaster, proc)
        # A backend that was reaped meanwhile may count neither as living nor as reaped.
        if main is None or before is None or main.reaped == before.reaped:
            break
    if main is None:
        return None
    beside = sum(cpu_of(pid, proc) for pid in companions)
    return (main.used + main.reaped + living) / _ticks() + beside


def family(parent: int, proc: Path = _PROC) -> list[int]:
    found = _used_by_pid(proc).items()
    return [parent, *(pid for pid, one in found if one.parent == parent)]


def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int, proc: Path = _PROC) -> float:
    """CPU seconds that one process has used so far; zero if we cannot see it."""
    found = process(pid, proc)
    return found.used / _ticks() if found else 0.0


def busiest(seconds: float, count: int = 3, proc: Path = _PROC) -> list[tuple[str, float]]:
    """Watch for some seconds which other programs use CPU: name and CPUs, busiest first."""
    before = _used_by_pid(proc)
    began = time.monotonic()
    time.sleep(seconds)
    passed = time.monotonic() - began
    used: dict[str, float] = {}
    for pid, one in _used_by_pid(proc).items():
        if pid != os.getpid() and pid in before:
            share = (one.used - before[pid].used) / _ticks() / passed
            used[one.name] = used.get(one.name, 0.0) + share
    ranked = sorted(used.items(), key=lambda item: -item[1])
    return [(name, share) for name, share in ranked[:count] if share >= 0.05]


@dataclass(frozen=True, slots=True)
class Others:
    """How much of this machine others use at present."""

    share: float  # of all its CPUs, 0 to 1
    who: str  # the busiest programs, in words; empty if none stands out


def others(seconds: float) -> Others | None:
    """Watch the machine for some seconds, with nothing of ours running; None where unknown."""
    before = read(os.getpid())
    ranked = busiest(seconds)
    noise = noise_between(before, read(os.getpid()))
    if noise.foreign is None:
        return None
    share = noise.foreign + (noise.steal or 0.0)
    return Others(share, ", ".join(f"{name} {used:.1f} CPUs" for name, used in ranked))


def canary() -> float:
    """Seconds that a fixed piece of work takes now: it shows if the machine's speed changes."""
    began = time.perf_counter()
    digest = b"mrtuner"
    for _ in range(_CANARY_ROUNDS):
        digest = hashlib.sha256(digest).digest()
    return time.perf_counter() - began


def _used_by_pid(proc: Path) -> dict[int, Process]:
    pids = (int(path.name) for path in proc.glob("[0-9]*"))
    return {pid: found for pid in pids if (found := process(pid, proc)) is not None}
