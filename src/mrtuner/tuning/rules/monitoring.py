"""Seeing what the server does."""

from __future__ import annotations

from mrtuner.tuning.situation import Clock, Situation
from mrtuner.tuning.verdict import Change, Keep, Unknown, Verdict, rule

#: Clocks that are read without a system call.
FAST_CLOCKS = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"}


@rule(
    "track_io_timing",
    source="documentation: Run-time Statistics; pg_test_timing",
    risk="a clock reading for each read and write",
)
def time_reads_where_the_clock_is_fast(situation: Situation, clock: Clock | None) -> Verdict:
    """On where the kernel's clock is read without a system call; unknown where the clock is."""
    if situation.running.get("track_io_timing") == "on":
        return Keep("already on")
    if clock is None:
        return Unknown(("the server's clocksource (run pg_test_timing)",))
    if clock.source not in FAST_CLOCKS:
        return Keep(f"reading the clock ({clock.source}) is slow here")
    return Change(True, f"the clock ({clock.source}) is cheap to read, and slow reads show")


@rule(
    "shared_preload_libraries",
    source="documentation: pg_stat_statements",
    risk="restart; a library that is not installed stops the server from starting",
    suggestion=True,
)
def know_your_statements(situation: Situation) -> Verdict:
    """pg_stat_statements added to what is there, as a suggestion: nothing else tells which
    statements cost most.
    """
    running = situation.running.get("shared_preload_libraries", "")
    if "pg_stat_statements" in running:
        return Keep("pg_stat_statements is loaded")
    names = [name.strip() for name in running.split(",") if name.strip()]
    return Change(
        ",".join([*names, "pg_stat_statements"]),
        "tells which statements cost most; then tune those",
    )
