"""A run of a grid as one HTML file: every chart with its table, from the record alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.bench.report import charts as bench_charts
from mrtuner.bench.report.text import answer, settings_shown
from mrtuner.bench.verdict.judge import CellVerdict, blocks_of, require_samples, verdicts
from mrtuner.bench.verdict.meanwhile import SeenMeanwhile, meanwhile
from mrtuner.bench.verdict.summary import (
    VariantSummary,
    beside,
    by_cell,
    collector_share,
    summaries,
)
from mrtuner.present import charts, figures
from mrtuner.present.html import rendered
from mrtuner.stats.comparison import Verdict
from mrtuner.stats.histogram import Histogram

#: Percentiles at which latency curves are read; those with too few values are left out.
_CURVE: Final = (
    0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99999,
)  # fmt: skip

#: The label of a chart's axis, and the divisor of its values; latencies are shown in ms.
_UNITS: Final = {
    "throughput": ("transactions per second", 1),
    "longest pause": ("longest pause, s", 1),
}


@dataclass(frozen=True, slots=True)
class Duel:
    """One variant against the first, with its chart and the blocks that it shows."""

    verdict: CellVerdict
    picture: str
    unit: str
    blocks: tuple[tuple[int, float, float], ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One cell, ready for the page."""

    cell: GridCell
    sides: tuple[VariantSummary, ...]
    duels: tuple[Duel, ...]
    seconds: str
    percentiles: str
    by_second: tuple[tuple[MeasuredRun, tuple[int, ...]], ...]  # the runs in it; their checkpoints
    meanwhile: list[SeenMeanwhile]
    runs: tuple[MeasuredRun, ...]  # every run, including rejected ones


@figures.for_every_screen()
def page(record: Record, other: Record | None = None) -> str:
    """Return the whole report as one HTML document; the same record gives the same text.

    Raises BadValue for a run without measurements, Refused for an `other` from another host,
    kernel or version, MissingPart without jinja2 or matplotlib.
    """
    require_samples(record)
    seen, found = verdicts(record), by_cell(summaries(record))
    shown = [
        _shown(record, cell, list(found.get(cell, {}).values()), seen, number)
        for number, cell in enumerate(record.cells(), 1)
    ]
    return rendered(
        Path(__file__).with_suffix(".html"),
        record=record,
        plan=record.plan,
        answer=answer(record, seen),
        verdicts=seen,
        tests=len(seen),
        forest=_forest(seen, record.plan.delta),
        heats=list(_heats(seen)),
        cells=shown,
        settings=list(settings_shown(record)),
        against=beside(record, other) if other is not None else [],
        collector_share=collector_share(record),
    )


def _forest(seen: Sequence[CellVerdict], delta: float) -> str:
    several = len({one.cell for one in seen}) > 1
    effects = [
        bench_charts.Effect(
            name=f"{one.cell.key}  " * several + one.variant.name + " (bound)" * one.variant.bound,
            ratio=one.comparison.ratio,
            low=one.comparison.low,
            high=one.comparison.high,
            decided=one.verdict is not Verdict.UNDECIDED,
        )
        for one in seen
    ]
    return bench_charts.forest(effects, delta=delta, key="forest") if effects else ""


def _heats(seen: Sequence[CellVerdict]) -> Iterator[tuple[str, str]]:
    """Yield a title and a map for each variant, workload and rate with more than one cell."""
    groups: dict[tuple[str, str, str], list[CellVerdict]] = {}
    for one in seen:
        key = (one.variant.name, one.cell.workload, one.cell.rate)
        groups.setdefault(key, []).append(one)
    for number, ((variant, workload, rate), group) in enumerate(groups.items(), 1):
        if len(group) > 1:
            title = f"{variant}, {workload}{f' at {rate}' if rate else ''}"
            tiles = [_tile(one) for one in group]
            yield (
                title,
                bench_charts.heat(tiles, rows="scale", columns="clients", key=f"heat-{number}"),
            )


def _tile(one: CellVerdict) -> bench_charts.Tile:
    decided = one.verdict is not Verdict.UNDECIDED
    return bench_charts.Tile(
        row=str(one.cell.scale),
        column=str(one.cell.clients),
        ratio=one.comparison.ratio if decided else None,
        verdict=str(one.verdict),
    )


def _shown(
    record: Record,
    cell: GridCell,
    found: Sequence[VariantSummary],
    seen: Sequence[CellVerdict],
    number: int,
) -> Shown:
    duels = [
        _duel(record, one, f"duel-{number}-{place}")
        for place, one in enumerate((one for one in seen if one.cell == cell), 1)
    ]
    return Shown(
        cell=cell,
        sides=tuple(found),
        duels=tuple(duels),
        seconds=_seconds(record, cell, f"seconds-{number}"),
        percentiles=_percentiles(found, f"percentiles-{number}"),
        by_second=tuple(_by_second(record, cell)),
        meanwhile=meanwhile(record, cell),
        runs=tuple(record.of(cell)),
    )


def _duel(record: Record, one: CellVerdict, key: str) -> Duel:
    unit, scale = _UNITS.get(one.measure, (f"{one.measure}, ms", 1000))
    blocks = tuple((block, a / scale, b / scale) for block, a, b in blocks_of(record, one))
    picture = charts.pairs(
        charts.Duel(
            name_a=record.plan.baseline.name,
            name_b=one.variant.name,
            blocks=blocks,
            ratio=one.comparison.ratio,
            low=one.comparison.low,
            high=one.comparison.high,
            delta=record.plan.delta,
            unit=unit,
        ),
        key=key,
    )
    return Duel(one, picture, unit, blocks)


def _seconds(record: Record, cell: GridCell, key: str) -> str:
    runs: dict[str, list[tuple[int, ...]]] = {}
    checkpoints: dict[str, list[int]] = {}
    for name in record.plan.names:
        accepted = record.accepted(cell, name)
        series = [one.run.per_second for one in accepted if one.run.per_second]
        if series:
            runs[name] = series
            checkpoints[name] = [second for one in accepted for second in _checkpoints(one)]
    return bench_charts.seconds(runs, checkpoints, key=key) if runs else ""


def _by_second(record: Record, cell: GridCell) -> Iterator[tuple[MeasuredRun, tuple[int, ...]]]:
    """Yield the figures of the chart, run by run."""
    for name in record.plan.names:
        for one in record.accepted(cell, name):
            if one.run.per_second:
                yield one, tuple(_checkpoints(one))


def _checkpoints(one: MeasuredRun) -> Iterator[int]:
    for second, rate in enumerate(one.series.get("checkpoints", ()), 1):
        if rate > 0:
            yield second


def _percentiles(found: Sequence[VariantSummary], key: str) -> str:
    curves: Mapping[str, list[tuple[float, float]]] = {
        side.variant: points for side in found if (points := list(_points(side.times)))
    }
    return bench_charts.percentiles(curves, key=key) if curves else ""


def _points(times: Histogram) -> Iterator[tuple[float, float]]:
    for share in _CURVE:
        value = times.percentile(share)
        if value:
            yield share, value / 1000
