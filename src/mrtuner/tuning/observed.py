"""What a running server adds to a situation: its settings, its build and its counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mrtuner.tuning.situation import (
    BufferWrites,
    DeadRows,
    FullWalBuffers,
    JitTime,
    ParallelWorkers,
    Slrus,
    Spills,
    Wal,
)

if TYPE_CHECKING:
    from mrtuner.postgres.model import Activity, JitWork, Relation, Server

#: Tables with fewer rows than this are vacuumed in a moment.
LARGE_TABLE = 1_000_000
#: Dead rows at this multiple of the threshold mean autovacuum is late; just past it is normal.
PAST = 1.5
#: A standby stops replaying if its value of one of these is below the primary's.
FOLLOW_PRIMARY = (
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
)


def observed(server: Server | None, watched: bool) -> dict[str, Any]:
    """Return what a server adds, by the field names of `Situation`; empty without a server."""
    if server is None:
        return {}
    settings = server.settings.values()
    return {
        "running": {item.name: item.setting for item in settings},
        "origins": {item.name: item.origin for item in settings},
        "enum_values": {item.name: item.enumvals for item in settings if item.enumvals},
        "fixed": _fixed(server),
        "wal": _wal(server.activity, watched),
        "spills": _spills(server.activity),
        "dead_rows": _dead_rows(server),
        "buffer_writes": _buffer_writes(server.activity),
        "full_wal_buffers": _full_wal_buffers(server.activity),
        "parallel_workers": _parallel_workers(server.activity),
        "jit_time": _jit_time(server.jit),
        "slrus": _slrus(server),
    }


def _fixed(server: Server) -> dict[str, str]:
    fixed = {
        item.name: "set on the server's command line: change it there"
        for item in server.settings.values()
        if item.origin == "command line"
    }
    if server.standby:
        fixed |= dict.fromkeys(FOLLOW_PRIMARY, "must match the primary: change it there first")
    return fixed


def _wal(activity: Activity, watched: bool) -> Wal | None:
    timed, requested = activity.checkpoints_timed, activity.checkpoints_requested
    if activity.wal_bytes is None or timed is None or requested is None or activity.window <= 0:
        return None
    return Wal(activity.window, activity.wal_bytes, timed, requested, watched)


def _spills(activity: Activity) -> Spills | None:
    if activity.temp_files is None or activity.temp_bytes is None:
        return None
    return Spills(activity.window, activity.temp_files, activity.temp_bytes)


def _dead_rows(server: Server) -> DeadRows | None:
    """Compare each table's dead rows with its own autovacuum threshold."""
    settings = {item.name: item.setting for item in server.settings.values()}
    times = {item: _times(item, settings) for item in server.relations if _is_large(item)}
    late = {item: each for item, each in times.items() if each > PAST}
    if not late:
        return None
    worst = max(late, key=late.__getitem__)
    return DeadRows(f"{worst.schema}.{worst.name}", late[worst], len(late))


def _is_large(relation: Relation) -> bool:
    return relation.live_rows + relation.dead_rows >= LARGE_TABLE


def _times(relation: Relation, settings: Mapping[str, str]) -> float:
    """Dead rows as a multiple of the table's threshold; 0 where autovacuum is switched off."""
    from mrtuner.vacuum.pace import trigger

    options = relation.storage_parameters
    if options.get("autovacuum_enabled", "true").lower() in {"false", "off", "no", "0"}:
        return 0.0  # `mrtuner vacuum` reports that; no threshold applies
    return relation.dead_rows / trigger(relation.rows, settings, options)


def _buffer_writes(activity: Activity) -> BufferWrites | None:
    if activity.clean_stops is None:
        return None
    return BufferWrites(
        activity.backend_writes or 0,
        activity.clean_stops,
        activity.window,
        activity.background_writes,
        activity.evictions,
        activity.backend_fsyncs,
    )


def _full_wal_buffers(activity: Activity) -> FullWalBuffers | None:
    if activity.wal_buffers_full is None or activity.window <= 0:
        return None
    return FullWalBuffers(activity.wal_buffers_full, activity.window)


def _parallel_workers(activity: Activity) -> ParallelWorkers | None:
    planned, launched = activity.parallel_planned, activity.parallel_launched
    return None if planned is None or launched is None else ParallelWorkers(planned, launched)


def _jit_time(jit: JitWork | None) -> JitTime | None:
    return None if jit is None else JitTime(jit.calls, jit.compiling, jit.running)


def _slrus(server: Server) -> Slrus | None:
    """Cache statistics by parameter, for servers that have these parameters (since 17)."""
    known = {
        f"{each.name}_buffers": each
        for each in server.slrus
        if f"{each.name}_buffers" in server.settings and each.seconds > 0
    }
    if not known:
        return None
    return Slrus(
        {name: each.reads / each.seconds for name, each in known.items()},
        {name: each.reads / max(1, each.reads + each.hits) for name, each in known.items()},
    )
