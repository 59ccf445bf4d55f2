"""Series of loads made by hand, so that every figure is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from bench_grids import WOBBLE, a_plan, a_record, a_sample
from mrtuner.bench.plan.cells import cells
from mrtuner.bench.plan.model import JudgedBy, Script, Variant, Workload
from mrtuner.bench.record.document import AnyLine, RejectionLine, RunDocument, SettingsLine
from mrtuner.bench.record.model import Record
from mrtuner.bench.series import Measured, Series
from mrtuner.documents import convert
from mrtuner.stats.histogram import Histogram

SIDES = ("default", "advised")
#: 1,000 transactions of 1 ms and 100 of 400 ms: p99 is 400 ms.
STALLED = Histogram(((1000, 1000), (400_000, 100)))
RUNNING = {"running": 9, "IO:WalSync": 1}


def contents(record: Record) -> dict[str, Any]:
    """The record as its archive has it: head and lines."""
    names = ("plan", "host", "kernel", "pgbench", "mrtuner", "started", "local", "forced")
    lines: list[AnyLine] = [
        *record.samples,
        *(
            RejectionLine(
                cell=run.cell, phase=run.phase, block=run.block, attempt=run.attempt,
                reason=run.rejected,
            )
            for run in record.samples if run.rejected
        ),
        *(
            SettingsLine(variant=name, settings=dict(known))
            for name, known in record.settings.items()
        ),
    ]  # fmt: skip
    head = convert({name: getattr(record, name) for name in names}, RunDocument)
    return {"head": head, "lines": lines}


def a_load(
    title: str, gain: float, *, pauses: tuple[float, float] = (0.02, 0.02), rate: str = "",
    blocks: int = 6, foreign: float = 0.0, times: Sequence[Histogram] = (), wobble: float = 1.0,
    parts: Mapping[str, tuple[float, float]] | None = None, judged_by: JudgedBy = "throughput",
) -> Measured:  # fmt: skip
    """`gain` times the default's 1,000 tps in every block, give or take a percent.

    `wobble` makes it more than a percent; `times` are the latencies of both sides. `parts` has the
    time [ms] of each part of its script on both sides. The longest pause varies by a percent
    unless throughput is judged.
    """
    name = title.replace(" ", "-")
    workload = Workload(name=name, builtin="select", judged_by=judged_by)
    if parts:
        script = Script(name="a.sql", text="SELECT 1;")
        workload = Workload(name=name, scripts=(script,), parts=tuple(parts))
    plan = a_plan(
        name=name, workloads=(workload,), blocks=blocks,
        variants=tuple(Variant(name=side) for side in SIDES), rates=(rate,), standing=True,
    )  # fmt: skip
    (cell,) = cells(plan)
    runs = []
    for block in range(1, blocks + 1):
        scatter = WOBBLE[block % len(WOBBLE)]
        tps = 1000 * gain * scatter**wobble
        for place, (side, speed) in enumerate(zip(SIDES, (1000.0, tps), strict=True)):
            extra = {"times": times[place]} if times else {}
            run = a_sample(cell, block, side, speed, foreign=foreign, waits=RUNNING, **extra)
            commands = tuple(both[place] for both in (parts or {}).values())
            pause = pauses[place] * (scatter if place and judged_by != "throughput" else 1)
            runs.append(structs.replace(run, pause=pause, commands=commands))
    settings = {side: {"checkpoint_timeout": "30", "server_version": "18.6"} for side in SIDES}
    return Measured(
        title=title, why=f"why {title}", **contents(a_record(runs, plan, settings=settings))
    )


def a_series(*loads: Measured, **other: Any) -> Series:
    return Series(measured=loads, **other)
