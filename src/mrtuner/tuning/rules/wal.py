"""WAL, checkpoints, and the durability that is never lowered."""

from __future__ import annotations

from math import ceil

from mrtuner.formula import MEMORY, Expr, as_expr, greatest, least
from mrtuner.tuning.budget import Chosen
from mrtuner.tuning.situation import Disk, Situation, Wal, Workload
from mrtuner.tuning.verdict import Basis, Change, Keep, Verdict, rule
from mrtuner.units import GiB, MiB, pretty_bytes

DOC = "documentation: Write Ahead Log"
CHECKPOINTS = "documentation: WAL Configuration; xlog.c: CalculateCheckpointSegments"
#: WAL that a busy server of the kind may write between two checkpoints; docs/proof.md.
USUAL_WAL = {
    Workload.WEB: 8 * GiB,
    Workload.OLTP: 16 * GiB,
    Workload.MIXED: 16 * GiB,
    Workload.OLAP: 16 * GiB,
    Workload.DESKTOP: 2 * GiB,
}
#: One in ten checkpoints may be forced without harm.
FEW = 0.1


@rule(
    "wal_buffers",
    basis=Basis.ARITHMETIC,
    source=DOC + "; xlog.c: XLOGChooseNumBuffers",
    risk="restart",
)
def one_segment(chosen: Chosen, situation: Situation) -> Verdict:
    """16 MB where the automatic value (a thirty-second of shared_buffers) would be less;
    64 MB on 32 CPUs and more with buffers of 8 GB; else the automatic value.
    """
    if situation.memory is None:
        return Keep("automatic: a thirty-second of shared_buffers, one segment at most")
    buffers = chosen.size("shared_buffers").evaluate(situation.machine)
    if buffers < 512 * MiB:
        return Change(16 * MiB, "one segment; automatic would be less below 512 MB of buffers")
    if situation.cpus and situation.cpus.count >= 32 and buffers >= 8 * GiB:
        return Change(64 * MiB, "many CPUs write WAL at once")
    return Keep("automatic: one segment, since shared_buffers reach 512 MB")


@rule(
    "checkpoint_timeout",
    basis=Basis.ARITHMETIC,
    source=CHECKPOINTS,
    risk="crash recovery takes longer: the report shows how long",
)
def a_quarter_of_an_hour(situation: Situation) -> Verdict:
    """15 minutes (30 for OLAP, 5 on a desktop): each page is written to WAL in full only once
    in an interval. A longer one that you set stays.
    """
    if situation.workload is Workload.DESKTOP:
        return Keep("a desktop writes little and should recover at once")
    minutes = 30 if situation.workload is Workload.OLAP else 15
    running = situation.running.get("checkpoint_timeout")
    if running is not None and int(running) > minutes * 60:
        return Keep("longer still: your choice")
    return Change(f"{minutes}min", "fewer full-page images: one for each page in an interval")


@rule(
    "checkpoint_completion_target",
    basis=Basis.ARITHMETIC,
    source=CHECKPOINTS + "; release notes 14",
    risk="none",
)
def spread_the_writing() -> Verdict:
    """0.9, the default since 14: the writing is spread over the interval."""
    return Change(0.9, "spreads the writing over nine tenths of the interval")


@rule(
    "max_wal_size",
    basis=Basis.CONVENTION,
    source=CHECKPOINTS,
    risk="that much disk is used; crash recovery may read it all",
)
def room_for_one_interval(
    situation: Situation, chosen: Chosen, wal: Wal | None, disk: Disk | None
) -> Verdict:
    """Enough that the clock, not the volume, starts checkpoints. From the measured WAL rate
    where there is one; else by workload (2 to 16 GB), four times memory at most, growing to
    half of memory (64 GB at most) on large machines that are no desktops. Never more than a
    tenth of the disk or a quarter of what is free, and never below a live server's own value.
    """
    if wal and wal.representative:
        return _measured_room(situation, chosen, wal, disk)
    usual = USUAL_WAL[situation.workload]
    size = least(MEMORY * 4, usual)
    if situation.workload is not Workload.DESKTOP:
        size = greatest(size, least(MEMORY / 2, 64 * GiB))
    because = f"up to {pretty_bytes(usual)} is usual for {situation.workload}"
    if disk:
        return _never_less(situation, least(size, disk.room_for_wal), because + ", and the disk")
    return _never_less(situation, size, because + "; the disk is not known, see that it is there")


def _measured_room(situation: Situation, chosen: Chosen, wal: Wal, disk: Disk | None) -> Verdict:
    """PostgreSQL forces a checkpoint after max_wal_size / (1 + completion target), in whole
    segments and one early; this undoes both.
    """
    segment = int(situation.running.get("wal_segment_size", 16 * MiB))
    interval = int(chosen.plain["checkpoint_timeout"])
    spread = 1 + float(chosen.plain["checkpoint_completion_target"])
    segments = ceil(wal.peak_rate * interval / segment) + 1
    room = ceil(segments * spread) * segment
    forced = f"{wal.requested} of {wal.timed + wal.requested} checkpoints were requested"
    held = min(room, disk.room_for_wal) if disk else room
    limit = "" if held == room else f", held to {pretty_bytes(held)} by the disk"
    now = int(situation.running["max_wal_size"]) * MiB
    if held <= now:
        needs = f"{forced}; an interval needs {pretty_bytes(room)}"
        return Keep(needs if room <= now else needs + limit)
    rate = f"{pretty_bytes(int(wal.peak_rate))}/s of WAL at peak over {interval // 60} min"
    return Change(held, f"{rate}{limit}; {forced}", Basis.MEASURED)


def _never_less(situation: Situation, size: Expr, because: str) -> Verdict:
    running = situation.running.get("max_wal_size")
    if running is None:
        return Change(size, because)
    return Change(greatest(size, as_expr(int(running) * MiB)), because)


@rule(
    "min_wal_size",
    source=DOC,
    risk="that much disk stays in use",
)
def keep_segments_for_reuse(chosen: Chosen) -> Verdict:
    """A quarter of max_wal_size: segments are renamed for reuse instead of made anew."""
    return Change(
        greatest(80 * MiB, chosen.size("max_wal_size") / 4), "a quarter: reuse beats making anew"
    )


@rule(
    "wal_compression",
    basis=Basis.MEASURED,
    source=DOC + "; docs/proof.md",
    risk="some CPU for each full-page image",
)
def only_a_cheap_one(situation: Situation) -> Verdict:
    """lz4 where a live server proves that its build has it; else left as it is. pglz cut WAL to a
    quarter when measured, but took about a fifth of the throughput where the CPU binds and
    gave none back where I/O operations do. (PgTune writes lz4 unseen: a build without it does
    not start.)
    """
    if situation.running.get("wal_compression") in {"lz4", "zstd"}:
        return Keep("already a fast one")
    if "lz4" in situation.enum_values.get("wal_compression", ()):
        return Change("lz4", "this build has lz4: less WAL for little CPU", Basis.CONVENTION)
    seen = "this build lacks lz4" if situation.live else "lz4 only where a live server has it"
    return Keep(f"{seen}, and pglz costs more CPU than it gives back")


@rule("wal_level", source=DOC, risk="lowering it stops replication and archiving")
def replicas_and_archives_need_it() -> Verdict:
    """Never touched: `minimal` stops a server that archives from starting, and every replica
    from following. (PgTune's desktop profile sets it.)
    """
    return Keep("replicas and archives depend on it")


def _durable(situation: Situation, name: str, harm: str) -> Verdict:
    if situation.running.get(name) == "off":
        return Change("on", f"it is off: {harm}")
    return Keep("durability is never lowered")


@rule("fsync", source=DOC, risk="slower commits, and data that survive", suggestion=True)
def flush_to_disk(situation: Situation) -> Verdict:
    """On. Where it is off, we say so and leave the change to you."""
    return _durable(situation, "fsync", "a crash of the machine can destroy every database")


@rule("full_page_writes", source=DOC, risk="more WAL, and pages that survive", suggestion=True)
def whole_pages(situation: Situation) -> Verdict:
    """On. Where it is off, we say so and leave the change to you."""
    return _durable(situation, "full_page_writes", "a torn page cannot be repaired")


@rule("synchronous_commit", source=DOC, risk="slower commits", suggestion=True)
def commits_that_hold(situation: Situation) -> Verdict:
    """Left as it is. Where it is off, we say so and leave the change to you."""
    return _durable(situation, "synchronous_commit", "the last commits before a crash are lost")


@rule("commit_delay", source=DOC, risk="every commit waits")
def no_waiting() -> Verdict:
    """Left as it is: commits that meet already share a flush."""
    return Keep("commits that meet share a flush already")
