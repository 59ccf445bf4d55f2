"""What a running server adds to a situation: its settings, its build and its counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mrtuner.postgres.model import FOLLOW_PRIMARY
from mrtuner.tuning.situation import (
    ENOUGH_CHECKPOINTS,
    ENOUGH_SECONDS,
    BufferWrites,
    Commits,
    DeadRows,
    FullWalBuffers,
    JitTime,
    ParallelWorkers,
    Partitions,
    Seen,
    Slrus,
    Spills,
    Transactions,
    Wal,
    Window,
)
from mrtuner.units import pretty_duration
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.postgres.model import Activity, JitWork, Partitioned, Relation, Server

#: A load that lies further back than this [s] no longer dominates the counters.
A_DAY = 86_400
#: Inserts of this share of a table's rows, of which it has at least so many, are a load.
FILLED = 0.8
SOME_ROWS = 100_000
#: Fewer do not show how long transactions take.
SOME_COMMITS = 1000
#: Tables with fewer rows than this are vacuumed in a moment.
LARGE_TABLE = 1_000_000
#: Dead rows at this multiple of the threshold mean autovacuum is late; just past it is normal.
PAST = 1.5


def observed(server: Server | None, seen: Seen) -> dict[str, Any]:
    """Return what a server adds, by the field names of `Situation`; empty without a server.

    Counters that cover too little are left out: `too_short` says so.
    """
    if server is None:
        return {}
    settings, activity = server.settings.values(), server.activity
    window = _window(server, seen)
    counted: dict[str, Any] = {}
    if window.shows_wal_rate:
        counted["wal"] = _wal(activity, seen is not Seen.RESET)
    if seen is Seen.WATCHED:
        counted["transactions"] = _transactions(activity)
    if window.long_enough:
        counted |= {
            "spills": _spills(activity),
            "buffer_writes": _buffer_writes(activity),
            "full_wal_buffers": _full_wal_buffers(activity),
            "parallel_workers": _parallel_workers(activity),
            "commits": _commits(activity),
            "jit_time": _jit_time(server.jit),
            "slrus": _slrus(server),
        }
    return counted | {
        "running": {item.name: item.setting for item in settings},
        "origins": {item.name: item.origin for item in settings},
        "enum_values": {item.name: item.enumvals for item in settings if item.enumvals},
        "fixed": _fixed(server),
        "window": window,
        "dead_rows": _dead_rows(server),
        "partitions": _partitions(server.partitioned),
    }


def too_short(window: Window) -> str | None:
    """Say that counters were not used, and why; None if they were."""
    if window.long_enough:
        return None
    if window.loaded:
        return (
            f"the server's counters were not used: {window.loaded} was loaded in the "
            f"{pretty_duration(window.seconds)} that they cover"
        )
    use = "used only for the rate of WAL" if window.shows_wal_rate else "not used"
    return (
        f"the server's counters were {use}: they cover {pretty_duration(window.seconds)} and "
        f"{plural(window.checkpoints or 0, 'checkpoint')}, and an hour with "
        f"{ENOUGH_CHECKPOINTS} is needed; a history (mrtuner record) shows the busiest times"
    )


def _window(server: Server, seen: Seen) -> Window:
    activity = server.activity
    timed, requested = activity.checkpoints_timed, activity.checkpoints_requested
    known = timed is not None and requested is not None
    checkpoints = (timed or 0) + (requested or 0) if known else None
    loaded = _loaded(server.relations) if activity.window < A_DAY else None
    return Window(activity.window, checkpoints, seen, loaded)


def _loaded(relations: Sequence[Relation]) -> str | None:
    """The largest table, if it was filled in this window and hardly changed since.

    A bulk load writes WAL, buffers and temporary files such as the usual load never does.
    """
    if not relations:
        return None
    largest = max(relations, key=lambda one: one.size)
    inserted = largest.written - largest.changed
    filled = inserted >= largest.live_rows * FILLED and largest.live_rows >= SOME_ROWS
    if filled and largest.changed < largest.live_rows / 2:
        return f"{largest.schema}.{largest.name}"
    return None


def _fixed(server: Server) -> dict[str, str]:
    fixed = {
        item.name: "set on the server's command line: change it there"
        for item in server.settings.values()
        if item.origin == "command line"
    }
    if server.platform.name == "aurora":
        fixed |= _of_aurora(server.major)
    if server.standby:
        why = "must not be lower than on the primary: raise it here first, lower it there first"
        fixed |= dict.fromkeys(FOLLOW_PRIMARY, why)
    return fixed


def _of_aurora(major: int) -> dict[str, str]:
    """What Aurora sizes itself, or has in no parameter group, and why."""
    from mrtuner.catalog.families import AURORA, families, family
    from mrtuner.tuning.verdict import RULES

    name = f"aurora-postgresql{major}"
    return family(name).refusals(RULES) if name in families() else AURORA


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
    if settings.get("autovacuum") == "off":
        return None  # the danger says so: a faster vacuum would not start either
    large = (one for one in server.relations if one.live_rows + one.dead_rows >= LARGE_TABLE)
    times = {item: _times(item, settings) for item in large}
    late = {item: each for item, each in times.items() if each > PAST}
    if not late:
        return None
    worst = max(late, key=late.__getitem__)
    return DeadRows(f"{worst.schema}.{worst.name}", late[worst], len(late))


def _times(relation: Relation, settings: Mapping[str, str]) -> float:
    """Dead rows as a multiple of the table's threshold; 0 where autovacuum is switched off."""
    from mrtuner.vacuum.pace import trigger
    from mrtuner.vacuum.storage_parameters import ENABLED, is_off

    options = relation.storage_parameters
    if is_off(options, ENABLED):
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
    )


def _full_wal_buffers(activity: Activity) -> FullWalBuffers | None:
    if activity.wal_buffers_full is None or activity.window <= 0:
        return None
    return FullWalBuffers(activity.wal_buffers_full, activity.window)


def _parallel_workers(activity: Activity) -> ParallelWorkers | None:
    planned, launched = activity.parallel_planned, activity.parallel_launched
    return None if planned is None or launched is None else ParallelWorkers(planned, launched)


def _commits(activity: Activity) -> Commits | None:
    if activity.commits is None or activity.window <= 0:
        return None
    return Commits(activity.commits / activity.window)


def _transactions(activity: Activity) -> Transactions | None:
    spent, commits = activity.active_ms, activity.commits or 0
    return Transactions(spent / 1000 / commits) if spent and commits >= SOME_COMMITS else None


def _partitions(found: Partitioned | None) -> Partitions | None:
    return None if found is None else Partitions(f"{found.schema}.{found.name}", found.locks)


def _jit_time(jit: JitWork | None) -> JitTime | None:
    """Statements that were compiled; None if their own counters cover too little (17 and later)."""
    if jit is None or (jit.seconds is not None and jit.seconds < ENOUGH_SECONDS):
        return None
    return JitTime(jit.calls, jit.compiling, jit.running)


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
