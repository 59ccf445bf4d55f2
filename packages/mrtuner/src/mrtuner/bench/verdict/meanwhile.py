"""What else happened during the runs of a variant in a cell, from what the collectors saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Annotated, Final

from mrtuner.bench.plan.model import GridCell
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.record.model import Record
from mrtuner.described import Doc

#: How many wait events are reported.
_EVENTS: Final = 5
_CLIENT: Final = "client backend"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent:
    """A wait event."""

    event: Annotated[str, Doc("its type and name; `running`: none")]
    share: Annotated[float, Doc("of the active sessions seen")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenMeanwhile:
    """What was seen beside the runs of a variant in a cell: medians; null if it was not seen."""

    variant: Annotated[str, Doc("the variant")]
    cpus: Annotated[float | None, Doc("CPUs busy, the load generator's included")]
    voluntary: Annotated[
        float | None, Doc("voluntary context switches of the clients' backends per transaction")
    ]
    forced: Annotated[float | None, Doc("involuntary ones")]
    waiting: Annotated[
        dict[str, float],
        Doc(
            "`cpu`, `io`, `memory`: share of the time during which some task waited for it "
            "(pressure stall information)"
        ),
    ]
    throttled: Annotated[
        float | None, Doc("share of the time in which a quota stopped the server's control group")
    ]
    written: Annotated[
        float | None, Doc("bytes per second written to the device below the data directory")
    ]
    wal: Annotated[float, Doc("bytes of WAL per transaction")]
    events: Annotated[tuple[WaitEvent, ...], Doc("the most frequent wait events")]
    canary: Annotated[
        tuple[float, float], Doc("least and most seconds that the same piece of work took")
    ]


def meanwhile(record: Record, cell: GridCell) -> list[SeenMeanwhile]:
    """One for every variant that has a run that counts in this cell."""
    found = ((name, record.accepted(cell, name)) for name in record.plan.names)
    return [_one(name, runs) for name, runs in found if runs]


def _one(variant: str, runs: Sequence[MeasuredRun]) -> SeenMeanwhile:
    waits: Counter[str] = Counter()
    for sample in runs:
        waits.update(sample.waits)
    busy = (_mean(runs, "cpu user"), _mean(runs, "cpu system"))
    pressure = {name: _mean(runs, f"pressure {name}") for name in ("cpu", "io", "memory")}
    return SeenMeanwhile(
        variant=variant,
        cpus=None if None in busy else sum(share for share in busy if share is not None),
        voluntary=_switches(runs, 1),
        forced=_switches(runs, 2),
        waiting={name: share for name, share in pressure.items() if share is not None},
        throttled=_mean(runs, "cgroup throttled"),
        written=_mean(runs, "disk written bytes"),
        wal=median(sample.wal_bytes / sample.run.transactions for sample in runs),
        events=tuple(
            WaitEvent(event=name, share=count / waits.total())
            for name, count in waits.most_common(_EVENTS)
        ),
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
