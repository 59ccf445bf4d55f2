"""A change in a process of its own, which is killed at one of its steps."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal

from changed_things import Calls

from mrtuner.change.journal import Journal

Verb = Literal["apply", "undo"]
#: No threads and everything imported: a child is there in milliseconds.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["changed_things", "mrtuner.postgres.read", "psycopg"])


@dataclass(frozen=True)
class Task:
    """What a child does, and at which of its steps it is killed."""

    verb: Verb
    calls: Calls
    state: Path
    killed_at: int


def child(task: Task) -> None:
    """Run in a process of its own: it ends with SIGKILL, or normally after its last step."""
    steps = count(1)

    def at(_step: str) -> None:
        if next(steps) == task.killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with Journal(task.state) as journal:
        getattr(task.calls, task.verb)(journal, at)


def was_killed(task: Task) -> bool:
    """False when it had fewer steps."""
    process = CHILDREN.Process(target=child, args=(task,))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0
