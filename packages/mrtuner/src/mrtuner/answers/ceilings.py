"""What `mrtuner limits` finds in the history: the same code, applied to recorded metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue, MissingPart, UsageError
from mrtuner.history.analysis.period import HistoryPeriod
from mrtuner.history.reading import History
from mrtuner.history.recorded.host_metrics import (
    STEP,
    HostMetrics,
    cloudwatch_metrics,
    host_ceilings,
    host_metrics,
    ordinary_connections,
)
from mrtuner.history.recorded.machine import Facts, facts, instance_of
from mrtuner.history.recorded.settings import settings
from mrtuner.limits.assess import Limits, limits, on_host
from mrtuner.limits.ceilings import (
    AURORA,
    Ceiling,
    CeilingKind,
    Resource,
    ceilings,
    default_connections,
)
from mrtuner.limits.metrics.fetch import volume_below
from mrtuner.limits.metrics.series import FEWEST, MetricSeries
from mrtuner.limits.recorded_ceilings import ceilings_of
from mrtuner.stats.plateaus import numpy
from mrtuner.tuning.gather import NEWEST
from mrtuner.vacuum.wraparound import stops_at
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.aws.rows import Instance

#: The shortest time to judge, since a level is compared with the time around it.
_SHORTEST: Final = timedelta(days=1)
#: The longest time to judge: the end of the period.
LONGEST: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The answer of `limits` for the time that was judged, or why nothing could be judged."""

    about: HistoryPeriod
    limits: Limits | None
    why: str = ""


def judged(history: History, about: HistoryPeriod, *, since: datetime | None = None) -> Judged:
    """Judge the end of a period: at least a day, at most a week, nothing before `since`."""
    length = min(max(about.end - about.begin, _SHORTEST), LONGEST)
    begin = about.end - length
    over = replace(about, begin=begin if since is None else max(begin, since))
    return history.once(("judged", over), lambda: _limits_or_why(history, over))


def _limits_or_why(history: History, over: HistoryPeriod) -> Judged:
    try:
        found = _judged(history, over)
    except (UsageError, MissingPart) as error:
        return Judged(about=over, limits=None, why=f"{error.message}. {error.hint or ''}".strip())
    return Judged(
        about=over, limits=found, why="" if found.series.points else found.series.notices[0]
    )


def known_ceilings(history: History, about: HistoryPeriod) -> Sequence[Ceiling]:
    """Return the ceilings of an instance at the end of a period, without judging it."""
    return ceilings_at(
        facts(history, about.instance, until=about.end), host_ceilings(history, about)
    )


def ceilings_at(known: Facts, of_host: Iterable[Mapping[str, Any]]) -> Sequence[Ceiling]:
    """Return the ceilings of an RDS instance's class and volume, else those of the host.

    Empty for a class that is not in our table.
    """
    instance = instance_of(known)
    if instance is None:
        return ceilings_of(of_host)
    try:
        return _of_class(instance, None)
    except BadValue:  # a class newer than our table
        return ()


def _of_class(instance: Instance, most: tuple[int, str] | None) -> Sequence[Ceiling]:
    from mrtuner.catalog.classes import instance_class

    aurora = instance.engine.startswith(AURORA)
    return ceilings(
        instance_class(instance.class_name), None if aurora else volume_below(instance),
        connections=most, aurora=aurora,
    )  # fmt: skip


def _judged(history: History, about: HistoryPeriod) -> Limits:
    known = facts(history, about.instance, until=about.end)
    most = _open_to_clients(history, about)
    found = [*ceilings_of(host_ceilings(history, about)), *_connections(most)]
    try:
        metrics = host_metrics(history, about)
    except UsageError as error:
        if instance_of(known) is not None or history.has("cloudwatch"):
            return _of_rds(about, known, cloudwatch_metrics(history, about), most)
        if not found:
            raise
        nothing = MetricSeries(start=about.begin, step=STEP, metrics={}, notices=(error.message,))
        return on_host(nothing, found, name=about.instance, storage=None)
    return on_host(_series(metrics, apart=True), found, name=about.instance, storage=metrics.device)


def _of_rds(
    about: HistoryPeriod, known: Facts, metrics: HostMetrics, most: tuple[int, str] | None
) -> Limits:
    instance = instance_of(known)
    series = _series(metrics, apart=False)
    if instance is None:
        told = (*series.notices, "the instance's class was not recorded, so its limits are unknown")
        return on_host(
            replace(series, notices=told), _connections(most), name=about.instance, storage=None
        )  # fmt: skip
    name = instance.class_name
    aurora = instance.engine.startswith(AURORA)
    volume = None if aurora else volume_below(instance)
    try:
        most = most or default_connections(name, aurora=aurora)
        if series.points:
            storage = AURORA if aurora else volume
            return limits(
                series, class_name=name, storage=storage, connections=most, name=about.instance
            )  # fmt: skip
        found = _of_class(instance, most)
    except BadValue as error:  # a class newer than our table
        told = (*series.notices, f"{error.message}, so its limits are unknown")
        series, found = replace(series, notices=told), _connections(most)
    return on_host(
        series, found, name=about.instance, storage=None if volume is None else str(volume)
    )


def _series(metrics: HostMetrics, *, apart: bool) -> MetricSeries:
    """Return the metrics; without points if there are too few to show a lasting level."""
    np = numpy()
    values = {name: np.array(points, dtype=float) for name, points in metrics.values.items()}
    most = max((int(np.isfinite(points).sum()) for points in values.values()), default=0)
    notices = () if most >= FEWEST else (
        f"{plural(most, 'sample')} of the host cannot show a ceiling: {FEWEST} are needed, "
        f"{FEWEST * metrics.step // 60} min: record on",
    )  # fmt: skip
    return MetricSeries(
        start=metrics.begin, step=metrics.step, metrics={} if notices else values,
        notices=notices, apart=apart,
    )  # fmt: skip


def _open_to_clients(history: History, about: HistoryPeriod) -> tuple[int, str] | None:
    """Return how many connections ordinary roles may open, and its origin."""
    most = ordinary_connections(history, about)
    return None if most is None else (most, "max_connections less the reserved, recorded")


def _connections(most: tuple[int, str] | None) -> list[Ceiling]:
    if most is None:
        return []
    return [
        Ceiling(
            resource=Resource.CONNECTIONS, part="server", kind=CeilingKind.SUSTAINED,
            value=most[0], source=most[1],
        )
    ]  # fmt: skip


def id_limits(history: History, about: HistoryPeriod) -> tuple[int | None, int]:
    """Return the ages that force a vacuum (None if not recorded) and that stop all writes."""
    values = settings(history, about, "autovacuum_freeze_max_age", "server_version_num")
    version = values.get("server_version_num", "")
    forced = values.get("autovacuum_freeze_max_age", "")
    major = int(version) // 10_000 if version.isdecimal() else NEWEST
    return int(forced) if forced.isdecimal() else None, stops_at(major)
