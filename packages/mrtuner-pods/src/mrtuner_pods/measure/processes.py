"""Processes and their threads: the CPU time they used, and the time they waited for a CPU.

Sources: proc(5); the kernel's scheduler/sched-stats.rst for schedstat, filesystems/proc.rst for
smaps_rollup and net/tcp.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mrtuner.host.tree import Tree, names_in
from mrtuner.units import KiB

_NANOSECONDS: Final = 1e9
_LISTENING: Final = "0A"  # TCP_LISTEN, include/net/tcp_states.h


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Seconds of a thread since it started; `delay` is None where the kernel does not count it."""

    cpu: float
    delay: float | None  # ready to run, on no CPU: others ran, or a quota was used up


def every(tree: Tree) -> list[int]:
    """Return all processes that are visible."""
    return [int(name) for name in names_in(tree.at("/proc")) if name.isdecimal()]


def family(tree: Tree, pid: int) -> list[int]:
    """Return a process and all its descendants that are visible."""
    parents: dict[int, list[int]] = {}
    for one in every(tree):
        fields = _stat(tree, f"/proc/{one}")
        if len(fields) > 1:
            parents.setdefault(int(fields[1]), []).append(one)
    found, todo = [], [pid]
    while todo:
        found.append(one := todo.pop(0))
        todo += sorted(parents.get(one, ()))
    return found


def name_of(tree: Tree, pid: int) -> str | None:
    """Return the name of a process; None if there is none. Source: /proc/PID/comm."""
    return tree.peek(f"/proc/{pid}/comm")


def title_of(tree: Tree, pid: int) -> str | None:
    """Return a process's own title, such as ``nginx: worker process``, else its name.

    A title takes the place of the command line, as one text with blanks. Source: setproctitle(3).
    """
    texts = [text for text in (tree.peek(f"/proc/{pid}/cmdline") or "").split("\0") if text]
    if len(texts) == 1 and " " in texts[0].strip() and not texts[0].startswith("/"):
        return texts[0].strip()
    return name_of(tree, pid)


def named(tree: Tree, pattern: str) -> list[int]:
    """Return the processes, except our own, whose name or command line matches this pattern."""
    wanted = re.compile(pattern)
    found = []
    for pid in every(tree):
        line = (tree.peek(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip()
        if pid != os.getpid() and wanted.search(f"{name_of(tree, pid) or ''} {line}"):
            found.append(pid)
    return sorted(found)


def thread_times(tree: Tree, pid: int) -> Mapping[int, ThreadTimes]:
    """Return the times of each thread; none if the process is gone."""
    found = {}
    for name in names_in(tree.at(f"/proc/{pid}/task")):
        folder = f"/proc/{pid}/task/{name}"
        counted = (tree.peek(f"{folder}/schedstat") or "").split()
        fields = _stat(tree, folder)
        if len(counted) > 1:
            found[int(name)] = ThreadTimes(*(int(one) / _NANOSECONDS for one in counted[:2]))
        elif len(fields) > 12:
            ticks = os.sysconf("SC_CLK_TCK")
            found[int(name)] = ThreadTimes((int(fields[11]) + int(fields[12])) / ticks, None)
    return found


def proportional_memory(tree: Tree, pid: int) -> int | None:
    """Return a process's proportional set size [bytes]: shared pages are divided among their users.

    Only its owner and root may see it. Source: /proc/PID/smaps_rollup.
    """
    text = tree.peek(f"/proc/{pid}/smaps_rollup") or ""
    found = re.search(r"^Pss:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * KiB if found else None


def sockets_of(tree: Tree, pid: int) -> frozenset[int] | None:
    """Return the inodes of the sockets that a process holds; None if we may not see them."""
    folder = tree.at(f"/proc/{pid}/fd")
    if not os.access(folder, os.R_OK | os.X_OK):
        return None
    targets = (tree.target(f"/proc/{pid}/fd/{name}") or "" for name in names_in(folder))
    return frozenset(int(one[8:-1]) for one in targets if one.startswith("socket:["))


def waiting_to_be_accepted(tree: Tree, pid: int, sockets: frozenset[int]) -> int:
    """Return the connections in the queues of these listening TCP sockets.

    For a listening socket, net/tcp shows the accept queue's length as rx_queue.
    """
    return sum(
        length
        for file in ("tcp", "tcp6")
        for inode, length in _queues(tree.peek(f"/proc/{pid}/net/{file}") or "")
        if inode in sockets
    )


def connections_accepted(tree: Tree, pid: int) -> int | None:
    """Return the TCP connections that were opened to the network namespace of a process.

    They are counted when they enter the queue of a listening socket; None if they are not counted.
    Source: /proc/PID/net/snmp, PassiveOpens.
    """
    rows = (tree.peek(f"/proc/{pid}/net/snmp") or "").splitlines()
    tcp = [row.split() for row in rows if row.startswith("Tcp:")]
    if len(tcp) != 2 or "PassiveOpens" not in tcp[0]:
        return None
    return int(tcp[1][tcp[0].index("PassiveOpens")])


def _queues(text: str) -> Iterator[tuple[int, int]]:
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENING:
            yield int(fields[9]), int(fields[4].partition(":")[2], 16)


def _stat(tree: Tree, folder: str) -> list[str]:
    """The fields of stat after the name, which may itself have blanks and parentheses."""
    return (tree.peek(f"{folder}/stat") or "").rpartition(")")[2].split()
