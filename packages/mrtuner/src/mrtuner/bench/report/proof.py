"""A load of a proof, by block and measure: everything besides its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.bench.verdict.pairs import Measure, blocks
from mrtuner.stats.comparison import Comparison, compare


def _latency(share: float) -> Measure:
    """A percentile [ms]; None where too few transactions lie beyond it."""

    def read(sample: MeasuredRun) -> float | None:
        found = sample.times.percentile(share)
        return None if found is None else found / 1000

    return read


def _longest(sample: MeasuredRun) -> float | None:
    latency = sample.run.latency
    return None if latency is None else latency.maximum


@dataclass(frozen=True, slots=True)
class Quantity:
    """One quantity measured in every run."""

    name: str
    unit: str
    higher_is_better: bool
    read: Measure


QUANTITIES: Final = (
    Quantity("throughput", "tps", True, lambda sample: sample.run.tps),
    Quantity("throughput with checkpoint", "tps", True, lambda sample: sample.tps_with_checkpoint),
    Quantity("worst second", "transactions", True, lambda sample: sample.run.worst_second),
    Quantity("latency, median (p50)", "ms", False, _latency(0.5)),
    Quantity("latency, p95", "ms", False, _latency(0.95)),
    Quantity("latency, p99", "ms", False, _latency(0.99)),
    Quantity("latency, maximum", "ms", False, _longest),
    Quantity("CHECKPOINT after the run", "s", False, lambda sample: sample.checkpoint),
)


@dataclass(frozen=True, slots=True)
class QuantityRow:
    """A measure of both variants: medians over the blocks, and the result of the pairs."""

    quantity: Quantity
    a: float
    b: float
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class ProofBlock:
    """One block, with its two runs."""

    number: int
    a: MeasuredRun
    b: MeasuredRun

    @property
    def a_first(self) -> bool:
        return self.a.position < self.b.position


@dataclass(frozen=True, slots=True)
class ProofEvidence:
    """A variant (b) against the one to beat (a), in one cell."""

    a: str
    b: str
    blocks: tuple[ProofBlock, ...]
    rows: tuple[QuantityRow, ...]


def evidence(record: Record, cell: GridCell, a: str, b: str) -> ProofEvidence:
    """Return every finished block of both, and every measure."""
    return ProofEvidence(
        a, b, tuple(_blocks(record, cell, a, b)), tuple(_rows(record, cell, (a, b)))
    )


def _blocks(record: Record, cell: GridCell, a: str, b: str) -> Iterator[ProofBlock]:
    first, second = (
        {sample.block: sample for sample in record.accepted(cell, name)} for name in (a, b)
    )
    for number in sorted(first.keys() & second.keys()):
        yield ProofBlock(number, first[number], second[number])


def _rows(record: Record, cell: GridCell, labels: tuple[str, str]) -> Iterator[QuantityRow]:
    for quantity in QUANTITIES:
        values = [(a, b) for _, a, b in blocks(record, cell, labels, quantity.read)]
        if values:
            middle = median(a for a, _ in values), median(b for _, b in values)
            yield QuantityRow(quantity, *middle, _comparison(values, quantity, record.plan.delta))


def _comparison(
    values: Sequence[tuple[float, float]], quantity: Quantity, delta: float
) -> Comparison | None:
    """Return None for a zero value: a second without transactions has a median but no ratio."""
    if any(value == 0 for pair in values for value in pair):
        return None
    return compare(values, delta=delta, higher_is_better=quantity.higher_is_better)
