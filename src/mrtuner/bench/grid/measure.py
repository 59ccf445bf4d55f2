"""One run of one variant: warm up until settled, a checkpoint, the load, a timed checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.bench.grid.cells import Block
from mrtuner.bench.grid.collect import Collector, differences, statistics
from mrtuner.bench.grid.plan import Cell, GridPlan
from mrtuner.bench.grid.record import Taken
from mrtuner.bench.grid.servers import Server
from mrtuner.bench.machine import canary, noise_between, postmaster_of, read
from mrtuner.bench.pgbench import BUILTIN, Load, run_logged
from mrtuner.bench.proof import now, sampling_for
from mrtuner.bench.record import Plan, Sample
from mrtuner.bench.server import counted_checkpoint, counters, timed_checkpoint
from mrtuner.postgres.connect import connect
from mrtuner.stats.steady import mser5

if TYPE_CHECKING:
    pass

#: So often a warm-up is lengthened by its own length before an unsettled one has to do.
_LENGTHENED: Final = 2
#: In shorter warm-ups nothing can be said of settling.
_TELLING_S: Final = 15


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the order a run stands."""

    block: Block
    attempt: int
    position: int  # from 1, in its block
    label: str
    variant: str


@dataclass(frozen=True)
class RunFiles:
    """The plan's scripts as files for pgbench, and what every run needs."""

    plan: GridPlan
    directory: Path
    program: Path

    @cached_property
    def rules(self) -> Plan:
        """The limits by which a block is repeated, as a proof's plan has them."""
        return Plan(
            load=Load(), steal_limit=self.plan.steal_limit, foreign_limit=self.plan.foreign_limit
        )

    def script(self, workload: str, scale: int) -> list[str]:
        """pgbench's options for what is to run."""
        known = self.plan.by_name[workload]
        if known.builtin is not None:
            return [f"--builtin={BUILTIN[known.builtin]}"]
        files = []
        for number, script in enumerate(known.scripts, 1):
            file = self.directory / f"{workload}-{number}-{script.name}"
            file.write_text(script.text, encoding="utf-8")
            files.append(f"--file={file}@{script.weight}")
        # pgbench finds the scale by itself only for the scripts that it brings.
        return [*files, f"--scale={scale}"]

    def options(self, cell: Cell, rate: float | None) -> list[str]:
        """The script, and the pace."""
        options = self.script(cell.workload, cell.scale)
        if rate is not None:
            options.append(f"--rate={rate:g}")
            if self.plan.latency_limit is not None:
                options.append(f"--latency-limit={self.plan.latency_limit}")
        return options

    def load(self, cell: Cell, seconds: int) -> Load:
        """What pgbench is told besides the script."""
        known = self.plan.by_name[cell.workload]
        return Load(
            script=known.script, scale=cell.scale, clients=cell.clients, threads=self.plan.threads,
            seconds=seconds, protocol=known.protocol,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _WarmUp:
    seconds: int
    settled: bool
    tps: float | None


def measured(
    files: RunFiles, place: Place, dsn: str, server: Server, rate: float | None, *, local: bool
) -> Taken:
    """Measure; MrTunerError with pgbench's own words when it dies."""
    cell, started = place.block.cell, now()
    # The same draws for all variants of a block, others in every block.
    seed = files.plan.seed + place.block.number
    options = files.options(cell, rate)
    warm = _warm_up(files, cell, dsn, options, ~seed & 0x7FFFFFFF)
    pace = canary()
    load = files.load(cell, files.plan.seconds)
    with connect(dsn) as session:
        counted_checkpoint(session)
        postmaster = postmaster_of(session.info.backend_pid) if local else None
        collector = Collector(dsn, postmaster, server.data)
        reading, before, stats = read(postmaster), counters(session), statistics(session)
        if files.plan.variant(place.variant).collect:
            collector.start()
        try:
            outcome, log = run_logged(
                dsn, load, options, seed=seed,
                sampling=sampling_for((warm.tps or 0) * load.seconds), program=files.program,
            )  # fmt: skip
        finally:
            collected = collector.finish()
        noise = noise_between(reading, read(postmaster))
        after, moved = counters(session), differences(stats, statistics(session))
        checkpoint = timed_checkpoint(session)
    sample = Sample(
        phase=place.block.phase, block=place.block.number, attempt=place.attempt,
        position=place.position, label=place.label, arm=place.variant, seed=seed, started=started,
        warmup_tps=warm.tps, run=outcome, checkpoint=checkpoint, wal_bytes=after.wal - before.wal,
        checkpoints_timed=after.timed - before.timed,
        checkpoints_requested=after.requested - before.requested,
        steal=noise.steal, foreign=noise.foreign,
    )  # fmt: skip
    return Taken(
        cell=cell, sample=sample, times=log.times, slowest=log.slowest, skipped=log.skipped,
        rate=rate, warmup=warm.seconds, settled=warm.settled, canary=pace,
        series=collected.series, deltas=moved, waits=collected.waits,
        collector_cpu=collected.cost,
    )  # fmt: skip


def _warm_up(files: RunFiles, cell: Cell, dsn: str, options: Sequence[str], seed: int) -> _WarmUp:
    """Run the load until MSER-5 finds a steady part in what was dropped, or patience ends."""
    length = files.plan.warmup_seconds
    if not length:
        return _WarmUp(0, settled=False, tps=None)
    load = files.load(cell, length)
    series: list[int] = []
    tps = 0.0
    for turn in range(1 + _LENGTHENED):
        # Another seed each time: the same draws would touch the same rows again.
        run, _ = run_logged(dsn, load, options, seed=seed ^ turn, program=files.program)
        tps = run.tps
        series += run.per_second
        if length < _TELLING_S or mser5(series) is not None:
            return _WarmUp(length * (turn + 1), settled=length >= _TELLING_S, tps=tps)
    return _WarmUp(length * (1 + _LENGTHENED), settled=False, tps=tps)
