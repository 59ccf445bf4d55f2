"""Input for reports: a real tuning, and a record made by hand so that its numbers are known."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from msgspec import structs

import mrtuner
from bench_grids import a_sample
from mrtuner.bench.load.pgbench import LoadRun
from mrtuner.bench.load.pgbench_output import LatencySummary
from mrtuner.bench.plan.model import GridCell, Phase, Plan, Variant, Workload
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.bench.series import Measured, Series
from mrtuner.stats.histogram import Histogram
from mrtuner.tuning.document import TuneDocument, tune_document
from series_data import contents

SECONDS = 60
SPREAD = 0.08
CELL = GridCell("tpcb", 50, 8)


def tuning() -> TuneDocument:
    """The advice for a machine of 16 GB."""
    return tune_document(
        mrtuner.tune(
            memory="16GB", cpus=4, storage="ssd", workload="oltp", connections=200, postgres=18
        )
    )


def run(tps: float, *, p99: float = 20.0) -> LoadRun:
    return LoadRun(
        transactions=round(tps * SECONDS),
        failed=0,
        tps=tps,
        latency=LatencySummary(
            mean=4.1, stddev=2.0, p50=3.5, p95=9.25, p99=p99, p999=2 * p99, maximum=412.5
        ),
        per_second=(round(tps * 0.75), *[round(tps)] * (SECONDS - 2)),
        sampling=1.0,
        wall=SECONDS + 0.5,
        client_cpu=9.0,
    )


def sample(
    label: str, block: int, position: int, tps: float, *, phase: Phase = "comparison",
    checkpoint: float = 3.0, p99: float = 20.0, attempt: int = 1, rejected: str | None = None,
) -> MeasuredRun:  # fmt: skip
    return a_sample(
        CELL, block, label, tps, phase=phase, attempt=attempt, position=position, seed=42 + block,
        started=f"2026-07-01T12:{block:02}:00.000+00:00", warmup_tps=tps * 0.9,
        run=run(tps, p99=p99), times=Histogram(((3500, 9800), (round(p99 * 1000), 200))),
        checkpoint=checkpoint, wal_bytes=1_500_000_000, checkpoints_timed=0, steal=0.001,
        foreign=0.012, rejected=rejected,
    )  # fmt: skip


def compared(tps: float, ratios: Sequence[float], debt: float = 6.0) -> list[MeasuredRun]:
    """One block per ratio, B first in even ones; `debt` [s] is B's CHECKPOINT, A's takes 3 s."""
    taken = []
    for block, ratio in enumerate(ratios, 1):
        first = 1 + (block % 2 == 0)
        a = sample("current", block, first, tps)
        b = sample("advised", block, 3 - first, tps * ratio, p99=9.0, checkpoint=debt)
        taken += [a, b] if first == 1 else [b, a]
    return taken


def calibrated(tps: float, ratios: Sequence[float]) -> list[MeasuredRun]:
    taken = []
    for block, ratio in enumerate(ratios, 1):
        taken.append(sample("current", block, 1, tps, phase="calibration"))
        taken.append(sample("current'", block, 2, tps * ratio, phase="calibration"))
    return taken


def swinging(ratio: float, pairs: int) -> list[float]:
    """Ratios whose logarithms are in turn SPREAD below and above that of `ratio`."""
    return [ratio * exp(SPREAD if block % 2 else -SPREAD) for block in range(pairs)]


def record(samples: Sequence[MeasuredRun], *, blocks: int = 8, calibrate: int = 0) -> Record:
    settings = {"server_version": "18.6", "work_mem": "4096", "fsync": "on"}
    return Record(
        plan=Plan(
            name="tpcb", workloads=(Workload(name="tpcb", builtin="tpcb"),),
            variants=(Variant(name="current"), Variant(name="advised")),
            scales=(CELL.scale,), clients=(CELL.clients,), threads=2, seconds=SECONDS,
            blocks=blocks, calibrate=calibrate, seed=20260701,
        ),
        samples=tuple(samples),
        failures=(),
        finished=frozenset(),
        settings={
            "current": settings | {"shared_buffers": "16384", "checkpoint_timeout": "300"},
            "advised": settings | {"shared_buffers": "524288", "checkpoint_timeout": "900"},
        },
        rates={},
        notes=("the machine was busy before the first run: steal 1.4 %, limit 1 %",),
        host={
            "memory": {"value": 17179869184, "source": "/proc/meminfo: MemTotal"},
            "cpus": {"value": 4, "source": "sched_getaffinity"},
        },
        kernel="Linux 6.12.1",
        pgbench="18.6",
        mrtuner="0.1.0",
        started="2026-07-01T12:00:00.000+00:00",
        ended="2026-07-01T12:40:00.000+00:00",
        local=True,
        forced=False,
        sealed=True,
    )  # fmt: skip


def better() -> Record:
    """Eight blocks around 1.42, four of calibration, and one block that was repeated."""
    again = "block repeated: steal 2.1 %, limit 1 %"
    disturbed = [
        sample("current", 3, 1, 777.0, rejected=again),
        sample("advised", 3, 2, 1111.0, rejected=again),
    ]
    taken = [
        *calibrated(1000.0, (1.01, 0.99, 1.02, 0.98)),
        *disturbed,
        *compared(1000.0, swinging(1.42, 8)),
    ]
    taken = [
        structs.replace(one, attempt=2)
        if one.phase == "comparison" and one.block == 3 and not one.rejected
        else one
        for one in taken
    ]
    return record(taken, calibrate=4)


def proof(of: Record | None = None) -> Series:
    """A series of this one load."""
    measured = Measured(title="TPC-B", why="pgbench's own transaction", **contents(of or better()))
    return Series(measured=(measured,))
