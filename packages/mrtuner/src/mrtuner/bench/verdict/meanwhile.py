"""What else happened during the runs of a variant in a cell, from what the collectors saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from mrtuner.bench.record.model import MeasuredRun, Record

#: How many wait events are reported.
_EVENTS: Final = 5
_CLIENT: Final = "client backend"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meanwhile:
    """Medians over the runs that count; None where it was not seen."""

    cell: str
    variant: str
    cpus: float | None  # busy on average, the load generator's too
    voluntary: float | None  # context switches of the clients' backends for each transaction
    forced: float | None
    waiting: Mapping[str, float]  # cpu, io, memory: share of the time in which some task waited
    throttled: float | None  # share of the time in which a quota kept the server's group waiting
    written: float | None  # bytes a second to the device below the data
    wal: float  # bytes for each transaction
    events: tuple[tuple[str, float], ...]  # wait events by their share of the active sessions seen
    canary: tuple[float, float]  # seconds that the same piece of work took, least and most


def meanwhile(record: Record) -> list[Meanwhile]:
    """One for every variant in every cell that has a run that counts."""
    found = (
        (cell.key, name, record.accepted(cell, name))
        for cell in record.cells()
        for name in record.plan.names
    )
    return [_one(key, name, runs) for key, name, runs in found if runs]


def _one(cell: str, variant: str, runs: Sequence[MeasuredRun]) -> Meanwhile:
    waits: Counter[str] = Counter()
    for sample in runs:
        waits.update(sample.waits)
    busy = (_mean(runs, "cpu user"), _mean(runs, "cpu system"))
    pressure = {name: _mean(runs, f"pressure {name}") for name in ("cpu", "io", "memory")}
    return Meanwhile(
        cell=cell,
        variant=variant,
        cpus=None if None in busy else sum(share for share in busy if share is not None),
        voluntary=_switches(runs, 1),
        forced=_switches(runs, 2),
        waiting={name: share for name, share in pressure.items() if share is not None},
        throttled=_mean(runs, "cgroup throttled"),
        written=_mean(runs, "disk written bytes"),
        wal=median(sample.wal_bytes / sample.run.transactions for sample in runs),
        events=tuple((name, count / waits.total()) for name, count in waits.most_common(_EVENTS)),
        canary=(min(sample.canary for sample in runs), max(sample.canary for sample in runs)),
    )


def _mean(runs: Sequence[MeasuredRun], name: str) -> float | None:
    """Mean over the seconds of each run; the median over runs."""
    means = [fmean(sample.series[name]) for sample in runs if sample.series.get(name)]
    return median(means) if means else None


def _switches(runs: Sequence[MeasuredRun], place: int) -> float | None:
    """Context switches of the clients' backends per transaction; the median over runs."""
    seen = [
        sum(int(one[place]) for one in sample.backends if one[0] == _CLIENT)
        / sample.run.transactions
        for sample in runs
        if sample.backends
    ]
    return median(seen) if seen else None
