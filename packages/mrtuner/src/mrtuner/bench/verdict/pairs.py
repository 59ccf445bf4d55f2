"""The basis of a comparison: the blocks that count, and whether their runs paid for their writing.

A run that writes leaves dirty pages behind. Unless it lasts for a whole checkpoint cycle, it does
not include the checkpoint that writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mrtuner.bench.plan.cells import again
from mrtuner.bench.plan.model import GridCell, Phase
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.stats.comparison import Pair

Measure = Callable[[MeasuredRun], float | None]
#: From this adjusted p value on, a difference may be chance.
ALPHA: Final = 0.05
#: checkpoint_completion_target where a record does not tell it: PostgreSQL's default since 14.
_COMPLETION: Final = "0.9"
#: One checkpoint may fall anywhere in a run; between two there is a whole cycle.
_CHECKPOINTS_OF_A_CYCLE: Final = 2


def blocks(
    record: Record,
    cell: GridCell,
    labels: tuple[str, str],
    read: Measure,
    phase: Phase = "comparison",
) -> Iterator[tuple[int, float, float]]:
    """Each block that counts, with the values of both labels; incomplete ones are left out."""
    first, second = (
        {sample.block: read(sample) for sample in record.accepted(cell, label, phase)}
        for label in labels
    )
    for block in sorted(first.keys() & second.keys()):
        a, b = first[block], second[block]
        if a is not None and b is not None:
            yield block, a, b


def pairs(
    record: Record,
    cell: GridCell,
    labels: tuple[str, str],
    read: Measure,
    phase: Phase = "comparison",
) -> list[Pair]:
    """The values of those blocks that have a ratio: both are above zero.

    pgbench reads its clock once for each turn of a client, so an immediate answer seems to take no
    time.
    """
    found = blocks(record, cell, labels, read, phase)
    return [(a, b) for _, a, b in found if a > 0 and b > 0]


def calibration_pairs(record: Record, cell: GridCell) -> list[Pair]:
    """The throughput of the first variant, measured twice in each block of calibration."""
    name = record.plan.baseline.name
    return pairs(record, cell, (name, again(name)), throughput, "calibration")


def throughput(sample: MeasuredRun) -> float:
    return sample.run.tps


def throughput_with_checkpoint(sample: MeasuredRun) -> float:
    """Transactions a second, had the run waited for the checkpoint that it left behind."""
    return sample.tps_with_checkpoint


def latency(share: float) -> Measure:
    """A percentile [µs] of the times of single transactions; None where too few were logged."""
    return lambda sample: sample.times.percentile(share)


def covers_a_cycle(record: Record, cell: GridCell, variant: str) -> bool:
    """Whether every run of a variant lasted for a checkpoint cycle of that variant.

    By the clock, or because WAL volume started two checkpoints in each run. A run begins after a
    CHECKPOINT: the next one by the clock begins checkpoint_timeout later, and its writing is spread
    over checkpoint_completion_target of that time.
    Source: PostgreSQL documentation, 28.5 WAL Configuration.
    """
    known = record.settings.get(variant, {})
    timeout = int(known.get("checkpoint_timeout", "0"))
    cycle = timeout * (1 + float(known.get("checkpoint_completion_target", _COMPLETION)))
    if record.plan.seconds >= cycle > 0:
        return True
    runs = record.accepted(cell, variant)
    return bool(runs) and all(sample.checkpoints >= _CHECKPOINTS_OF_A_CYCLE for sample in runs)
