"""What one variant did in one cell, as medians over its runs that count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Final

from mrtuner.bench.plan.model import PLACEMENT, GridCell
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record, unlike
from mrtuner.described import Doc
from mrtuner.errors import Refused
from mrtuner.stats.histogram import Histogram, merged
from mrtuner.stats.steady import half_run_drift, robust_cv

PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSummary:
    """One variant in one cell."""

    cell: GridCell
    variant: str
    runs: int
    tps: float
    tps_with_checkpoint: float  # had each run waited for the checkpoint that it left behind
    worst_second: int | None
    cv: float | None
    drift: float | None  # median of second half over first half, less one
    skipped: int
    times: Histogram  # of all runs together
    first_touch: float | None = None  # seconds of the very first statement, before the runs
    pause: float | None = None  # the longest time [s] of all runs in which no transaction ended

    @property
    def percentiles(self) -> dict[str, int | None]:
        """Latencies [µs] by name; None where too few transactions were seen."""
        return {f"p{share * 100:g}": self.times.percentile(share) for share in PERCENTILES}

    @property
    def longest(self) -> int | None:
        """The longest transaction [µs]."""
        return self.times.counts[-1][0] if self.times.counts else None


def summaries(record: Record) -> list[VariantSummary]:
    """One for every variant in every cell that has a run that counts."""
    found = (
        _summary(cell, name, record.accepted(cell, name))
        for cell in record.cells()
        for name in record.plan.names
    )
    return [one for one in found if one is not None]


def by_cell(found: Sequence[VariantSummary]) -> Mapping[GridCell, Mapping[str, VariantSummary]]:
    table: dict[GridCell, dict[str, VariantSummary]] = {}
    for one in found:
        table.setdefault(one.cell, {})[one.variant] = one
    return table


def differing_settings(record: Record) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Settings that are not the same for all variants, with each one's value, in base units.

    Where a server keeps its data and listens is left out: we decide that, and it always differs.
    """
    known = [record.settings.get(name, {}) for name in record.plan.names]
    for name in sorted({name for settings in known for name in settings} - PLACEMENT):
        values = tuple(settings.get(name, "not there") for settings in known)
        if len(set(values)) > 1:
            yield name, values


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherRun:
    """A variant in a cell, here and in the other run; the two are not judged."""

    cell: Annotated[str, Doc("name of the cell")]
    variant: Annotated[str, Doc("the variant")]
    tps: Annotated[float, Doc("transactions per second")]
    other_tps: Annotated[float, Doc("transactions per second in the other run")]
    ratio: Annotated[float, Doc("this run over the other")]
    same_settings: Annotated[bool, Doc("whether both ran with the same settings")]


def beside(record: Record, other: Record) -> list[OtherRun]:
    """Return the figures of both runs, unjudged: an interval across two sessions would mislead.

    Raises Refused when the two are from different hosts, kernels or versions.
    """
    reasons = unlike(record, other)
    if reasons:
        raise Refused(
            f"these runs cannot be compared: {'; '.join(reasons)}",
            "Measure both as variants of one plan.",
        )
    mine, theirs = by_cell(summaries(record)), by_cell(summaries(other))
    return [
        OtherRun(
            cell=cell.key, variant=name, tps=side.tps, other_tps=there.tps,
            ratio=side.tps / there.tps,
            same_settings=_settings(record, name) == _settings(other, name),
        )
        for cell, table in mine.items()
        for name, side in table.items()
        if (there := theirs.get(cell, {}).get(name))
    ]  # fmt: skip


def _settings(record: Record, name: str) -> dict[str, str]:
    """Return the settings, except those that always differ because of the server's location."""
    known = record.settings.get(name, {})
    return {name: value for name, value in known.items() if name not in PLACEMENT}


def collector_share(record: Record) -> float:
    """Return the CPU time used for collecting, as a share of one CPU over all runs."""
    wall = sum(sample.run.wall for sample in record.samples)
    return sum(sample.collector_cpu for sample in record.samples) / wall if wall else 0.0


def _summary(cell: GridCell, name: str, runs: Sequence[MeasuredRun]) -> VariantSummary | None:
    if not runs:
        return None
    rates = [sample.run.tps for sample in runs]
    drifts = [half_run_drift(sample.run.per_second) for sample in runs]
    known = [drift for drift in drifts if drift is not None]
    worst = [sample.run.worst_second for sample in runs]
    pauses = [sample.pause for sample in runs if sample.pause is not None]
    touches = [sample.first_touch for sample in runs if sample.first_touch is not None]
    return VariantSummary(
        cell=cell,
        variant=name,
        runs=len(runs),
        tps=median(rates),
        tps_with_checkpoint=median(sample.tps_with_checkpoint for sample in runs),
        worst_second=min((second for second in worst if second is not None), default=None),
        cv=robust_cv(rates),
        drift=median(known) if known else None,
        skipped=sum(sample.skipped for sample in runs),
        times=merged(sample.times for sample in runs),
        first_touch=median(touches) if touches else None,
        pause=max(pauses, default=None),
    )
