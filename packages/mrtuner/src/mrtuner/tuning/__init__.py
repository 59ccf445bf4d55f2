"""The main job: from facts through rules and the memory budget to advice.

`tune` is the only entry point: for a described machine, this machine, or a running server.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

from mrtuner.facts import Missing
from mrtuner.inputs import MachineInputs
from mrtuner.tuning import gather, notices
from mrtuner.tuning.advice import Level, Notice, RoleMemory, Tuning
from mrtuner.tuning.dangers import dangers, shared_at_start
from mrtuner.tuning.feasibility import (
    in_force,
    refuse_overflow,
    servers_own,
    settle,
    with_huge_pages,
)
from mrtuner.tuning.host_steps import steps
from mrtuner.units import GiB, pretty_bytes
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mrtuner.change.settings.start_check import StartCheck
    from mrtuner.host.model import Host
    from mrtuner.postgres.connect import Connection
    from mrtuner.postgres.model import Activity, Server
    from mrtuner.tuning.situation import Situation

#: The fact that the server would start again as it is.
NEXT_START: Final = "next start"

__all__ = ["Tuning", "tune", "tune_connected", "tune_server"]


def tune(dsn: str | None = None, **given: Unpack[MachineInputs]) -> Tuning:
    """Advise settings for a server (`dsn`), a described machine, or the machine we run on.

    The inputs are those of `mrtuner.answers.advice.tune`.

    Raises BadValue for invalid input, DoesNotFit when the memory cannot hold the connections
    asked for, and ConnectError when the server cannot be read.

    >>> tune(memory="16GB", cpus=4, storage="ssd", postgres=17)["shared_buffers"].value
    '4GB'
    """
    said = gather.flags(**given)
    if dsn is not None:
        return _tune_dsn(dsn, said)
    if said.describe_a_machine:
        return _finish(gather.described(said))
    from mrtuner.host import probe

    host = probe()
    return _finish(gather.this_machine(said, host), host=host)


def _tune_dsn(dsn: str, said: gather.Flags) -> Tuning:
    from mrtuner.postgres.connect import connect

    with connect(dsn) as connection:
        return tune_connected(connection, said)


def tune_connected(
    connection: Connection, said: gather.Flags, activity: Activity | None = None
) -> Tuning:
    """Advise settings for the server of an open session; `activity` replaces its counters."""
    from mrtuner.postgres.connect import any_bytes
    from mrtuner.postgres.read_server import read

    with any_bytes(connection):
        server = read(connection)
        if activity is not None:
            server = replace(server, activity=activity)
        return tune_server(server, said, next_start_of(connection, server))


def next_start_of(connection: Connection, server: Server) -> StartCheck | None:
    """What keeps the server from starting again as it is; None where a provider starts it.

    Patroni writes the settings of a start itself, so of those that wait nothing is known.
    """
    from mrtuner.change.settings.live import AUTO_CONF
    from mrtuner.change.settings.next_start import next_start
    from mrtuner.change.settings.start_check import check_pending

    by_patroni = server.platform.by_patroni
    if not (server.platform.alter_system or by_patroni):
        return None
    start = next_start(connection, {}, AUTO_CONF, restarts=True)
    if by_patroni:
        start = replace(start, changed={}, unseen=(), written=None)
    return check_pending(connection, start)


def tune_server(
    server: Server, said: gather.Flags | None = None, start: StartCheck | None = None
) -> Tuning:
    """Advise settings for a server already read; probe its machine if it is this one.

    `start` is what was found out about its next start.
    """
    host = _host_of(server)
    gathered = gather.live(said or gather.Flags(), server, host)
    return _finish(gathered, host=host, server=server, start=start)


def tune_recorded(server: Server | None, host: Host, said: gather.Flags) -> Tuning:
    """Advise settings for a server and its machine as they were recorded; nothing is probed.

    Without a server, only the machine is known, and the advice is for a new server on it.
    """
    if server is None:
        return _finish(gather.this_machine(said, host), host=host)
    return _finish(gather.live(said, server, host), host=host, server=server)


def _host_of(server: Server) -> Host | None:
    if server.local_pid is None:
        return None
    from mrtuner.host import probe
    from mrtuner.host.tree import Tree

    directory = server.data_directory or Tree(pid=server.local_pid).working_directory()
    host = probe(pid=server.local_pid, data_directory=Path(directory) if directory else None)
    if directory is None:  # what was probed is the volume of /
        host = replace(host, storage=None, disk_size=None, disk_free=None)
    return host


def _unchecked(
    start: StartCheck | None, situation: Situation, host: Host | None
) -> Iterator[Missing]:
    if start is None:
        return
    from mrtuner.change.settings.start_check import HBA

    lacking, needed = list(start.unchecked), shared_at_start(start)
    if situation.memory is None and needed > GiB:
        lacking.append(f"whether the machine has {pretty_bytes(needed)} of shared memory")
    pages = start.start.changed.get("huge_pages") if start.start else None
    if pages == "on" and (host is None or host.huge_pages is None):
        lacking.append("whether there are enough huge pages")
    if lacking:
        why = f"not checked: {enumerated(lacking)}"
        yield Missing(NEXT_START, why, hint=_SEE_HBA if HBA in lacking else _OWN_TIME)


_SEE_HBA: Final = (
    "GRANT SELECT ON pg_hba_file_rules TO the role, and GRANT EXECUTE ON FUNCTION "
    "pg_hba_file_rules() TO the role."
)
_OWN_TIME: Final = "Restart at a time of your own, or undo the change."


def _finish(
    gathered: gather.Gathered,
    *,
    host: Host | None = None,
    server: Server | None = None,
    start: StartCheck | None = None,
) -> Tuning:
    situation = gathered.situation
    solution = settle(situation)
    refuse_overflow(situation, solution)
    now = in_force(situation) if servers_own(situation) else None
    recovery = notices.recovery(situation, solution.advice)
    reserved = with_huge_pages(situation)
    more = [
        *notices.notices(situation, solution, reserved, server),
        *notices.over_rto(situation, recovery),
    ]
    found = tuple(dangers(situation, server, host, now, start))
    to_do = [*steps(situation, solution.chosen, solution.budget, host, server, reserved=reserved)]
    roles: tuple[RoleMemory, ...] = ()
    if server is not None:
        from mrtuner.tuning import suggestions

        more += suggestions.notices(server)
        roles = tuple(
            suggestions.memory_of_roles(
                server, solution.chosen, solution.budget, situation.workload
            )
        )
        to_do += (suggestions.step(one) for one in roles)
    return Tuning(
        situation=situation,
        given=tuple(gathered.given),
        advice=solution.advice,
        budget=solution.budget,
        budget_now=now,
        recovery=recovery,
        findings=found,
        notices=(
            *(Notice(Level.DANGER, one.sentence) for one in found),
            *gathered.notices,
            *more,
        ),
        steps=tuple(to_do),
        roles=roles,
        missing=(*gathered.missing, *_unchecked(start, situation, host)),
        server=server,
        host=host,
    )
