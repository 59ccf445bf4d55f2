"""A process of its own, which is killed at one of the steps that a change tells its observer."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Literal

from changed_things import Calls

from mrtuner.change.journal import Journal
from mrtuner.change.transaction import Observer

Verb = Literal["apply", "undo"]
#: No threads and everything imported: a child is there in milliseconds.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["changed_things", "mrtuner.postgres.read", "psycopg"])


def change(calls: Calls, verb: Verb, state: Path, at: Observer) -> None:
    """Change a thing, or undo its last change."""
    with Journal(state) as journal:
        getattr(calls, verb)(journal, at)


def was_killed(run: Callable[[Observer], object], killed_at: int) -> bool:
    """Run what can be pickled in a child, killed at that step; False when it had fewer."""
    process = CHILDREN.Process(target=_child, args=(run, killed_at))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def _child(run: Callable[[Observer], object], killed_at: int) -> None:
    """It ends with SIGKILL, or normally after its last step."""
    steps = count(1)

    def at(_step: str) -> None:
        if next(steps) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    run(at)
