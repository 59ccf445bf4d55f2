"""WAL, checkpoints, and the durability that is never lowered."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mrtuner.formula.expression import MEMORY, Expr, as_expr, greatest, least
from mrtuner.inputs import Workload
from mrtuner.tuning.budget import Chosen
from mrtuner.tuning.crash_recovery import replay
from mrtuner.tuning.measured import PGLZ, SHARED_FLUSHES
from mrtuner.tuning.situation import (
    Disk,
    FullWalBuffers,
    Situation,
    Transactions,
    Wal,
    WalDisk,
)
from mrtuner.tuning.verdict import (
    LZ4,
    Basis,
    Change,
    Keep,
    Offer,
    OwnValue,
    Unknown,
    Verdict,
    rule,
)
from mrtuner.units import Bytes, GiB, KiB, MiB, pretty_bytes, pretty_duration

DOC = "documentation: Write Ahead Log"
CHECKPOINTS = "documentation: WAL Configuration; xlog.c: CalculateCheckpointSegments"
#: WAL that a busy server of this kind may write between two checkpoints; docs/measured-results.md.
USUAL_WAL = {
    Workload.WEB: 8 * GiB,
    Workload.OLTP: 16 * GiB,
    Workload.MIXED: 16 * GiB,
    Workload.OLAP: 16 * GiB,
    Workload.DESKTOP: 2 * GiB,
}
#: No gain was seen above this; also the limit for half of memory.
MOST_WAL = Bytes(64 * GiB)
#: The limit if the size of WAL's volume is unknown: a full volume stops the server.
UNSEEN_WAL = Bytes(4 * GiB)
#: The server's own default, which is nobody's choice.
USUAL_MAX_WAL = GiB
#: Eight segments; with less, the server does little but checkpoints.
LEAST_WAL = Bytes(128 * MiB)
#: The longest crash recovery [s] if --rto does not say.
USUAL_RTO = 600.0
#: One in ten checkpoints may be forced without harm.
FEW = 0.1
#: A commit waits so many requests' time for others. Twice as much cost a stream of inserts what it
#: had gained, four times as much two fifths of its throughput.
DELAYED_REQUESTS = 1.5
#: Where transactions were watched: at most so many, which TPC-B gained by, and at most this share
#: of a transaction, since with all sessions waiting that is what throughput could lose.
MOST_DELAYED_REQUESTS = 6
DELAYED_SHARE = 0.25
#: The file system that writes a page whole or not at all, as long as its records are no smaller; of
#: others nothing is known. Source: documentation, Reliability; OpenZFS, Workload Tuning.
WHOLE_PAGES = "zfs"
UNLESS_ZFS = "unless the data are on ZFS with a recordsize of 8 kB or more"
#: The longest delay [us]; more was not measured.
MOST_DELAY = 2000
#: The default of commit_siblings: so many others must be in a transaction.
SIBLINGS = 5


@rule(
    "wal_buffers",
    basis=Basis.ARITHMETIC,
    source=DOC + "; xlog.c: XLOGChooseNumBuffers",
    risk="restart",
)
def wal_buffers_one_segment(
    chosen: Chosen, situation: Situation, full: FullWalBuffers | None
) -> Verdict:
    """16 MB where the automatic value (a thirty-second of shared_buffers) would be less and memory
    is 1 GB or more; below 1 GB a thirty-second of what exceeds 512 MB, if that is more. 64 MB on 32
    CPUs and more with buffers of 8 GB and an eighth of memory; else the automatic value. Where
    sessions were measured to find them full more than once a second: 64 MB, or twice what is in
    force, 256 MB at most.
    """
    if full and full.rate > 1 and (more := _more_wal_buffers(situation)):
        because = f"they were full {full.times:,} times {situation.observed}"
        return Change(more, f"{because}: sessions wrote WAL themselves", Basis.OBSERVED)
    if situation.memory is None:
        return Keep("automatic: a thirty-second of shared_buffers, at most one segment")
    buffers = chosen.size("shared_buffers").evaluate(situation.machine)
    spared = min(16 * MiB, (situation.memory.size - 512 * MiB) // 32)
    if buffers < 512 * MiB:
        if spared <= buffers // 32:
            return Keep("automatic: too little memory for a whole segment")
        whole = spared == 16 * MiB
        size = "one segment" if whole else "a thirty-second of the memory beyond 512 MB"
        return Change(spared, f"{size}; automatic would be less")
    # Where sessions have taken half of the buffers, the budget has nothing to spare.
    enough = max(8 * GiB, situation.memory.size // 8)
    segment = int(situation.running.get("wal_segment_size") or 16 * MiB)
    if situation.cpus and situation.cpus.count >= 32 and buffers >= enough and segment < 64 * MiB:
        return Change(64 * MiB, "many CPUs write WAL at once")
    return Keep("automatic: one segment, since shared_buffers reach 512 MB")


def _more_wal_buffers(situation: Situation) -> int | None:
    """The next size in bytes; None if the present one is the largest that is useful."""
    now = int(situation.running.get("wal_buffers", 0)) * 8 * KiB
    return None if now >= 256 * MiB else min(256 * MiB, max(64 * MiB, now * 2))


@rule(
    "checkpoint_timeout",
    basis=Basis.ARITHMETIC,
    source=CHECKPOINTS,
    risk="crash recovery takes longer: the report shows how long",
    own=OwnValue.LEFT,
)
def checkpoint_timeout_by_workload(situation: Situation) -> Verdict:
    """15 minutes (30 for OLAP, 5 on a desktop): each page is written to WAL in full only once
    in an interval.
    """
    if situation.workload is Workload.DESKTOP:
        return Keep("a desktop writes little and should recover at once")
    minutes = 30 if situation.workload is Workload.OLAP else 15
    return Change(
        f"{minutes}min",
        "fewer full-page images: each page is logged in full only once per checkpoint interval",
    )


@rule(
    "checkpoint_completion_target",
    basis=Basis.ARITHMETIC,
    source=CHECKPOINTS + "; release notes 14",
    risk="none",
)
def checkpoint_completion_target_default() -> Verdict:
    """0.9, the default since 14: the writing is spread over the interval."""
    return Change(0.9, "spreads the writing over nine tenths of the interval")


@dataclass(frozen=True, slots=True)
class WalLimit:
    """An upper limit of max_wal_size [bytes], and the reason for it."""

    size: Bytes
    words: str


@dataclass(frozen=True, slots=True)
class WalLimits:
    """What limits max_wal_size: the volume, and the recovery time allowed."""

    volume: WalLimit
    recovery: WalLimit
    asked: bool  # the recovery time was given with --rto
    danger: int | None  # more than this [bytes] can fill the volume; None: unknown

    @property
    def least(self) -> WalLimit:
        return min(self.recovery, self.volume, key=lambda limit: limit.size)

    def kept(self, now: int) -> int:
        """How much of a value in force is kept: all of it, but for --rto and a volume it may
        fill.
        """
        kept = min(now, self.recovery.size) if self.asked else now
        return min(kept, self.volume.size) if self.fills(kept) else kept

    def binding(self, now: int) -> WalLimit:
        """The limit to name as the reason: the one that lowers the present value, if one does."""
        if self.asked and self.recovery.size < now:
            return self.recovery
        return self.volume if self.fills(now) else self.least

    def fills(self, now: int) -> bool:
        """Whether WAL can fill the volume with a value in force."""
        return self.danger is not None and now > self.danger


def limits_of(situation: Situation) -> WalLimits:
    """What the volume holds, and what can be replayed in the recovery time allowed."""
    asked = situation.rto is not None
    seconds = situation.rto.seconds if situation.rto else USUAL_RTO
    # The worst case of a disk takes hours, whatever the size: only who asks pays in checkpoints.
    pace = replay(situation, assume=asked)
    replayed = Bytes(max(GiB, int(seconds * pace.slow)))
    where = f" {pace.how}" if pace.assumed else ""
    why = " (--rto)" if asked else ": give --rto to change it"
    words = f"limited to what {pretty_duration(seconds)} can replay{where}{why}"
    return WalLimits(
        _limit_of_volume(situation.disk, situation.wal_disk),
        WalLimit(replayed, words),
        asked,
        volume_filled_by_wal(situation),
    )


def volume_filled_by_wal(situation: Situation) -> int | None:
    """The max_wal_size [bytes] above which WAL can fill its volume: half of it; None: unknown."""
    disk = situation.wal_disk or situation.disk
    return None if disk is None or disk.size is None else disk.size // 2


def _limit_of_volume(disk: Disk | None, wal_disk: WalDisk | None) -> WalLimit:
    if wal_disk is None:
        if disk is None:
            return WalLimit(
                UNSEEN_WAL, f"{_at_most(UNSEEN_WAL)} while the disk is unknown (--disk)"
            )
        return WalLimit(Bytes(max(LEAST_WAL, disk.room_for_wal)), "limited by disk size")
    if wal_disk.room_for_wal is not None:
        room = Bytes(max(LEAST_WAL, wal_disk.room_for_wal))
        return WalLimit(room, "limited by the size of WAL's own volume")
    room = Bytes(min(UNSEEN_WAL, disk.room_for_wal) if disk else UNSEEN_WAL)
    return WalLimit(room, f"{_at_most(room)} while WAL's volume is unknown (--wal-disk)")


def _at_most(size: int) -> str:
    return f"at most {pretty_bytes(size)}"


@rule(
    "max_wal_size",
    basis=Basis.CONVENTION,
    source=CHECKPOINTS,
    risk="that much disk is used; crash recovery may read it all",
)
def max_wal_size_for_one_interval(situation: Situation, chosen: Chosen) -> Verdict:
    """Enough that the clock, not the volume, starts checkpoints. From the WAL rate that the
    server shows, if its counters cover enough; else by workload (2 to 16 GB), four times memory
    at most, growing to half of memory (64 GB at most) on large machines that are no desktops. If
    more than a tenth of the checkpoints were forced by WAL, the average rate is not believed: at
    least twice the present value. Never more than fits the volume: a tenth of it (but 1 GB, if a
    quarter holds that) or a quarter of what is free; half of a volume that pg_wal has to itself;
    4 GB for a described machine if neither is known; a live server's value is not raised then.
    Never more than can be replayed in ten minutes, or in --rto, which goes no lower than 1 GB and
    takes a hard disk to do 150 requests a second, unless --iops says otherwise. Never below a live
    server's own value, unless --rto asks for it or WAL can fill the volume.
    """
    limits, wal = limits_of(situation), situation.wal
    now = int(situation.running.get("max_wal_size", 0)) * MiB
    if wal and now:
        return _measured_room(situation, chosen, wal, limits)
    usual, size = USUAL_WAL[situation.workload], _usual_room(situation)
    because = f"up to {pretty_bytes(usual)} is usual for {situation.workload}"
    if situation.memory and usual < _evaluated(size, situation):
        because = f"half of memory, at most {pretty_bytes(MOST_WAL)}"
    asked = (limits.asked and limits.recovery.size < now) or limits.fills(now)
    if asked or limits.least.size < _evaluated(size, situation):
        size = least(size, limits.least.size)
        because += f", {limits.binding(now).words}"
    to = greatest(size, as_expr(limits.kept(now))) if now else size
    if situation.memory and (unseen := _unseen(situation, now, _evaluated(to, situation))):
        return unseen
    return Change(to, because, asked=asked)


def _unseen(situation: Situation, now: int, to: int) -> Verdict | None:
    """Why a live server's value is not raised: WAL might fill a volume that nobody has seen."""
    disk, wal_disk = situation.disk, situation.wal_disk
    seen = disk is not None if wal_disk is None else wal_disk.room_for_wal is not None
    if seen or not 0 < now < to:
        return None
    if disk is None:
        return Unknown(("--disk or --wal-disk",))
    # pg_wal may be a link out of a data directory that is closed to us: most often it is not.
    if situation.chosen_by_person("max_wal_size") and now != USUAL_MAX_WAL:
        return Keep("your choice; more only where the size of WAL's volume is known (--wal-disk)")
    return None


def _evaluated(size: Expr, situation: Situation) -> int:
    """The size on this machine; as large as any where the memory is unknown."""
    return size.evaluate(situation.machine) if situation.memory else MOST_WAL


def _usual_room(situation: Situation) -> Expr:
    size = least(MEMORY * 4, USUAL_WAL[situation.workload])
    if situation.workload is Workload.DESKTOP:
        return size
    return greatest(size, least(MEMORY / 2, MOST_WAL))


def _measured_room(situation: Situation, chosen: Chosen, wal: Wal, limits: WalLimits) -> Verdict:
    """PostgreSQL forces a checkpoint after max_wal_size / (1 + completion target), in whole
    segments and one early; this reverses both.
    """
    segment = int(situation.running.get("wal_segment_size", 16 * MiB))
    interval = int(chosen.plain["checkpoint_timeout"])
    spread = 1 + float(chosen.plain["checkpoint_completion_target"])
    segments = ceil(wal.peak_rate * interval / segment) + 1
    room = ceil(segments * spread) * segment
    now = int(situation.running["max_wal_size"]) * MiB
    total = wal.timed + wal.requested
    told = f"{wal.requested} of {total} checkpoints were requested {situation.observed}"
    needs = f"an interval needs {pretty_bytes(room)}"
    if not wal.watched and forced_by_volume(wal, now / spread) > FEW:
        room, told = (
            max(room, 2 * now),
            f"{told}: peaks exceed the average; measure them with --watch",
        )
        needs = f"at least twice {pretty_bytes(now)}"
    held = max(min(room, limits.least.size), limits.kept(now))
    bound = f", {limits.binding(now).words}" if held < max(room, now) else ""
    if held == now:
        return Keep(f"{told}; {needs}{bound}")
    if unseen := _unseen(situation, now, held):
        return unseen
    rate = f"{pretty_bytes(int(wal.peak_rate))}/s of WAL at peak over {interval // 60} min"
    return Change(held, f"{rate}{bound}; {told}", Basis.OBSERVED, calls_for_less=True)


def forced_by_volume(wal: Wal, trigger: float) -> float:
    """The share of checkpoints forced by the volume of WAL.

    Requested ones include CHECKPOINT, backups and CREATE DATABASE: at most one for every
    `trigger` [bytes] of WAL can have been forced.
    """
    total = wal.timed + wal.requested
    return min(wal.requested, wal.written / trigger) / total if total else 0.0


@rule(
    "min_wal_size",
    source=DOC,
    risk="that much disk stays in use",
)
def min_wal_size_a_quarter_of_max(chosen: Chosen) -> Verdict:
    """A quarter of max_wal_size: segments are renamed for reuse instead of created."""
    return Change(
        greatest(80 * MiB, chosen.size("max_wal_size") / 4),
        "a quarter: recycling WAL files is cheaper than creating them",
    )


@rule(
    "wal_compression",
    source=DOC + "; docs/measured-results.md",
    risk="some CPU for each full-page image",
)
def wal_compression_lz4(situation: Situation) -> Verdict:
    """lz4 if a live server proves that its build has it; else left as it is. pglz cut WAL to a
    quarter when measured, but took a fifth of the throughput where the CPU was the limit, and gave
    none back where I/O operations were. A server built without lz4 does not start with it.
    """
    if situation.running.get("wal_compression") in {"lz4", "zstd"}:
        return Keep("already a fast method")
    if "lz4" in situation.enum_values.get("wal_compression", ()):
        return Change("lz4", "this build has lz4: less WAL for little CPU", Basis.CONVENTION)
    pglz = "pglz costs more CPU than it gives back"
    if situation.major < 15:
        return Keep(f"{pglz}; lz4 came with 15", measured=PGLZ)
    if situation.live:
        return Keep(f"this build lacks lz4, and {pglz}", measured=PGLZ)
    return Keep(f"lz4 only if the build has it, and {pglz}", Offer("lz4", LZ4), PGLZ)


@rule("wal_level", source=DOC, risk="lowering it stops replication and archiving")
def wal_level_replica() -> Verdict:
    """Never touched: `minimal` stops a server that archives from starting, and every replica
    from following. (PgTune's desktop profile sets it.)
    """
    return Keep("replicas and archives depend on it")


def _durable(situation: Situation, name: str, harm: str) -> Verdict:
    if situation.running.get(name) == "off":
        return Change("on", f"it is off: {harm}")
    return Keep("durability is never lowered")


@rule("fsync", source=DOC, risk="slower commits, but data survives a crash", suggestion=True)
def fsync_on(situation: Situation) -> Verdict:
    """On. Where it is off, we say so and leave the change to you."""
    return _durable(situation, "fsync", "a crash of the machine can destroy every database")


@rule(
    "full_page_writes", source=DOC, risk="more WAL, but torn pages can be repaired", suggestion=True
)
def full_page_writes_on(situation: Situation) -> Verdict:
    """On. Where it is off, we say so and leave the change to you, unless the data are on ZFS, which
    tears no page: it writes records of at least 8 kB as a whole.
    """
    if situation.running.get("full_page_writes") == "off":
        if situation.filesystem == WHOLE_PAGES:
            return Keep("off, as it may be on ZFS with a recordsize of 8 kB or more")
        if situation.filesystem is None:
            return Change("on", f"it is off: a torn page cannot be repaired, {UNLESS_ZFS}")
    return _durable(situation, "full_page_writes", "a torn page cannot be repaired")


@rule("synchronous_commit", source=DOC, risk="slower commits", suggestion=True)
def synchronous_commit_on(situation: Situation) -> Verdict:
    """Left as it is. Where it is off, we say so and leave the change to you."""
    return _durable(situation, "synchronous_commit", "the last commits before a crash are lost")


@rule(
    "commit_delay",
    source=DOC + "; docs/measured-results.md",
    risk="where six or more sessions write at once, a commit waits this long for others",
    own=OwnValue.LEFT,
)
def commit_delay_where_requests_are_few(
    situation: Situation, transactions: Transactions | None
) -> Verdict:
    """One and a half requests' time of a volume that allows at most 6,000 a second, 2 ms at most:
    0.5 ms at 3,000. Commits that wait share a flush, which takes one request. Where a watched load
    shows that transactions take long, a quarter of their average, but at most six requests' time.
    It never delays fewer than six sessions that write at once (commit_siblings). Left as it is
    elsewhere: at 16,000 requests a second it cost a tenth when measured.
    """
    volume, sessions = situation.throughput, situation.connections
    few = sessions.active or sessions.wanted
    if situation.workload in {Workload.OLAP, Workload.DESKTOP}:
        return Keep("few sessions commit at the same time")
    if volume is None or volume.iops is None:
        return Keep("concurrent commits already share a flush; it helps where --iops is low")
    if not volume.few_requests:
        return Keep(f"{volume.iops:,} requests a second: a flush takes one of many")
    if situation.wal_disk is not None:
        return Keep("WAL has a volume of its own")
    if few is not None and few <= SIBLINGS:
        return Keep(f"it delays nothing below {SIBLINGS + 1} sessions that write at once")
    return _delayed(volume.iops, situation, transactions)


def _delayed(iops: int, situation: Situation, transactions: Transactions | None) -> Change:
    request = 1_000_000 / iops  # us
    delay = min(MOST_DELAY, int(DELAYED_REQUESTS * request))
    because = f"commits share a flush, which takes one of {iops:,} requests a second"
    share = DELAYED_SHARE * transactions.took * 1_000_000 if transactions else 0.0
    longer = min(MOST_DELAY, int(min(MOST_DELAYED_REQUESTS * request, share)))
    if transactions is None or longer <= delay:
        return Change(delay, because, measured=SHARED_FLUSHES)
    took = f"a transaction took {1000 * transactions.took:.1f} ms {situation.observed}"
    shorter = longer < int(situation.running.get("commit_delay", 0))
    return Change(longer, f"{because}; {took}", None if shorter else Basis.OBSERVED)
