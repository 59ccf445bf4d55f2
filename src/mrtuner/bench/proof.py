"""Prove one configuration against another on a user's server, by randomised paired runs.

A proof is a plan of one cell on servers that are there already. What differs is said by `Conduct`:
a database of the name that the caller gives, an end at the first error, and everything dropped.
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

#: 63 bytes are a name's limit, and the working copy's ends in _run.
_DATABASE: Final = re.compile(r"[a-z_][a-z0-9_]{0,58}")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs anyway; to start it is to put a variant's settings in force.

    `activate` puts them in force, restarts the server if they need it, and returns when `dsn`
    answers again. It is called before every run of the variant, and whichever ran last stays
    active. Runs start alike only if it does the same each time and for every variant: it restarts
    the server for all of them, or for none.
    """

    dsn: str = field(repr=False)  # may hold a password
    activate: Callable[[], None] = field(repr=False)
    data: None = None  # its files are not ours to see
    companions: Sequence[int] = ()

    @property
    def site(self) -> str:
        """Variants of one server share its data."""
        return self.dsn

    def start(self) -> None:
        """Put the settings in force."""
        self.activate()

    def stop(self) -> None:
        """It goes on running."""

    def layered(self) -> nullcontext[None]:
        """Its files lie where they lay."""
        return nullcontext()


def check_database(name: str) -> None:
    """BadValue for a name that a proof cannot give its database."""
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

    It makes `database` and its working copy on each server, refuses any of that name that no proof
    made, and drops them at the end, on an error and on Ctrl-C. Where the plan says that its data
    stand, `database` is somebody's: it is used as it is and not dropped.

    Raises Refused for a standby and for variants of unequal durability, MissingPart without the
    right to create databases or to run CHECKPOINT, MrTunerError when a run fails.
    """
    if set(servers) != set(task.plan.names):
        wanted = ", ".join(task.plan.names)
        raise BadValue(f"a proof needs a server for each of {wanted}", "Name each variant once.")
    conduct = Conduct(what="proof", database=database, theirs=True, force=True)
    return measure(
        task, servers, program=program or find_pgbench(), host=host, progress=progress,
        conduct=conduct,
    )  # fmt: skip
