"""Prove one configuration against another on a user's server, by randomised paired runs.

A proof is a plan of one cell on servers that already run. `Conduct` says what differs from a grid:
the caller names the database, and the first error ends the proof.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mrtuner.bench.engine.events import Progress
from mrtuner.bench.engine.preparation import Conduct
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.bench.series import Measured, Task, measure
from mrtuner.errors import BadValue
from mrtuner.host.model import Host

#: Names are limited to 63 bytes, and the working copy's name adds _run.
_DATABASE: Final = re.compile(r"[a-z_][a-z0-9_]{0,58}")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A user's running server; to start it means to apply a variant's settings.

    `activate` applies them, restarts the server if they need it, and returns when `dsn` answers
    again. It is called before every run of the variant; the settings of the last one stay active.
    Runs start alike only if it does the same each time and for every variant: it must restart the
    server for all of them, or for none.
    """

    dsn: str = field(repr=False)  # may hold a password
    activate: Callable[[], None] = field(repr=False)
    data: Path | None = None  # None: we have no access to its files
    companions: Sequence[int] = ()

    @property
    def site(self) -> str:
        """Variants of one server share its data."""
        return self.dsn

    def start(self) -> None:
        self.activate()

    def stop(self) -> None:
        """Do nothing: the server keeps running."""

    def layered(self) -> nullcontext[None]:
        """Do nothing: the server's files stay where they are."""
        return nullcontext()


def check_database(name: str) -> None:
    """Raise BadValue for a name that a proof's database cannot have."""
    if not _DATABASE.fullmatch(name):
        raise BadValue(
            f"{name!r} is not a valid database name for a proof",
            "Use up to 59 lower-case letters, digits and underscores.",
        )


def prove(
    servers: Mapping[str, RunningServer],
    task: Task,
    *,
    database: str,
    progress: Progress | None = None,
    program: Path | None = None,
    host: Host | None = None,
) -> Measured:
    """Measure the variants of a task's plan, each on the server of its name.

    Creates `database` and its working copy on each server, and drops them at the end, on an error
    and on Ctrl-C. If the plan is `standing`, `database` is the user's: it is used and not dropped.

    Raises Refused for a database of that name that no proof created, for a standby and for variants
    of unequal durability, MissingPart without the right to create databases or to run CHECKPOINT,
    BadValue if a variant has no server, MrTunerError when a run fails.
    """
    if set(servers) != set(task.plan.names):
        wanted = ", ".join(task.plan.names)
        raise BadValue(f"a proof needs a server for each of {wanted}", "Name each variant once.")
    conduct = Conduct(what="proof", database=database, theirs=True, force=True)
    return measure(
        task, servers, program=program or find_pgbench(), host=host, progress=progress,
        conduct=conduct,
    )  # fmt: skip
