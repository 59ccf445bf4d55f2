"""Connections, and the time-outs that keep them honest."""

from __future__ import annotations

from mrtuner.formula import MEMORY, greatest, least
from mrtuner.tuning.situation import Connections, Situation, Workload
from mrtuner.tuning.verdict import Basis, Change, Keep, Unknown, Verdict, rule
from mrtuner.units import MiB

#: Where nobody says how many: small enough that each still gets useful memory.
USUAL = {
    Workload.WEB: 200,
    Workload.OLTP: 200,
    Workload.MIXED: 100,
    Workload.OLAP: 40,
    Workload.DESKTOP: 20,
}
#: Memory that one more session needs before the default work_mem of 4 MB is safe for it.
A_SESSION = 32 * MiB


@rule(
    "max_connections",
    basis=Basis.ARITHMETIC,
    source="documentation: Connections and Authentication; memory budget in docs/concepts",
    risk="restart; clients beyond the limit are refused, so pools must add up to less",
    always=True,
)
def as_many_as_memory_serves(connections: Connections, situation: Situation) -> Verdict:
    """What you say with --connections; else what a live server has; else the workload's usual
    number, and never more than one for each 32 MB of memory.
    """
    if connections.wanted is not None:
        return Change(connections.wanted, "as asked for")
    if situation.live:
        return Keep("sessions are the application's to choose; --connections sets another number")
    usual = USUAL[situation.workload]
    if situation.memory is None:
        return Unknown(("--memory or --connections",))
    return Change(
        greatest(10, least(MEMORY / A_SESSION, usual)),
        f"{usual} is usual for {situation.workload}, one for each 32 MB of memory at most",
    )


@rule(
    "statement_timeout",
    source="documentation: Client Connection Defaults",
    risk="cuts off long reports and migrations; set it by role, not for the whole server",
    suggestion=True,
)
def stop_runaway_statements(workload: Workload) -> Verdict:
    """For web and OLTP a minute, as a suggestion: set it for the application's role."""
    if not workload.short_transactions:
        return Keep("long statements are this workload's work")
    return Change("1min", "a runaway statement holds locks and memory: set it for the app's role")


@rule(
    "idle_in_transaction_session_timeout",
    source="documentation: Client Connection Defaults; Routine Vacuuming",
    risk="ends sessions that sleep inside a transaction; they must reconnect",
    suggestion=True,
)
def end_forgotten_transactions(workload: Workload) -> Verdict:
    """Ten minutes for web, OLTP and mixed, as a suggestion: an open transaction stops vacuum."""
    if workload in {Workload.OLAP, Workload.DESKTOP}:
        return Keep("people leave sessions open here")
    return Change("10min", "a forgotten transaction keeps vacuum from removing dead rows")
