"""The cells of a grid, the order of its blocks, and forecasts of time and disk space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from mrtuner.bench.plan import order
from mrtuner.bench.plan.model import GridCell, Phase, Plan, Workload
from mrtuner.bench.server.scratch import size_of_database
from mrtuner.stats.steady import settling_seconds
from mrtuner.units import Bytes

#: Guesses for the forecast, from runs on two CPUs: a restart with its checkpoint, a copy, a fill.
_RESTART_S: Final = 3.0
_COPY_S_PER_SCALE: Final = 0.02
_FILL_S_PER_SCALE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Block:
    """All variants of one cell, once each, in this order."""

    cell: GridCell
    phase: Phase
    number: int  # from 1, in its cell and phase
    labels: tuple[str, ...]  # names of variants; in calibration the first one's, and name'


def cells(plan: Plan) -> list[GridCell]:
    """Every combination; rates in percent come last, because they need the capacity first."""
    found = [
        GridCell(workload.name, scale, clients, rate)
        for workload in plan.workloads
        for scale in plan.scales
        for clients in plan.clients
        for rate in plan.rates
    ]
    return sorted(found, key=lambda cell: cell.relative)


def blocks(plan: Plan) -> list[Block]:
    """All blocks in the order in which they run; the same plan gives the same order.

    Each round visits every cell once, in random order, so that slow drift affects all cells alike;
    within a block, the variants run one right after the other.
    """
    every = cells(plan)
    if not any(cell.relative for cell in every):
        return list(_rounds(plan, every, 0))
    first = [cell for cell in every if not cell.relative]
    second = [cell for cell in every if cell.relative]
    return [*_rounds(plan, first, 0), *_rounds(plan, second, 1)]


def again(name: str) -> str:
    """The label of a variant's second run in a block of calibration."""
    return f"{name}'"


def variant_of(label: str) -> str:
    return label.removesuffix("'")


def seconds_expected(plan: Plan, *, settling: bool = True) -> float:
    """A forecast [s] of the whole grid: runs, warm-ups, restarts, copies and fills.

    With `settling` a warm-up goes on until it can tell whether the load has settled.
    """
    every = blocks(plan)
    warmup = settling_seconds(plan.warmup_seconds) if settling else plan.warmup_seconds
    runs = sum(len(block.labels) * (warmup + _run_seconds(plan, block.cell)) for block in every)
    fills = sum(plan.scales) * _FILL_S_PER_SCALE + len(plan.variants) * _RESTART_S
    return runs + fills


def space_needed(plan: Plan) -> Bytes:
    """Disk [bytes] that one server's databases take, WAL and growth not counted."""
    shared = any(not workload.own_tables for workload in plan.workloads)
    own = [workload for workload in plan.workloads if workload.own_tables]
    templates = sum(
        shared * size_of_database(scale) + sum(_database(workload, scale) for workload in own)
        for scale in plan.scales
    )
    writing = [workload for workload in plan.workloads if not workload.reads_only]
    copy = max((_database(workload, max(plan.scales)) for workload in writing), default=0)
    return Bytes(templates + copy)


def _database(workload: Workload, scale: int) -> int:
    """Size of one template, or of a copy of it [bytes]."""
    return size_of_database(1 if workload.prepared else scale) + workload.space(scale)


def _run_seconds(plan: Plan, cell: GridCell) -> float:
    """Seconds of a run and what surrounds it, without its warm-up."""
    copy = 0 if plan.by_name[cell.workload].reads_only else cell.scale * _COPY_S_PER_SCALE
    return plan.seconds + _RESTART_S + copy


def _rounds(plan: Plan, which: list[GridCell], part: int) -> Iterator[Block]:
    first = plan.baseline.name
    chance = Random(f"{plan.seed} cells {part}")  # noqa: S311 - it shuffles runs, no secret
    calibration = _orders(plan, which, [first, again(first)], plan.calibrate, "calibration")
    comparison = _orders(plan, which, list(plan.names), plan.blocks, "comparison")
    for phase, orders, count in (
        ("calibration", calibration, plan.calibrate),
        ("comparison", comparison, plan.blocks),
    ):
        for number in range(1, count + 1):
            for cell in chance.sample(which, len(which)):
                yield Block(cell, phase, number, tuple(orders[cell][number - 1]))  # type: ignore[arg-type]


def _orders(
    plan: Plan, which: list[GridCell], labels: list[str], count: int, phase: str
) -> dict[GridCell, list[list[str]]]:
    return {
        cell: order.blocks(labels, count, seed_of(f"{plan.seed} {cell.key} {phase}"))
        for cell in which
    }


def seed_of(text: str) -> int:
    """A seed of its own for every text, the same in every run of Python."""
    return Random(text).getrandbits(31)  # noqa: S311
