"""What other metrics say about a plateau: whether requests waited, whether credits had run out.

At a ceiling the time of one operation rises (Little's law: queue over operations), by more than
its bytes explain, and at every moment at least one request waits. A job that merely runs at an
even pace leaves the time unchanged, or pauses between requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

from mrtuner.described import Doc, document_name
from mrtuner.limits.burst_balances import BALANCE_OF, SCALE
from mrtuner.limits.ceilings import Ceiling, CeilingKind, Resource
from mrtuner.limits.metrics.series import MetricSeries
from mrtuner.stats.plateaus import Plateau, inside, numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Mask, Values

#: Operations take at least this many times as long at a ceiling; below the second, it is refuted.
WAITS: Final = 1.5
DOES_NOT_WAIT: Final = 1.2
#: Sessions waiting for I/O, as the server sees them: a cgroup delays requests before the device
#: counts them, so the device's own queue and latencies do not show it.
WAITING: Final = "SessionsWaitingForIO"
#: This many waiting sessions confirm a ceiling if there is nothing else to compare with.
SESSIONS_WAIT: Final = 2.0
_MOST_RATIO: Final = 1000.0
#: Bytes per second of a single request once it is served, at least: compared with pages of 8 kB,
#: a job's 256 KiB take up to 1.3 ms longer without any waiting. The slowest link of a Nitro class
#: that is not held down carries 260 MB/s (2,085 Mbps, EC2's figures).
REQUEST_RATE: Final = 200e6
#: The same where no table lists a limit, so that the time is all there is to go by.
REQUEST_RATE_AT_UNKNOWN: Final = 100e6
#: Seconds of an operation on a volume that is not at a limit, at most. Source: Amazon EBS User
#: Guide, volume types: single-digit milliseconds; less, since a queue shows as a multiple of it.
USUAL_TIME: Final = 5e-3
#: With fewer requests in flight on average, there are moments without any: nothing holds them up.
ALWAYS_ONE: Final = 0.8
#: A job with fewer workers can run evenly without a ceiling if its bytes explain its time.
FEW_REQUESTS: Final = 4.0
#: Points on either side of a plateau to compare it with: loads change over weeks.
NEARBY: Final = 1440
_ENOUGH: Final = 20  # points to compare with


class Support(StrEnum):
    """What another metric says about a plateau."""

    CONFIRMS = "confirms"
    CONTRADICTS = "contradicts"
    SILENT = "silent"


@document_name("Evidence")
@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingEvidence:
    """What another metric says about a ceiling."""

    metric: Annotated[str, Doc("CloudWatch's name of the metric")]
    says: Annotated[Support, Doc("what it says")]
    because: Annotated[str, Doc("the figures")]
    ratio: Annotated[
        float,
        Doc(
            "an operation's time here over the time of as many bytes elsewhere; without an "
            "elsewhere, the number of waiting sessions; 0 for other metrics"
        ),
    ] = 0.0
    #: Requests in flight at the same moment, at the median; 0 if unknown.
    requests: Annotated[float, Doc("requests in flight at once, the median; 0 if unknown")] = 0.0
    #: Whether it refutes a ceiling regardless of other evidence.
    decisive: Annotated[bool, Doc("refutes a ceiling whatever else is said")] = False


def waiting(
    series: MetricSeries, there: Mask, elsewhere: Mask, rate: float = REQUEST_RATE
) -> Iterator[CeilingEvidence]:
    """Compare an operation's time at the plateau with its time when nothing was flat.

    `rate` is how many bytes of one request are carried per second, at least.
    """
    np = numpy()
    operations = series.total("ReadIOPS", "WriteIOPS")
    for metric, times in _operation_times(series).items():
        known = np.isfinite(times) & (times > 0)
        at, off = known & there, known & elsewhere
        if at.sum() < 3:
            continue
        taken = _Taken(now=float(np.median(times[at])), requests=0.0)
        if operations is not None:
            taken = replace(taken, requests=float(np.nanmedian(times[at] * operations[at])))
        if 0 < taken.requests < ALWAYS_ONE and not series.apart:
            yield _idle(metric, taken.requests)
        elif off.sum() >= _ENOUGH:
            taken = replace(taken, before=float(np.median(times[off])))
            larger = _bytes_more(series, at, off) / rate
            said = _compared(series, metric, replace(taken, larger=larger))
            calm = taken.before < WAITS * (USUAL_TIME + _bytes_of(series, off) / REQUEST_RATE)
            # Where a lower ceiling holds for the rest of the time, it waits even longer there.
            yield (
                said
                if calm or series.apart or said.says is not Support.CONTRADICTS
                else _alone(metric, taken, _bytes_of(series, at))
            )
        elif taken.requests >= FEW_REQUESTS and not series.apart:
            yield _alone(metric, taken, _bytes_of(series, at))


def sessions(series: MetricSeries, there: Mask, elsewhere: Mask) -> Iterator[CeilingEvidence]:
    """Compare waiting sessions per operation, by means: a median of counts is often zero."""
    np = numpy()
    operations, waiting = series.total("ReadIOPS", "WriteIOPS"), series.metrics.get(WAITING)
    if waiting is None or operations is None:
        return
    known = np.isfinite(waiting) & np.isfinite(operations) & (operations > 0)
    at, off = known & there, known & elsewhere
    if at.sum() < 3:
        return
    many = float(waiting[at].mean())
    if off.sum() < _ENOUGH:
        if many >= SESSIONS_WAIT:
            text = f"{WAITING}: {many:.1f} on average, with no calm time to compare with"
            yield CeilingEvidence(metric=WAITING, says=Support.CONFIRMS, because=text, ratio=many,
                            requests=many)  # fmt: skip
        return
    now, before = (float(waiting[mask].sum() / operations[mask].sum()) for mask in (at, off))
    larger = _bytes_more(series, at, off) / REQUEST_RATE
    yield _compared(
        series, WAITING, _Taken(now=now, before=before, requests=many, larger=larger)
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What an operation took at a plateau and elsewhere, in seconds."""

    now: float
    before: float = 0.0
    requests: float  # in flight at the same moment
    larger: float = 0.0  # seconds that its bytes take, beyond those of one elsewhere


def _idle(metric: str, requests: float) -> CeilingEvidence:
    """The evidence of a device that is idle at some moments."""
    text = f"{metric}: {requests:.2g} requests in flight on average, so nothing delays them"
    return CeilingEvidence(
        metric=metric, says=Support.CONTRADICTS, because=text, requests=requests, decisive=True
    )  # fmt: skip


def _alone(metric: str, taken: _Taken, size: float) -> CeilingEvidence:
    """The evidence of an operation's time where there is no calm time to compare with."""
    usual = USUAL_TIME + size / REQUEST_RATE
    ratio = min(taken.now / usual, _MOST_RATIO)
    says = Support.CONFIRMS if ratio >= WAITS else Support.SILENT
    text = (
        f"{metric}: {taken.now * 1e3:.3g} ms per operation, {taken.requests:.3g} in flight; there "
        "is no calm time to compare with, but a volume that is not at a limit takes "
        f"{usual * 1e3:.2g} ms at most"
    )
    return CeilingEvidence(
        metric=metric, says=says, because=text, ratio=ratio, requests=taken.requests
    )


def _compared(series: MetricSeries, metric: str, taken: _Taken) -> CeilingEvidence:
    """Compare an operation's time here and elsewhere, less the time that its extra bytes take."""
    now, before, larger = taken.now, taken.before, taken.larger
    expected = before + larger
    ratio = min(now / expected, _MOST_RATIO) if expected else _MOST_RATIO
    says = _word(ratio)
    above_device = series.apart and metric != WAITING  # where a cgroup makes requests wait
    bound = now > DOES_NOT_WAIT * before and taken.requests >= FEW_REQUESTS
    if says is Support.CONTRADICTS and (above_device or bound):
        says = Support.SILENT  # its bytes may explain the time, but need not
    text = f"{metric}: {now * 1e3:.3g} ms per operation here, {before * 1e3:.3g} ms elsewhere"
    if larger > 0.2 * before:
        text += f"; larger operations may explain {larger * 1e3:.3g} ms of the difference"
    return CeilingEvidence(
        metric=metric, says=says, because=text, ratio=ratio, requests=taken.requests
    )


def _sizes(series: MetricSeries) -> Values | None:
    """The bytes of an operation at each point; NaN where there was none, None if unknown."""
    np = numpy()
    operations = series.total("ReadIOPS", "WriteIOPS")
    carried = series.total("ReadThroughput", "WriteThroughput")
    if operations is None or carried is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        size = carried / operations
    sizes: Values = np.where(np.isfinite(size) & (size > 0), size, np.nan)
    return sizes


def _bytes_of(series: MetricSeries, at: Mask) -> float:
    """The bytes of an operation, the median; 0 if unknown."""
    np = numpy()
    sizes = _sizes(series)
    if sizes is None or not np.isfinite(sizes[at]).any():
        return 0.0
    return float(np.nanmedian(sizes[at]))


def _bytes_more(series: MetricSeries, at: Mask, off: Mask) -> float:
    """How many bytes larger an operation is at the plateau; 0 if unknown."""
    here, elsewhere = _bytes_of(series, at), _bytes_of(series, off)
    return max(here - elsewhere, 0.0) if here and elsewhere else 0.0


def nearby(there: Mask, elsewhere: Mask) -> Mask:
    """The part of `elsewhere` around the plateau; all of it if that part is too small."""
    np = numpy()
    places = np.flatnonzero(there)
    if not len(places):
        return elsewhere
    to_next = np.searchsorted(places, np.arange(len(there)))
    before = places[np.clip(to_next - 1, 0, len(places) - 1)]
    after = places[np.clip(to_next, 0, len(places) - 1)]
    every = np.arange(len(there))
    near: Mask = elsewhere & (np.minimum(abs(every - before), abs(every - after)) <= NEARBY)
    return near if near.sum() >= _ENOUGH else elsewhere


def _word(ratio: float) -> Support:
    if ratio >= WAITS:
        return Support.CONFIRMS
    return Support.CONTRADICTS if ratio <= DOES_NOT_WAIT else Support.SILENT


def _operation_times(series: MetricSeries) -> dict[str, Values]:
    """Seconds of one operation, by every available way to measure them."""
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


def balances(
    series: MetricSeries, resource: Resource, plateau: Plateau, ceiling: Ceiling
) -> Iterator[CeilingEvidence]:
    np = numpy()
    metric = BALANCE_OF.get((ceiling.part, resource))
    if metric is None or metric not in series.metrics:
        return
    there = series.metrics[metric][inside(plateau.spans, series.points)]
    there = there[np.isfinite(there)]
    if not len(there):
        return
    left = float(np.median(there))
    unit, most, plenty = SCALE[metric]
    text = f"{metric}: {left:.0f}{unit} left"
    says = Support.SILENT
    if ceiling.kind is CeilingKind.SUSTAINED and left <= most:
        says, text = Support.CONFIRMS, f"{text}, so the baseline applies"
    elif ceiling.kind is CeilingKind.SUSTAINED and left >= plenty:
        says, text = Support.CONTRADICTS, f"{text}, so the baseline does not apply"
    elif ceiling.kind is CeilingKind.BURST and left > most:
        text = f"{text}, so the burst limit can apply"
    decisive = says is Support.CONTRADICTS
    yield CeilingEvidence(metric=metric, says=says, because=text, decisive=decisive)
