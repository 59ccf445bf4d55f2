"""Whether servers are all right: every check on each, one list for all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from mrtuner.answers.autovacuum import busiest_rates
from mrtuner.answers.remembered import remembered
from mrtuner.check.catalogue import known
from mrtuner.check.read import read
from mrtuner.check.report import CheckReport, judged, unreachable
from mrtuner.check.state import Recorded, State
from mrtuner.errors import ConnectError, UsageError
from mrtuner.facts import Missing
from mrtuner.inputs import MachineInputs
from mrtuner.postgres.connect import masked
from mrtuner.tuning import gather

if TYPE_CHECKING:
    from mrtuner.vacuum import Vacuum

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
    wrote, of which `instance` names the server, what its last day shows is told as well: what went
    wrong, when a volume is full, which limits of the host were reached. Vacuum is then judged by
    each table's busiest day of a week.
    `machine` is what cannot be read over SQL, such as ``memory="16GB"``, as in `tune`.

    Raises:
        ConnectError: the server cannot be read.
        BadValue: an input is invalid, or there is no check of a name to skip.
    """
    left_out = known(frozenset(skip))
    state = read(dsn, gather.flags(**machine))
    if history is not None:
        state = replace(
            state, recorded=_recorded(history, instance), vacuum=_busiest(state, history, instance)
        )
    return judged(masked(dsn) or "local", state, left_out)


def _recorded(directory: Path | str, instance: str | None) -> Recorded:
    from mrtuner.answers import ceilings
    from mrtuner.history.analysis.changes import changes
    from mrtuner.history.analysis.free_space import free_space
    from mrtuner.history.analysis.incidents import incidents
    from mrtuner.history.analysis.not_looked_for import not_looked_for
    from mrtuner.history.analysis.role_peaks import role_peaks

    with remembered(directory, instance, since=_DAY) as (history, about):
        reached = ceilings.judged(history, about)
        return Recorded(
            end=about.end,
            incidents=incidents(history, about, changes(history, about)),
            not_looked_for=not_looked_for(history, about),
            filesystems=free_space(history, about),
            role_peaks=role_peaks(history, about),
            limits=reached.limits,
            no_limits=reached.why,
        )


def _busiest(state: State, directory: Path | str, instance: str | None) -> Vacuum | None:
    """What vacuum needs on the busiest day, if this database's tables were recorded."""
    from mrtuner.vacuum import judge

    try:
        known = busiest_rates(directory, instance)
    except UsageError:  # the counters of the server itself still count
        return state.vacuum
    mine = {oid: rates for (database, oid), rates in known.items() if database == state.database}
    return judge(state.vacuum.picture, mine) if state.vacuum and mine else state.vacuum


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
