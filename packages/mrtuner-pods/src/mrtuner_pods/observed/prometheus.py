"""Service times, rate and CPU time from what an application exposes for Prometheus, as text.

One reading covers all requests since the application started, two cover those in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mrtuner.errors import BadValue
from mrtuner.extras import require
from mrtuner.facts import Fact
from mrtuner_pods.observed.histogram import Histogram, doubts
from mrtuner_pods.observed.metrics import (
    CPU,
    KNOWN,
    STARTED,
    Known,
    Selector,
    seconds_in_unit,
    selector,
)
from mrtuner_pods.observed.model import Observed, PodsMeasuredWaiting
from mrtuner_pods.waiting.queues import quantile
from mrtuner_pods.waiting.service_times import LEAST_SAMPLES

Labels = tuple[tuple[str, str], ...]
#: Values by the name of the series, and by its labels.
Series = Mapping[str, Mapping[Labels, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What was counted of requests, by an application or a Prometheus server."""

    where: str
    known: Known
    times: Histogram
    database: Histogram | None
    queue: Histogram | None
    cpu: Fact[float] | None  # CPU seconds in the same time
    rate: Fact[float] | None
    warnings: tuple[str, ...]


def of_texts(
    texts: Sequence[str], where: str, *, metric: str | None = None, unit: str | None = None,
    apart: float | None = None,
) -> Observed:  # fmt: skip
    """Return the load that one or two readings in Prometheus's text format show.

    `metric` selects the times of requests, such as ``http_request_duration_seconds{job="web"}``; by
    default the first known one that is present. `apart` is the time between two readings [s].

    Raises BadValue if a text is not in that format, has no such metric or too few requests, or if a
    counter fell between two readings.
    """
    wanted = selector(metric)
    readings = [parsed(text, where) for text in texts]
    last = readings[-1]
    known = wanted_metric(wanted, present(last), where)
    pick = _picker(readings, wanted, unit, where)
    times = pick(known.name)
    if times is None:
        raise BadValue(
            f"{where} has no {wanted.of(known.name) if wanted.matchers else known.name}",
            "Check the labels of --metric.",
        )
    warnings = []
    rate = cpu = None
    if len(readings) == 1:
        warnings.append(
            f"{where} counts since the application started, including quiet hours: times are "
            "averages over all that, and there is no rate"
        )
    elif apart:
        said = f"{known.name}_count of {where}, over {apart:.3g} s"
        rate = Fact(times.count / apart, said)
        warnings.append(
            f"{where} counts only its own requests: give --rate if other pods serve too"
        )
        cpu = _cpu(readings, wanted, where)
    return observed(
        Counted(
            where=where, known=known, times=times,
            database=pick(known.database), queue=pick(known.queue),
            cpu=cpu, rate=rate, warnings=tuple(warnings),
        )
    )  # fmt: skip


def observed(counted: Counted) -> Observed:
    """Return the figures of a load that follow from what was counted.

    Raises BadValue if there are too few requests, or times contradict each other.
    """
    times, name = counted.times, counted.known.name
    if times.count < LEAST_SAMPLES:
        raise BadValue(
            f"{times.count:.0f} requests of {name} are too few to plan from",
            f"Read over a longer time (--over), with at least {LEAST_SAMPLES} requests.",
        )
    requests = f"{name} of {counted.where}, {times.count:,.0f} requests"
    warnings = [*counted.warnings, *doubts(times, name)]
    shape = not _is_summary(times)
    if not shape:
        warnings.append(
            f"{name} is a summary: its mean is used, but its quantiles cannot be combined "
            "over processes; give --variation"
        )
    cpu = None
    if counted.cpu is not None:
        each = counted.cpu.value / times.count
        if each <= times.mean:
            cpu = Fact(each, f"{counted.cpu.source} / {name}_count")
        else:
            warnings.append(
                f"{counted.cpu.source} is more than the time of the requests: something else uses "
                "the CPU in these processes, so it is not used"
            )
    return Observed(
        rate=counted.rate,
        samples=Fact(times.samples(), requests) if shape else None,
        service_time=None if shape else Fact(times.mean, requests),
        cpu_time=cpu,
        database_time=_database(counted),
        waited=_waited(counted),
        warnings=tuple(warnings),
    )


def _is_summary(times: Histogram) -> bool:
    return not any(math.isfinite(bound) for bound in times.buckets)


def _database(counted: Counted) -> Fact[float] | None:
    """Mean time in the database over all requests, including those without a query."""
    if counted.database is None:
        return None
    return Fact(
        counted.database.total / counted.times.count,
        f"{counted.known.database}_sum / {counted.known.name}_count of {counted.where}",
    )


def _waited(counted: Counted) -> PodsMeasuredWaiting | None:
    queue = counted.queue
    if queue is None or queue.count < LEAST_SAMPLES:
        return None
    source = f"{counted.known.queue} of {counted.where}"
    if _is_summary(queue) or doubts(queue, source):
        return PodsMeasuredWaiting(source=source, count=round(queue.count), mean=queue.mean)
    ordered = queue.samples()
    return PodsMeasuredWaiting(
        source=source, count=round(queue.count), mean=queue.mean,
        p50=quantile(ordered, 0.5), p95=quantile(ordered, 0.95), p99=quantile(ordered, 0.99),
    )  # fmt: skip


# Which metric.


def present(series: Series) -> set[str]:
    """Return the names of all histograms and summaries: those with a sum and a count."""
    return {name.removesuffix("_count") for name in series if name.endswith("_count")} & {
        name.removesuffix("_sum") for name in series if name.endswith("_sum")
    }


def wanted_metric(wanted: Selector, there: Iterable[str], where: str) -> Known:
    """Return the metric that was asked for, else the first known one; BadValue if it is absent."""
    names = set(there)
    if wanted.name is not None:
        if wanted.name not in names:
            raise _missing(f"{where} has no histogram or summary {wanted.name}", names)
        known = (one for one in KNOWN if one.name == wanted.name)
        return next(known, Known(name=wanted.name))
    for one in KNOWN:
        if one.name in names:
            return one
    raise _missing(f"{where} has none of the known metrics of request times", names)


def _missing(message: str, names: set[str]) -> BadValue:
    candidates = sorted(name for name in names if "request" in name or "http" in name) or sorted(
        names
    )
    shown = ", ".join(candidates[:8])
    return BadValue(
        message,
        f"Name one with --metric; there are: {shown}." if shown
        else "It needs the series NAME_sum and NAME_count, and NAME_bucket for their distribution.",
    )  # fmt: skip


# Reading.


def parsed(text: str, where: str) -> dict[str, dict[Labels, float]]:
    """Return every series of a text; BadValue if it has another format, or none."""
    require("prometheus_client")
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as openmetrics

    strict = text.rstrip().endswith("# EOF")
    families: Callable[[str], Iterable[Any]] = (
        openmetrics.text_string_to_metric_families if strict
        else parser.text_string_to_metric_families
    )  # fmt: skip
    found: dict[str, dict[Labels, float]] = {}
    try:
        for family in families(text):
            for sample in family.samples:
                labels = tuple(sorted(sample.labels.items()))
                found.setdefault(sample.name, {})[labels] = float(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise BadValue(
            f"{where} is not in Prometheus's text format: {str(error).splitlines()[0]}",
            "Give what the application exposes at /metrics, or the address of a Prometheus server.",
        ) from None
    if not found:
        raise BadValue(f"{where} has no metrics", "Give what the application exposes at /metrics.")
    return found


def _picker(
    readings: Sequence[Series], wanted: Selector, unit: str | None, where: str
) -> Callable[[str | None], Histogram | None]:
    """Return a function from a metric's name to its histogram over all selected series."""
    beside = {one for known in KNOWN for one in (known.database, known.queue)}

    def pick(name: str | None) -> Histogram | None:
        if name is None or name not in present(readings[-1]):
            return None
        in_unit = seconds_in_unit(name, None if name in beside else unit)
        found = [histogram(one, name, wanted, in_unit) for one in readings]
        if found[-1].count == 0:
            return None
        for earlier, later in pairwise(found):
            _refuse_reset(readings, wanted, name, where)
            grown = later.since(earlier)
            return grown if grown and grown.count else None
        return found[-1]

    return pick


def histogram(series: Series, name: str, wanted: Selector, in_unit: float) -> Histogram:
    """Return the histogram of a metric, summed over all selected series."""
    buckets: dict[float, float] = {}
    for labels, number in _selected(series, f"{name}_bucket", wanted):
        bound = float(dict(labels).get("le", "inf")) * in_unit
        buckets[bound] = buckets.get(bound, 0.0) + number
    total = sum(number for _, number in _selected(series, f"{name}_sum", wanted))
    count = sum(number for _, number in _selected(series, f"{name}_count", wanted))
    return Histogram(buckets=buckets, total=total * in_unit, count=count)


def _selected(series: Series, name: str, wanted: Selector) -> Iterable[tuple[Labels, float]]:
    for labels, number in series.get(name, {}).items():
        known = dict(labels)
        if all(one.holds(known.get(one.label, "")) for one in wanted.matchers):
            yield labels, number


def _refuse_reset(readings: Sequence[Series], wanted: Selector, name: str, where: str) -> None:
    first, last = readings[0], readings[-1]
    for labels, number in _selected(first, f"{name}_count", wanted):
        if last.get(f"{name}_count", {}).get(labels, 0.0) < number:
            raise _reset(f"{name}_count", where)
    if first.get(STARTED) and first.get(STARTED) != last.get(STARTED):
        raise _reset(STARTED, where)


def _reset(name: str, where: str) -> BadValue:
    return BadValue(
        f"{name} of {where} was reset between the readings: the application restarted, or a "
        "different process answered",
        "Read again; with several workers, let the client library combine them (multiprocess "
        "mode), or query a Prometheus server.",
    )


def _cpu(readings: Sequence[Series], wanted: Selector, where: str) -> Fact[float] | None:
    """CPU seconds between two readings; None if labels select only some of the requests."""
    if wanted.matchers:
        return None
    first, last = (sum(one.get(CPU, {}).values()) for one in (readings[0], readings[-1]))
    if last <= first:
        return None
    return Fact(last - first, f"{CPU} of {where}")
