"""One run of one variant: a warm-up that is dropped, then the load between two checkpoints."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.bench.engine.collect import Collector, differences, statistics
from mrtuner.bench.engine.machine import canary, noise_between, read
from mrtuner.bench.load.drivers import CommandDriver, Driver, PgbenchDriver, SysbenchDriver
from mrtuner.bench.load.pgbench import BUILTIN, PATIENCE_S, Load, sampling_for
from mrtuner.bench.plan.cells import Block
from mrtuner.bench.plan.model import GridCell, Plan
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import now
from mrtuner.bench.server.scratch import read_only
from mrtuner.bench.server.session import counted_checkpoint, counters, timed_checkpoint
from mrtuner.postgres.connect import connect
from mrtuner.postgres.local import postmaster_of
from mrtuner.stats.steady import LEAST_WARM_UP, settled

if TYPE_CHECKING:
    from typing import LiteralString

    from mrtuner.postgres.connect import Connection


@dataclass(frozen=True, slots=True)
class RunPosition:
    """A run's place in the order of the plan."""

    block: Block
    attempt: int
    position: int  # from 1, in its block
    label: str
    variant: str


@dataclass(frozen=True)
class RunFiles:
    """The plan's scripts as files for pgbench, and what every run needs."""

    plan: Plan
    directory: Path
    program: Path
    #: How many times an unsettled warm-up is extended by its own length.
    patience: int = 2
    overtime: int = PATIENCE_S  # seconds that pgbench may run beyond the planned end

    def seed(self, place: RunPosition) -> int:
        """pgbench's seed: the same for all variants of a block; the next block has the next."""
        return self.plan.seed + place.block.number

    def driver(self, cell: GridCell, rate: float | None = None) -> Driver:
        """The driver of a cell's load, at this rate [tps] or at full speed."""
        known = self.plan.by_name[cell.workload]
        if known.sysbench is not None:
            return SysbenchDriver(known.sysbench, cell, rate, known.protocol == "simple")
        if known.command is not None:
            return CommandDriver(known.command, cell, self.plan.threads)
        return PgbenchDriver(self.program, self.load(cell), self.options(cell, rate))

    def dsn(self, cell: GridCell, dsn: str) -> str:
        """Where the load connects: read-only if the workload says that it only reads."""
        return read_only(dsn) if self.plan.by_name[cell.workload].reads else dsn

    def script(self, workload: str, scale: int) -> list[str]:
        """pgbench's options for the scripts of a workload, which are written to files."""
        known = self.plan.by_name[workload]
        if known.builtin is not None:
            return [f"--builtin={BUILTIN[known.builtin]}"]
        files = []
        for number, script in enumerate(known.scripts, 1):
            file = self.directory / f"{workload}-{number}-{script.name}"
            file.write_text(script.text, encoding="utf-8")
            files.append(f"--file={file}@{script.weight}")
        if known.parts:
            files.append("-r")  # its long name was different before 15
        # pgbench finds the scale by itself only for its built-in scripts.
        return [*files, f"--scale={scale}"]

    def options(self, cell: GridCell, rate: float | None) -> list[str]:
        """pgbench's options for the script, the rate and the latency limit."""
        options = self.script(cell.workload, cell.scale)
        if rate is not None:
            options.append(f"--rate={rate:g}")
            if self.plan.latency_limit is not None:
                options.append(f"--latency-limit={self.plan.latency_limit}")
        return options

    def load(self, cell: GridCell) -> Load:
        known = self.plan.by_name[cell.workload]
        return Load(
            scale=cell.scale, clients=cell.clients, threads=self.plan.threads,
            seconds=self.plan.seconds, protocol=known.protocol, overtime=self.overtime,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunTarget:
    """The server that a run measures."""

    dsn: str = field(repr=False)  # may hold a password
    data: Path | None  # the server's files; None where we have no access
    local: bool
    rate: float | None  # transactions a second to ask for
    companions: tuple[int, ...] = ()  # processes whose work is the server's


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What was run before the measurement, and does not count."""

    first_touch: float | None = None  # seconds that the very first statement took
    seconds: int = 0
    settled: bool = False
    tps: float | None = None


def warm_up(files: RunFiles, place: RunPosition, target: RunTarget) -> WarmUp:
    """Run the load until MSER-5 finds a steady part, or `files.patience` is used up.

    A warm-up that a person made shorter, and a load without figures per second, are not extended.
    """
    length, cell = files.plan.warmup_seconds, place.block.cell
    touch = None
    if files.plan.layered:
        touch = first_touch(target.dsn, writing=not files.plan.by_name[cell.workload].reads_only)
    if not length:
        return WarmUp(touch)
    driver, dsn = files.driver(cell, target.rate), files.dsn(cell, target.dsn)
    series: list[int] = []
    tps = 0.0
    for turn in range(1 + files.patience):
        # Another seed each time: the same draws would touch the same rows again.
        seed = (~files.seed(place) & 0x7FFFFFFF) ^ turn
        run, _ = driver.run(dsn, length, seed)
        tps = run.tps
        series += run.per_second
        steady = settled(series)
        if steady or length < LEAST_WARM_UP or not series:
            return WarmUp(touch, length * (turn + 1), settled=steady, tps=tps)
    return WarmUp(touch, length * (1 + files.patience), settled=False, tps=tps)


def first_touch(dsn: str, *, writing: bool) -> float:
    """Seconds that a first statement takes; it changes no value.

    PostgreSQL opens files for writing even to read: in an image's layer this copies the file.
    """
    query: LiteralString = "SELECT abalance FROM pgbench_accounts WHERE aid = 1"
    change: LiteralString = "UPDATE pgbench_accounts SET abalance = abalance WHERE aid = 1"
    with connect(dsn, own_search_path=True) as session:
        began = time.monotonic()
        session.execute(change if writing else query)
        return time.monotonic() - began


def measured(
    files: RunFiles, place: RunPosition, target: RunTarget, warm: WarmUp, session: Connection
) -> MeasuredRun:
    """Run a checkpoint, the load and a timed checkpoint; MrTunerError if the load fails."""
    cell, started, pace = place.block.cell, now(), canary()
    driver, seconds = files.driver(cell, target.rate), files.plan.seconds
    counted_checkpoint(session)
    postmaster = postmaster_of(session) if target.local else None
    collector = Collector(target.dsn, postmaster, target.data)
    reading = read(postmaster, companions=target.companions)
    before, stats = counters(session), statistics(session)
    if files.plan.variant(place.variant).collect:
        collector.start()
    try:
        sampling = sampling_for((warm.tps or 0) * seconds)
        dsn = files.dsn(cell, target.dsn)
        outcome, log = driver.run(dsn, seconds, files.seed(place), sampling)
    finally:
        collected = collector.finish()
    noise = noise_between(reading, read(postmaster, companions=target.companions))
    after, moved = counters(session), differences(stats, statistics(session))
    return MeasuredRun(
        cell=cell, phase=place.block.phase, block=place.block.number, attempt=place.attempt,
        position=place.position, label=place.label, variant=place.variant, seed=files.seed(place),
        started=started, rate=target.rate, warmup=warm.seconds, warmup_tps=warm.tps,
        settled=warm.settled, canary=pace, run=outcome, times=log.times, slowest=log.slowest,
        skipped=log.skipped, checkpoint=timed_checkpoint(session),
        wal_bytes=after.wal - before.wal, checkpoints_timed=after.timed - before.timed,
        checkpoints_requested=after.requested - before.requested,
        steal=noise.steal, foreign=noise.foreign, series=collected.series, deltas=moved,
        waits=collected.waits, backends=collected.backends, collector_cpu=collected.cost,
        first_touch=warm.first_touch, pause=log.pause, commands=log.commands,
    )  # fmt: skip
