"""What other metrics say of a plateau: whether requests waited there, whether credits had run out.

At a ceiling the time of one operation rises (Little's law: queue over operations). A job that
happens to run at an even pace leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from mrtuner.limits.ceilings import Ceiling, Kind, Resource
from mrtuner.limits.series import Series
from mrtuner.stats.plateaus import Plateau, inside, numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: Operations take so many times as long at a ceiling as below it; less contradicts a ceiling.
WAITS: Final = 1.5
DOES_NOT_WAIT: Final = 1.2
#: Sessions that wait for I/O, as the server sees it: a cgroup makes requests wait before the
#: device counts them, so the device's own queue and latencies do not show it.
WAITING: Final = "SessionsWaitingForIO"
#: So many of them at the median confirm a ceiling where nothing else is there to compare with.
SESSIONS_WAIT: Final = 2.0
_MOST_RATIO: Final = 1000.0


class Witness(StrEnum):
    """What another metric says of a plateau."""

    CONFIRMS = "confirms"
    CONTRADICTS = "contradicts"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Testimony:
    """One metric's word on a plateau."""

    metric: str
    says: Witness
    because: str
    #: An operation's time here over that elsewhere, or the sessions waiting; 0 of other metrics.
    ratio: float = 0.0


def waiting(series: Series, there: Mask, elsewhere: Mask) -> Iterator[Testimony]:
    """The time of one operation at the plateau against the same when nothing was flat."""
    np = numpy()
    for metric, times in _operation_times(series).items():
        known = np.isfinite(times) & (times > 0)
        inside_, outside = times[known & there], times[known & elsewhere]
        if len(inside_) < 3 or len(outside) < 20:
            continue
        now, before = float(np.median(inside_)), float(np.median(outside))
        ratio = now / before
        says = _word(ratio)
        if series.apart and says is Witness.CONTRADICTS:
            says = Witness.SILENT  # a cgroup makes requests wait above the device
        text = f"{metric}: {now * 1e3:.3g} ms an operation here, {before * 1e3:.3g} ms elsewhere"
        yield Testimony(metric=metric, says=says, because=text, ratio=ratio)


def sessions(series: Series, there: Mask, elsewhere: Mask) -> Iterator[Testimony]:
    """The same by sessions that wait: a count, so of means, and many points have none."""
    np = numpy()
    operations, waiting = series.total("ReadIOPS", "WriteIOPS"), series.metrics.get(WAITING)
    if waiting is None or operations is None:
        return
    known = np.isfinite(waiting) & np.isfinite(operations) & (operations > 0)
    at, off = known & there, known & elsewhere
    if at.sum() < 3:
        return
    many = float(waiting[at].mean())
    if off.sum() < 20:
        if many >= SESSIONS_WAIT:
            text = f"{WAITING}: {many:.1f} on average, and no calm time to compare with"
            yield Testimony(metric=WAITING, says=Witness.CONFIRMS, because=text, ratio=many)
        return
    now, before = (float(waiting[mask].sum() / operations[mask].sum()) for mask in (at, off))
    ratio = min(now / before, _MOST_RATIO) if before else _MOST_RATIO
    text = f"{WAITING}: {now * 1e3:.3g} ms an operation here, {before * 1e3:.3g} ms elsewhere"
    yield Testimony(metric=WAITING, says=_word(ratio), because=text, ratio=ratio)


def _word(ratio: float) -> Witness:
    if ratio >= WAITS:
        return Witness.CONFIRMS
    return Witness.CONTRADICTS if ratio <= DOES_NOT_WAIT else Witness.SILENT


def _operation_times(series: Series) -> dict[str, Values]:
    """Seconds of one operation, by each way there is to know them."""
    np = numpy()
    operations = series.total("ReadIOPS", "WriteIOPS")
    found: dict[str, Values] = {}
    if operations is None:
        for metric in ("ReadLatency", "WriteLatency"):
            if metric in series.metrics:
                found[metric] = series.metrics[metric]
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        if "DiskQueueDepth" in series.metrics:
            found["DiskQueueDepth"] = series.metrics["DiskQueueDepth"] / operations
        if {"ReadLatency", "WriteLatency"} <= set(series.metrics):
            spent = sum(
                series.metrics[f"{way}IOPS"] * series.metrics[f"{way}Latency"]
                for way in ("Read", "Write")
            )
            found["ReadLatency and WriteLatency"] = spent / operations
    return found


#: The balance that runs out when a burst limit is used, by part and resource.
_BALANCES: Final = {
    ("instance", Resource.THROUGHPUT): "EBSByteBalance%",
    ("instance", Resource.IOPS): "EBSIOBalance%",
    ("volume", Resource.IOPS): "BurstBalance",
    ("instance", Resource.CPU): "CPUCreditBalance",
}
#: Every balance with its unit, and what counts as used up.
BALANCES: Final = (
    ("EBSByteBalance%", " %", 5.0),
    ("EBSIOBalance%", " %", 5.0),
    ("BurstBalance", " %", 5.0),
    ("CPUCreditBalance", " credits", 1.0),
)
_EMPTY: Final = {metric: (unit, empty) for metric, unit, empty in BALANCES}


def balances(
    series: Series, resource: Resource, plateau: Plateau, ceiling: Ceiling
) -> Iterator[Testimony]:
    np = numpy()
    metric = _BALANCES.get((ceiling.part, resource))
    if metric is None or metric not in series.metrics:
        return
    there = series.metrics[metric][inside(plateau.spans, series.points)]
    there = there[np.isfinite(there)]
    if not len(there):
        return
    left = float(np.median(there))
    unit, most = _EMPTY[metric]
    text = f"{metric}: {left:.0f}{unit} left"
    empty = left <= most
    says = Witness.SILENT
    if ceiling.kind is Kind.SUSTAINED and empty:
        says, text = Witness.CONFIRMS, f"{text}, so the baseline holds"
    elif ceiling.kind is Kind.BURST and not empty:
        text = f"{text}, so the burst limit can hold"
    yield Testimony(metric=metric, says=says, because=text)
