"""A child process that is killed at one of the steps that a change reports to its observer."""

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
#: The fork server has no threads and has imported everything: a child starts in milliseconds.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["changed_things", "mrtuner.postgres.read_server", "psycopg"])


def change(calls: Calls, verb: Verb, state: Path, at: Observer) -> None:
    """Change a thing, or undo its last change."""
    with Journal(state) as journal:
        getattr(calls, verb)(journal, at)


def started(target: Callable[..., object], *arguments: object) -> ForkServerProcess:
    """Start a child, with PYTHONPATH set for the fork server's preloaded modules.

    Before Python 3.12.4 the server forgets the path it is given, and ignores failed imports.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        forkserver.ensure_running()
    process = CHILDREN.Process(target=target, args=arguments)
    process.start()
    return process


def was_killed(run: Callable[[Observer], object], killed_at: int) -> bool:
    """Run a picklable callable in a child, killed at that step; False if it has fewer steps."""
    process = started(_child, run, killed_at)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def _child(run: Callable[[Observer], object], killed_at: int) -> None:
    """Run until SIGKILL at step `killed_at`, or to the end if there are fewer steps."""
    steps = count(1)

    def at(_step: str) -> None:
        if next(steps) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    run(at)
