"""A proof, measure by measure: the judgement, and beside it everything else that was measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from mrtuner.bench.judge import Judgement, Measure, judge, pairs
from mrtuner.bench.record import Record, Sample
from mrtuner.stats.paired import Comparison, compare


def _latency(field: str) -> Measure:
    def read(sample: Sample) -> float | None:
        latency = sample.run.latency
        return None if latency is None else float(getattr(latency, field))

    return read


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing that every run was measured by."""

    name: str
    unit: str
    higher_is_better: bool
    read: Measure


KINDS: Final = (
    Kind("throughput", "tps", True, lambda sample: sample.run.tps),
    Kind("throughput, CHECKPOINT charged", "tps", True, lambda sample: sample.charged_tps),
    Kind("worst second", "transactions", True, lambda sample: sample.run.worst_second),
    Kind("latency, median (p50)", "ms", False, _latency("p50")),
    Kind("latency, p95", "ms", False, _latency("p95")),
    Kind("latency, p99", "ms", False, _latency("p99")),
    Kind("latency, maximum", "ms", False, _latency("maximum")),
    Kind("CHECKPOINT after the run", "s", False, lambda sample: sample.checkpoint),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A measure of both arms: medians over the blocks, and what the pairs show (if they can)."""

    kind: Kind
    a: float
    b: float
    comparison: Comparison | None


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its two runs."""

    number: int
    a: Sample
    b: Sample

    @property
    def a_first(self) -> bool:
        """Whether the baseline ran first."""
        return self.a.position < self.b.position


@dataclass(frozen=True, slots=True)
class Evidence:
    """One arm against the record's first."""

    judgement: Judgement
    blocks: tuple[Block, ...]
    rows: tuple[Row, ...]

    @property
    def a(self) -> str:
        """The arm to beat."""
        return self.judgement.baseline

    @property
    def b(self) -> str:
        """The arm that was tried."""
        return self.judgement.candidate


def evidence(record: Record) -> list[Evidence]:
    """Every further arm against the first; without those of which no block was finished."""
    a, *others = (arm.name for arm in record.arms)
    found = []
    for b in others:
        blocks = tuple(_blocks(record, a, b))
        if blocks:
            found.append(Evidence(judge(record, b), blocks, tuple(_rows(record, a, b))))
    return found


def _blocks(record: Record, a: str, b: str) -> Iterator[Block]:
    runs: dict[int, dict[str, Sample]] = {}
    for sample in record.accepted():
        runs.setdefault(sample.block, {})[sample.label] = sample
    for number, block in sorted(runs.items()):
        if a in block and b in block:
            yield Block(number, block[a], block[b])


def _rows(record: Record, a: str, b: str) -> Iterator[Row]:
    for kind in KINDS:
        values = pairs(record, a, b, kind.read)
        if values:
            middle = median(left for left, _ in values), median(right for _, right in values)
            yield Row(kind, *middle, _comparison(values, kind, record.plan.delta))


def _comparison(
    values: Sequence[tuple[float, float]], kind: Kind, delta: float
) -> Comparison | None:
    """None where a value is zero: a second without one transaction has a median but no ratio."""
    if any(value == 0 for pair in values for value in pair):
        return None
    return compare(values, delta=delta, higher_is_better=kind.higher_is_better)


def differences(record: Record) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every setting that is not the same in all arms, with its value in each, in base units."""
    for name in sorted({name for arm in record.arms for name in arm.settings}):
        values = tuple(_setting(arm.settings, name) for arm in record.arms)
        if len(set(values)) > 1:
            yield name, values


def _setting(settings: Mapping[str, str], name: str) -> str:
    return settings.get(name, "not there")
