"""Connections, and the timeouts that end idle and runaway ones."""

from __future__ import annotations

from mrtuner.catalog import parameters
from mrtuner.formula.expression import MEMORY, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.situation import Connections, Situation
from mrtuner.tuning.verdict import Basis, Change, Keep, Unknown, Verdict, rule
from mrtuner.units import MiB

#: Defaults if no number is given: small enough that each connection still gets useful memory.
USUAL = {
    Workload.WEB: 200,
    Workload.OLTP: 200,
    Workload.MIXED: 100,
    Workload.OLAP: 40,
    Workload.DESKTOP: 20,
}
#: max_connections must be larger than the sum of these. The second is new in 16.
RESERVED = ("superuser_reserved_connections", "reserved_connections")
#: Also reserved by RDS and Aurora: for rds_superuser before 16, and for RDS itself.
#: Source: RDS User Guide, parameters of RDS for PostgreSQL; read on live instances of 16.
OF_RDS = ("rds.rds_superuser_reserved_connections", "rds.rds_reserved_connections")
#: Memory that one more session needs before the default work_mem of 4 MB is safe for it.
A_SESSION = 32 * MiB


@rule(
    "max_connections",
    basis=Basis.ARITHMETIC,
    source="documentation: Connections and Authentication; memory budget in docs/concepts",
    risk="restart; clients beyond the limit are refused, so pools must add up to less",
    always=True,
)
def max_connections_by_memory(connections: Connections, situation: Situation) -> Verdict:
    """The number given with --connections, plus what the server keeps for superusers and reserved
    roles: it refuses to start without them, and applications cannot use them. Without the
    option, what a live server has; else the workload's usual number, at most one for each 32 MB of
    memory, and at least ten.
    """
    if connections.wanted is not None:
        reserved = reserved_sessions(situation)
        because = f"{connections.wanted} for applications, and {reserved} that the server reserves"
        return Change(connections.wanted + reserved, because)
    if situation.live:
        return Keep("the application decides how many it needs; --connections changes it")
    usual = USUAL[situation.workload]
    if situation.memory is None:
        return Unknown(("--memory or --connections",))
    return Change(
        greatest(10, least(MEMORY / A_SESSION, usual)),
        f"{usual} is usual for {situation.workload}, at most one per 32 MB of memory",
    )


def reserved_sessions(situation: Situation) -> int:
    """Number of sessions that applications cannot use: live values, or the version's defaults.

    Source: documentation: Connections and Authentication; postinit.c, InitPostgres.
    """
    known, running = parameters(situation.major), situation.running
    own = sum(
        int(running.get(name) or known[name].default or 0) for name in RESERVED if name in known
    )
    return own + sum(int(running.get(name) or 0) for name in OF_RDS)


@rule(
    "statement_timeout",
    source="documentation: Client Connection Defaults",
    risk="cuts off long reports and migrations; set it by role, not for the whole server",
    suggestion=True,
)
def statement_timeout_by_workload(workload: Workload) -> Verdict:
    """For web and OLTP a minute, as a suggestion: set it for the application's role."""
    if not workload.short_transactions:
        return Keep("long statements are normal for this workload")
    return Change("1min", "a runaway statement holds locks and memory: set it for the app's role")


@rule(
    "idle_in_transaction_session_timeout",
    source="documentation: Client Connection Defaults; Routine Vacuuming",
    risk="ends sessions that idle in a transaction; they must reconnect",
    suggestion=True,
)
def idle_in_transaction_session_timeout_by_workload(workload: Workload) -> Verdict:
    """Ten minutes for web, OLTP and mixed, as a suggestion: an open transaction stops vacuum."""
    if workload in {Workload.OLAP, Workload.DESKTOP}:
        return Keep("interactive sessions are often left open")
    return Change("10min", "a forgotten transaction keeps vacuum from removing dead rows")
