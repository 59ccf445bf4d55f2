"""A process of its own, which is killed at one of the steps that a change tells its observer."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Literal

import pytest
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


def started(target: Callable[..., object], *arguments: object) -> ForkServerProcess:
    """Start a child. The server that forks it finds what it preloads by PYTHONPATH alone.

    Before Python 3.12.4 it forgets the path that it is given, and ignores what it cannot import.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    process = CHILDREN.Process(target=target, args=arguments)
    process.start()
    return process


def was_killed(run: Callable[[Observer], object], killed_at: int) -> bool:
    """Run what can be pickled in a child, killed at that step; False when it had fewer."""
    process = started(_child, run, killed_at)
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
