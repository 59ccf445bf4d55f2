"""Who is at the root of a queue for locks, by what pg_blocking_pids() gives. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeVar

#: Kinds of locks that stop an application. The others are held for moments, or as they are meant:
#: a leader election waits for an advisory lock, CREATE INDEX CONCURRENTLY for older snapshots.
STOPPING: Final = frozenset({"relation", "tuple", "transactionid"})
Pid = TypeVar("Pid", int, str)


def roots(waiting: Mapping[Pid, Iterable[Pid]]) -> Mapping[Pid, AbstractSet[Pid]]:
    """Return for each process that waits those that nobody blocks, across others that wait.

    `waiting` has those that block each process: of a row's queue, everybody ahead in it. A cycle is
    a deadlock, which the server resolves after deadlock_timeout: it has no root.

    >>> roots({2: [1], 3: [2], 8: [9], 9: [8]})
    {2: {1}, 3: {1}, 8: set(), 9: set()}
    """
    behind: dict[Pid, list[Pid]] = defaultdict(list)
    for pid, blocked_by in waiting.items():
        for one in blocked_by:
            behind[one].append(pid)
    found: dict[Pid, set[Pid]] = {pid: set() for pid in waiting}
    for root in behind.keys() - waiting.keys():
        open_ = [root]
        while open_:
            for pid in behind.get(open_.pop(), ()):
                if root not in found[pid]:
                    found[pid].add(root)
                    open_.append(pid)
    return found
