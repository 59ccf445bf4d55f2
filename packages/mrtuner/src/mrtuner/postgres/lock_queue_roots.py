"""Who is at the root of a queue for locks, by what pg_blocking_pids() gives. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

#: Kinds of locks that stop an application. The others are held for moments, or as they are meant:
#: a leader election waits for an advisory lock, CREATE INDEX CONCURRENTLY for older snapshots.
STOPPING: Final = frozenset({"relation", "tuple", "transactionid"})
Pid = TypeVar("Pid", int, str)


def roots(blocked_by: Iterable[Pid], waiting: Mapping[Pid, Sequence[Pid]]) -> frozenset[Pid]:
    """Return the processes that nobody blocks, across those that wait in between.

    `waiting` has those that block each process that waits. A cycle is a deadlock, which the server
    resolves after deadlock_timeout: it has no root.

    >>> roots([2], {2: [1], 3: [2]})
    frozenset({1})
    """
    found, open_, seen = set(), list(blocked_by), set()
    while open_:
        pid = open_.pop()
        if pid in seen:
            continue
        seen.add(pid)
        if pid in waiting:
            open_ += waiting[pid]
        else:
            found.add(pid)
    return frozenset(found)
