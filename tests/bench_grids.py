"""Records of grids made by hand, for the tests of verdicts and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from mrtuner.bench.load.pgbench import LoadRun
from mrtuner.bench.load.pgbench_output import LatencySummary
from mrtuner.bench.plan.cells import cells
from mrtuner.bench.plan.model import GridCell, Plan, Variant, Workload
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.documents import as_builtins, convert
from mrtuner.stats.histogram import Histogram

#: With this checkpoint_timeout, a window of 60 s is a whole cycle: 30 s, and 27 s of writing.
SETTINGS = {"checkpoint_timeout": "30", "fsync": "on", "server_version": "18.6"}
WOBBLE = (0.99, 1.0, 1.01, 0.99, 1.0, 1.01)
HOST = {"cpus": {"value": 2, "source": "by hand"}, "disk_free": {"value": 1, "source": "by hand"}}


def a_plan(**other: Any) -> Plan:
    known: dict[str, Any] = {
        "workloads": (Workload(name="select", builtin="select"),),
        "variants": (Variant(name="a"), Variant(name="b", settings={"work_mem": "8MB"})),
        "scales": (10,),
        "clients": (4,),
        "blocks": 6,
        "seed": 1,
        "seconds": 60,
    }
    return Plan(**known | other)


def restored(plan: Plan) -> Plan:
    """Return a plan that was written as JSON and read back."""
    return convert(as_builtins(plan), Plan)


def a_run(tps: float) -> LoadRun:
    return LoadRun(
        transactions=round(tps * 60),
        failed=0,
        tps=tps,
        latency=LatencySummary(1, 1, 1, 5, 10, 20, 30),
        per_second=(round(tps),) * 58,
        sampling=1.0,
        wall=60.0,
        client_cpu=6.0,
    )


def a_sample(cell: GridCell, block: int, label: str, tps: float, **other: Any) -> MeasuredRun:
    """One run: 900 transactions of 1 ms, 100 of 2 ms and one of 50 ms, unless `times` says."""
    known: dict[str, Any] = {
        "phase": "comparison", "block": block, "attempt": 1, "position": 1, "label": label,
        "variant": label.rstrip("'"), "seed": 1, "started": "2026-01-01T00:00:00.000+00:00",
        "rate": None, "warmup": 15, "warmup_tps": None, "settled": True, "canary": 0.03,
        "run": a_run(tps), "times": Histogram(((1000, 900), (2000, 100), (50000, 1))),
        "slowest": (50000,) + (2000,) * 57, "skipped": 0, "checkpoint": 0.5, "wal_bytes": 1000,
        "checkpoints_timed": 1, "checkpoints_requested": 0, "steal": 0.0, "foreign": 0.0,
        "series": {"checkpoints": (0.0,) * 20 + (1.0,) + (0.0,) * 39}, "collector_cpu": 0.06,
    }  # fmt: skip
    return MeasuredRun(cell=cell, **known | other)


def six_blocks(cell: GridCell, gain: float, **of_b: Any) -> list[MeasuredRun]:
    """b is `gain` times as fast as a's 1,000 tps, give or take a percent."""
    found = []
    for block, wobble in enumerate(WOBBLE, 1):
        found.append(a_sample(cell, block, "a", 1000))
        found.append(a_sample(cell, block, "b", 1000 * gain * wobble, **of_b))
    return found


def a_record(samples: Sequence[MeasuredRun], plan: Plan | None = None, **other: Any) -> Record:
    plan = plan or a_plan()
    known: dict[str, Any] = {
        "plan": plan, "samples": tuple(samples), "failures": (), "finished": frozenset(),
        "settings": dict.fromkeys(plan.names, SETTINGS), "rates": {}, "notes": (),
        "host": HOST, "kernel": "Linux 6.1", "pgbench": "18.6", "mrtuner": "0",
        "started": "2026-01-01T00:00:00.000+00:00", "ended": "2026-01-01T01:00:00.000+00:00",
        "local": True, "forced": False, "sealed": True,
    }  # fmt: skip
    return Record(**known | other)


def a_grid(gains: Sequence[float], **other: Any) -> Record:
    """One workload at two scales and as many clients as the gains need."""
    clients = tuple(2**number for number in range(len(gains) // 2))
    plan = a_plan(scales=(1, 10), clients=clients)
    pairs = zip(cells(plan), gains, strict=True)
    samples = [sample for cell, gain in pairs for sample in six_blocks(cell, gain)]
    return a_record(samples, plan, **other)


def with_rejected(record: Record, reason: str) -> Record:
    """Put a rejected run in front, which does not count."""
    odd = structs.replace(record.samples[0], rejected=reason, attempt=1)
    return replace(record, samples=(odd, *record.samples))
