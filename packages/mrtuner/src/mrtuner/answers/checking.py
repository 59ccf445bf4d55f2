"""Whether servers are all right: every check on each, one list for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Unpack

from mrtuner.answers.happened import history as happened
from mrtuner.check.catalogue import known
from mrtuner.check.read import read
from mrtuner.check.report import CheckReport, judged, unreachable
from mrtuner.errors import ConnectError
from mrtuner.facts import Missing
from mrtuner.inputs import MachineInputs
from mrtuner.postgres.connect import masked
from mrtuner.tuning import gather

#: How far back a history is looked at [s].
_DAY: Final = 86_400.0


def check(
    dsn: str = "",
    *,
    skip: Collection[str] = (),
    history: Path | str | None = None,
    instance: str | None = None,
    **machine: Unpack[MachineInputs],
) -> CheckReport:
    """Check the server that `dsn` leads to, by default the one that psql would find.

    Reads only, in one session, and gives up a query after two seconds: what it would have shown is
    not judged. `skip` are ids of checks to leave out. With a `history` that ``mrtuner record``
    wrote, of which `instance` names the server, what went wrong within a day is told as well.
    `machine` is what cannot be read over SQL, such as ``memory="16GB"``, as in `tune`.

    Raises:
        ConnectError: the server cannot be read.
        BadValue: an input is invalid, or there is no check of a name to skip.
    """
    left_out = known(frozenset(skip))
    state = read(dsn, gather.flags(**machine))
    if history is not None:
        found = happened(history, instance=instance, since=_DAY)
        state = replace(state, incidents=found.incidents)
    return judged(masked(dsn) or "local", state, left_out)


def check_all(servers: Mapping[str, str], *, skip: Collection[str] = ()) -> list[CheckReport]:
    """Check several servers, by name, one after the other.

    One that cannot be read is not judged.
    """
    reports = []
    for name, dsn in servers.items():
        try:
            reports.append(replace(check(dsn, skip=skip), target=name))
        except ConnectError as error:
            reports.append(unreachable(name, Missing("", error.message, hint=error.hint)))
    return reports
