"""Connections, and the timeouts that end idle and runaway ones."""

from __future__ import annotations

from math import ceil

from mrtuner.catalog import parameters
from mrtuner.formula.expression import MEMORY, greatest, least
from mrtuner.inputs import Workload
from mrtuner.postgres.reserved import OF_RDS, RESERVED
from mrtuner.tuning.situation import Connections, Partitions, Situation
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
#: Memory that one more session needs before the default work_mem of 4 MB is safe for it.
A_SESSION = 32 * MiB
#: Fewer would be too few for most pools, so that each gets less work_mem (our choice).
FEWEST = 10


@rule(
    "max_connections",
    basis=Basis.ARITHMETIC,
    source="documentation: Connections and Authentication; memory budget in docs/concepts",
    risk="restart; clients beyond the limit are refused, so pools must add up to less",
    always=True,
)
def max_connections_by_memory(connections: Connections, situation: Situation) -> Verdict:
    """The number given with --connections. Without it, what a live server has. Without both, the
    workload's usual number, at most one for each 32 MB of memory, and no more than leave each 4 MB
    of work_mem; at least ten. To a number given with --connections is added what the server keeps
    for superusers and reserved roles, since applications cannot use it.
    """
    if connections.wanted is not None:
        reserved = reserved_sessions(situation)
        because = f"{connections.wanted} for applications, and {reserved} that the server reserves"
        return Change(connections.wanted + reserved, because, asked=True)
    if situation.live:
        return Keep("the application decides how many it needs; --connections changes it")
    usual = USUAL[situation.workload]
    if situation.memory is None:
        return Unknown(("--memory or --connections",))
    if connections.held is not None:
        because = f"as many as leave each 4 MB of work_mem, at least {FEWEST}; {usual} is usual"
        return Change(connections.held, f"{because} for {situation.workload}")
    return Change(
        greatest(FEWEST, least(MEMORY / A_SESSION, usual)),
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
    """Two minutes for web and OLTP, ten for mixed, as a suggestion: an open transaction stops
    vacuum. The server ignores it unless it is shorter than transaction_timeout.
    """
    if workload in {Workload.OLAP, Workload.DESKTOP}:
        return Keep("interactive sessions are often left open")
    limit = "2min" if workload.short_transactions else "10min"
    return Change(limit, "a forgotten transaction keeps vacuum from removing dead rows")


@rule(
    "transaction_timeout",
    source="documentation: Client Connection Defaults; release notes 17",
    risk="ends the session of a long transaction; set it by role, not for the whole server",
    suggestion=True,
)
def transaction_timeout_by_workload(workload: Workload) -> Verdict:
    """For web and OLTP five minutes, as a suggestion: set it for the application's role."""
    if not workload.short_transactions:
        return Keep("long transactions are normal for this workload")
    return Change("5min", "many short statements can make a long transaction: set it for the app")


@rule(
    "lock_timeout",
    source="documentation: Client Connection Defaults",
    risk="statements that wait longer fail; set it for the role that changes the schema",
    suggestion=True,
)
def lock_timeout_for_schema_changes(workload: Workload) -> Verdict:
    """Five seconds, as a suggestion, for the role that runs migrations. While ALTER TABLE waits for
    a lock, every later query of that table waits behind it.
    """
    if workload is Workload.DESKTOP:
        return Keep("one user waits for nobody else")
    return Change("5s", "a waiting ALTER TABLE blocks all later queries: set it for migrations")


@rule(
    "idle_session_timeout",
    source="documentation: Client Connection Defaults",
    risk="ends sessions that pools keep open on purpose",
)
def idle_session_timeout_default() -> Verdict:
    """Left as it is: pools keep idle sessions on purpose. Set it for the roles of people."""
    return Keep("pools keep idle sessions on purpose; set it for the roles of people")


@rule(
    "client_connection_check_interval",
    source="documentation: Connections and Authentication, TCP Settings",
    risk="a system call every so often during long statements",
    suggestion=True,
)
def client_connection_check_interval_short() -> Verdict:
    """Ten seconds, as a suggestion: a long statement ends soon after its client has gone."""
    return Change("10s", "a statement whose client has gone otherwise runs to its end")


#: The server's own keepalive [s], and the number of questions: a lost client is noticed in two
#: minutes, not in the kernel's two hours. 0 stands for the kernel's values, read as 7200, 75, 9.
KEEPALIVE = {"idle": (60, 7200), "interval": (10, 75), "count": (6, 9)}


def _keepalive(part: str, situation: Situation) -> Verdict:
    wanted, usual = KEEPALIVE[part]
    now = int(situation.running.get(f"tcp_keepalives_{part}", 0))
    if now not in {0, usual}:
        return Keep("already set: your choice")
    return Change(wanted, "a client whose host is gone otherwise keeps its locks for two hours")


@rule("tcp_keepalives_idle", source="documentation: TCP Settings; tcp(7)",
      risk="negligible: one small packet a minute", suggestion=True)  # fmt: skip
def tcp_keepalives_idle_a_minute(situation: Situation) -> Verdict:
    """60 s, as a suggestion: with the interval and count, a lost client is noticed in two
    minutes.
    """
    return _keepalive("idle", situation)


@rule("tcp_keepalives_interval", source="documentation: TCP Settings; tcp(7)",
      risk="negligible", suggestion=True)  # fmt: skip
def tcp_keepalives_interval_ten_seconds(situation: Situation) -> Verdict:
    """10 s, as a suggestion, with tcp_keepalives_idle."""
    return _keepalive("interval", situation)


@rule("tcp_keepalives_count", source="documentation: TCP Settings; tcp(7)",
      risk="negligible", suggestion=True)  # fmt: skip
def tcp_keepalives_count_six(situation: Situation) -> Verdict:
    """6, as a suggestion, with tcp_keepalives_idle."""
    return _keepalive("count", situation)


@rule(
    "max_locks_per_transaction",
    basis=Basis.ARITHMETIC,
    source="documentation: Lock Management; lock.c, NLOCKENTS",
    risk="restart; some 270 bytes of shared memory for each lock; standbys need as many first",
    suggestion=True,
)
def max_locks_per_transaction_for_partitions(
    situation: Situation, partitions: Partitions | None
) -> Verdict:
    """Left as it is, unless the active sessions may need more locks than all sessions have
    together. Then as many as they need if each reads the largest partitioned table without
    pruning, as a suggestion.
    """
    sessions = int(situation.running.get("max_connections", 0))
    if partitions is None or not sessions:
        return Keep("the default suffices without tables of many partitions")
    pool = sessions + int(situation.running.get("max_prepared_transactions", 0))
    needed = ceil(situation.active(sessions).count * partitions.locks / pool)
    if needed <= int(situation.running.get("max_locks_per_transaction", 64)):
        return Keep(f"enough for the {partitions.locks} locks that {partitions.table} takes")
    because = f"a query of all of {partitions.table} takes {partitions.locks} locks"
    return Change(1 << (needed - 1).bit_length(), because)
