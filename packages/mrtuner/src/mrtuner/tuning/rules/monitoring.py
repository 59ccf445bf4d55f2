"""Settings that show what the server does."""

from __future__ import annotations

from mrtuner.inputs import Workload
from mrtuner.tuning.situation import Clock, Situation
from mrtuner.tuning.verdict import Change, Keep, Unknown, Verdict, rule
from mrtuner.units import Bytes, GiB, MiB, pretty_bytes

SET = "already set: your choice"
LOGGING = "documentation: Error Reporting and Logging"

#: Clocks that are read without a system call.
FAST_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"}


@rule(
    "track_io_timing",
    source="documentation: Run-time Statistics; pg_test_timing; release notes 19",
    risk="reads the clock at each read and write",
)
def track_io_timing_where_the_clock_is_fast(situation: Situation, clock: Clock | None) -> Verdict:
    """On where the clock is read without a system call: the kernel's, or since 19 the processor's
    own, which timing_clock_source names. Unknown where the clock is.
    """
    if situation.running.get("track_io_timing") == "on":
        return Keep("already on")
    if situation.running.get("timing_clock_source") in {"tsc", "auto (tsc)"}:
        return Change(True, "the processor's clock is cheap to read, and slow I/O becomes visible")
    if clock is None:
        return Unknown(("the server's clocksource (run pg_test_timing)",))
    if clock.source not in FAST_CLOCKS:
        return Keep(f"reading the clock ({clock.source}) is slow here")
    return Change(
        True, f"the clock ({clock.source}) is cheap to read, and slow I/O becomes visible"
    )


@rule(
    "shared_preload_libraries",
    source="documentation: pg_stat_statements",
    risk="restart; a library that is not installed stops the server from starting",
    suggestion=True,
)
def shared_preload_libraries_with_pg_stat_statements(situation: Situation) -> Verdict:
    """pg_stat_statements added to what is there, as a suggestion: nothing else tells which
    statements cost most.
    """
    running = situation.running.get("shared_preload_libraries", "")
    if "pg_stat_statements" in running:
        return Keep("pg_stat_statements is already loaded")
    names = [name.strip() for name in running.split(",") if name.strip()]
    return Change(
        ",".join([*names, "pg_stat_statements"]),
        "shows which statements cost most, so that you can tune them",
    )


@rule(
    "log_checkpoints",
    source=LOGGING + "; on by default since 15",
    risk="a log line for each checkpoint",
)
def log_checkpoints_on(situation: Situation) -> Verdict:
    """On, the default since 15: says whether WAL or the clock started it, and how long it took."""
    if situation.running.get("log_checkpoints") == "off" or situation.major < 15:
        return Change(True, "shows what starts checkpoints, and how long they take")
    return Keep("on by default since 15")


@rule("log_lock_waits", source=LOGGING, risk="a log line for each wait above deadlock_timeout",
      suggestion=True)  # fmt: skip
def log_lock_waits_on(situation: Situation) -> Verdict:
    """On, as a suggestion: sessions that wait longer than deadlock_timeout (1 s) are named with
    those that they wait for.
    """
    if situation.major >= 19 and situation.running.get("log_lock_waits") != "off":
        return Keep("on by default since 19")
    return Change(
        True, "logs sessions that wait longer than a second for a lock, and which one holds it"
    )


@rule("log_temp_files", source=LOGGING, risk="a log line for each large sort or hash that spills",
      suggestion=True)  # fmt: skip
def log_temp_files_above_a_size(situation: Situation) -> Verdict:
    """64 MB as a suggestion (1 GB for OLAP, where spilling is everyday): names the statements
    whose sorts and hashes spill.
    """
    if _is_set(situation, "log_temp_files"):
        return Keep(SET)
    size = 1024 * MiB if situation.workload is Workload.OLAP else 64 * MiB
    return Change(size, f"logs statements that spill {pretty_bytes(size)} or more at once")


@rule("log_autovacuum_min_duration", source=LOGGING, risk="a log line for each long autovacuum",
      suggestion=True)  # fmt: skip
def log_autovacuum_min_duration_for_long_ones(situation: Situation) -> Verdict:
    """One minute, as a suggestion: shows tables on which vacuum is slow, and dead rows that it may
    not remove. The default is ten minutes; before 15 it is never.
    """
    if _is_set(situation, "log_autovacuum_min_duration", "-1", "600000"):
        return Keep(SET)
    return Change("1min", "shows where vacuum is slow, and what keeps it from removing rows")


@rule("log_min_duration_statement", source=LOGGING,
      risk="a log line, with its literals, for each slow statement", suggestion=True)  # fmt: skip
def log_min_duration_statement_for_slow_ones(situation: Situation) -> Verdict:
    """One second as a suggestion (a minute for OLAP): names slow statements when they happen. Where
    that is too much, log a sample: log_min_duration_sample with log_statement_sample_rate.
    """
    if _is_set(situation, "log_min_duration_statement"):
        return Keep(SET)
    limit = "1min" if situation.workload is Workload.OLAP else "1s"
    return Change(limit, f"names statements that take {limit} or more, with the time of day")


@rule("log_min_duration_sample", source=LOGGING + "; release notes 13", risk="as above, by chance")
def log_min_duration_sample_default() -> Verdict:
    """Left as it is; use it where log_min_duration_statement logs too much."""
    return Keep("for servers on which log_min_duration_statement would log too much")


@rule("max_slot_wal_keep_size", source="documentation: Replication, Sending Servers",
      risk="a standby or consumer that falls further behind must be set up again",
      suggestion=True)  # fmt: skip
def max_slot_wal_keep_size_by_disk(situation: Situation) -> Verdict:
    """A quarter of WAL's volume, as a suggestion. An abandoned slot otherwise keeps WAL until the
    disk is full and the server stops. Slots are given up only at the end of a checkpoint, so what
    is written until the next one, about half of max_wal_size, adds to what the slot keeps.
    """
    if _is_set(situation, "max_slot_wal_keep_size"):
        return Keep(SET)
    size = _volume_of_wal(situation)
    if size is None:
        return Unknown(("--disk or --wal-disk",))
    return Change(_plain(size // 4), "otherwise an abandoned slot keeps WAL until the disk is full")


@rule("idle_replication_slot_timeout", source="documentation: Replication; release notes 18",
      risk="a standby or consumer that is away for longer must be set up again",
      suggestion=True)  # fmt: skip
def idle_replication_slot_timeout_two_days(situation: Situation) -> Verdict:
    """Two days, as a suggestion: a slot that nobody uses keeps WAL, and dead rows, until then."""
    if _is_set(situation, "idle_replication_slot_timeout", "-1", "0"):
        return Keep(SET)
    return Change("2d", "a slot that nobody has used for two days is abandoned")


@rule("hot_standby_feedback", source="documentation: Hot Standby", risk="bloat on the primary")
def hot_standby_feedback_default() -> Verdict:
    """Left as it is. On, a standby's long queries keep dead rows on the primary; off, replay
    cancels those queries.
    """
    return Keep("a choice between cancelled queries on the standby and bloat on the primary")


@rule(
    "max_standby_streaming_delay", source="documentation: Hot Standby", risk="replay falls behind"
)
def max_standby_streaming_delay_default() -> Verdict:
    """Left as it is (30 s): longer lets reports on the standby finish, shorter keeps it fresh."""
    return Keep("longer lets reports finish, shorter keeps the standby fresh for a failover")


@rule("max_standby_archive_delay", source="documentation: Hot Standby", risk="replay falls behind")
def max_standby_archive_delay_default() -> Verdict:
    """Left as it is (30 s), as max_standby_streaming_delay."""
    return Keep("as max_standby_streaming_delay, while WAL comes from the archive")


def _is_set(situation: Situation, name: str, *unset: str) -> bool:
    """Whether a live server has a value that someone set; -1, or `unset`, is the default."""
    return situation.running.get(name, "-1") not in (unset or ("-1",))


def _plain(size: int) -> int:
    """Round large sizes down to whole gigabytes, to avoid values such as 64504MB."""
    return size if size < GiB else size // GiB * GiB


def _volume_of_wal(situation: Situation) -> Bytes | None:
    if situation.wal_disk is not None:
        return situation.wal_disk.size
    return situation.disk.size if situation.disk else None


@rule("temp_file_limit", source="documentation: Resource Consumption, Disk",
      risk="cancels statements that write more temporary data", suggestion=True)  # fmt: skip
def temp_file_limit_by_disk(situation: Situation) -> Verdict:
    """A tenth of the disk for each session, a quarter for OLAP, as a suggestion. One runaway join
    otherwise fills the disk with temporary files, and the server stops.
    """
    if _is_set(situation, "temp_file_limit"):
        return Keep(SET)
    if situation.disk is None or situation.disk.size is None:
        return Unknown(("--disk",))
    share = 4 if situation.workload is Workload.OLAP else 10
    return Change(
        _plain(situation.disk.size // share), "otherwise one runaway join can fill the disk"
    )
