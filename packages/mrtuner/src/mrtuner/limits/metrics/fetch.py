"""An instance's class, storage and metrics from AWS; complete days are cached.

The cache has one file per past day, below MRTUNER_CACHE_DIR or the user's cache directory, named
by the instance's resource id, which is never reused for another instance.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner import files
from mrtuner.aws import cloudwatch, rds
from mrtuner.aws.rows import Instance
from mrtuner.aws.session import Account, client, region_of
from mrtuner.catalog.volumes import Volume, volume_of
from mrtuner.errors import BadValue, UsageError
from mrtuner.limits.ceilings import AURORA
from mrtuner.limits.metrics.read import on_grid
from mrtuner.limits.metrics.series import UNITS, MetricSeries
from mrtuner.stats.plateaus import numpy

if TYPE_CHECKING:
    from mrtuner.stats.plateaus import Values

#: (points so far, approximate total)
Tell = Callable[[int, int], None]
#: Points of a day may still arrive this long after its end.
_LATE: Final = timedelta(hours=3)
_DAY: Final = timedelta(days=1)
#: Points in memory at the same time: some 100 MB, ten pages of CloudWatch.
_POINTS: Final = 1_000_000

#: Significant digits kept of a value: a level is not found more precisely than to three.
_DIGITS: Final = 7
#: One day: times in seconds since 1970 and values, by metric.
Day = dict[str, list[list[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What AWS reports about one instance."""

    name: str
    class_name: str
    storage: Volume | str | None  # AURORA; None for an unknown kind
    points: MetricSeries | UsageError  # or the reason why there are none

    @property
    def series(self) -> MetricSeries:
        """The metrics. Raises UsageError if there are too few."""
        if isinstance(self.points, UsageError):
            raise self.points
        return self.points


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The period, step and metrics to request from CloudWatch, and the cache directory."""

    start: datetime
    end: datetime
    period: int
    metrics: tuple[str, ...]
    cache: Path

    @property
    def points(self) -> int:
        """Number of points of one instance, for all metrics."""
        return int((self.end - _midnight(self.start)).total_seconds() / self.period) * len(
            self.metrics
        )


def fetch(
    name: str,
    start: datetime,
    end: datetime,
    account: Account,
    *,
    tell: Tell | None = None,
) -> Fetched:
    """Look up an instance, and its metrics from `start` to `end` (UTC).

    Makes one DescribeDBInstances call, and one GetMetricData call with its pages for what is not
    in the cache. AwsError for what AWS refuses; UsageError if there are too few points.
    """
    instance = rds.instance(client("rds", account), name)
    (found,) = fetch_all([instance], start, end, account, tell=tell)
    if isinstance(found.points, UsageError):
        raise found.points
    return found


def fetch_all(
    instances: Sequence[Instance],
    start: datetime,
    end: datetime,
    account: Account,
    *,
    metrics: tuple[str, ...] = tuple(UNITS),
    tell: Tell | None = None,
) -> Iterator[Fetched]:
    """Look up many instances of one region, with as many per call as its limits and memory allow.

    They are yielded as they are fetched and not kept, so memory does not grow.
    """
    watch = client("cloudwatch", account)
    period = cloudwatch.period_for(_midnight(start), end)
    where = cache_directory() / region_of(watch)
    asked = Asked(start=start, end=end, period=period, metrics=metrics, cache=where)
    for batch in _batches(instances, asked):
        days = _days(watch, batch, asked, tell)
        for instance in batch:
            yield Fetched(
                name=instance.identifier,
                class_name=instance.class_name,
                storage=AURORA if instance.engine.startswith(AURORA) else volume_below(instance),
                points=_series(days.pop(instance.identifier), start, instance.identifier),
            )


def _batches(instances: Sequence[Instance], asked: Asked) -> Iterator[Sequence[Instance]]:
    """Group instances so that their metrics fit into one call and their points into memory."""
    size = min(cloudwatch.QUERIES // len(asked.metrics), max(_POINTS // max(asked.points, 1), 1))
    return (instances[first : first + size] for first in range(0, len(instances), size))


def cache_directory() -> Path:
    """MRTUNER_CACHE_DIR, or the user's cache directory."""
    if from_environment := os.environ.get("MRTUNER_CACHE_DIR"):
        return Path(from_environment)
    import platformdirs

    return Path(platformdirs.user_cache_dir("mrtuner")) / "cloudwatch"


def volume_below(instance: Instance) -> Volume | None:
    """The instance's volume; None if it has none, or an unknown one."""
    if not instance.storage_type:
        return None
    provisioned = instance.storage_type in {"gp3", "io1", "io2"}
    try:
        return volume_of(
            instance.storage_type,
            instance.allocated_storage,
            iops=instance.iops if provisioned else None,
            throughput=instance.storage_throughput if instance.storage_type == "gp3" else None,
        )
    except BadValue:  # not in the table, perhaps newer: the instance's ceilings still apply
        return None


def _days(
    watch: Any, batch: Sequence[Instance], asked: Asked, tell: Tell | None
) -> dict[str, list[Day]]:
    """Every day of every instance: from the cache, or from one call for all the rest."""
    midnights = list(_midnights(asked.start, asked.end))
    kept = {
        one.identifier: {
            day: found for day in midnights if (found := _load(_file(one, asked, day), asked))
        }
        for one in batch
    }
    short = [one for one in batch if len(kept[one.identifier]) < len(midnights)]
    if short:
        missing = [
            day for day in midnights if any(day not in kept[one.identifier] for one in short)
        ]
        since, until = missing[0], min(missing[-1] + _DAY, asked.end)
        came = _came(watch, short, asked, since, until, tell)
        for one in short:
            kept[one.identifier] |= _by_day(one.identifier, came, asked, since, until)
            _save_all(one, kept[one.identifier], asked)
    return {name: [days[day] for day in midnights] for name, days in kept.items()}


def _came(
    watch: Any,
    instances: Sequence[Instance],
    asked: Asked,
    since: datetime,
    until: datetime,
    tell: Tell | None,
) -> Mapping[cloudwatch.Wanted, cloudwatch.Points]:
    wanted = [
        cloudwatch.Wanted(instance=one.identifier, metric=metric)
        for one in instances
        for metric in asked.metrics
    ]
    about = int((until - since).total_seconds() / asked.period) * len(wanted)
    so_far = 0

    def heard(points: int) -> None:
        nonlocal so_far
        so_far += points
        if tell is not None:
            tell(so_far, max(about, so_far))

    found = cloudwatch.metric_data(watch, wanted, since, until, period=asked.period, tell=heard)
    if tell is not None:
        tell(so_far, so_far)
    return found


def _by_day(
    name: str,
    came: Mapping[cloudwatch.Wanted, cloudwatch.Points],
    asked: Asked,
    since: datetime,
    until: datetime,
) -> dict[datetime, Day]:
    """One instance's points by day; a metric it does not have is included, without points."""
    midnights = list(_midnights(since, until))
    days: dict[int, Day] = {
        int(day.timestamp()) // 86_400: {metric: [[], []] for metric in asked.metrics}
        for day in midnights
    }
    for metric in asked.metrics:
        points = came[cloudwatch.Wanted(instance=name, metric=metric)]
        for time, value in zip(points.times, points.values, strict=True):
            second = int(time.timestamp())
            times, values = days[second // 86_400][metric]
            times.append(second)
            values.append(float(f"{value:.{_DIGITS}g}"))
    return dict(zip(midnights, days.values(), strict=True))


def _series(days: Sequence[Day], start: datetime, name: str) -> MetricSeries | UsageError:
    """The points since `start` on one grid, or the reason why there are too few."""
    np = numpy()
    since = start.timestamp()
    columns = {metric: _joined(metric, days) for metric in UNITS}
    columns = {metric: pair for metric, pair in columns.items() if len(pair[0])}
    times = [times for times, _ in columns.values()]
    every = np.unique(np.concatenate(times)) if times else np.array([])
    every = every[every >= since]
    if not len(every):
        return UsageError(
            f"CloudWatch has no data for {name} in that period",
            "Give a longer period with --since, or another region with --region.",
        )
    moments = [datetime.fromtimestamp(time, UTC) for time in every.tolist()]
    metrics = {metric: _at(every, *pair) for metric, pair in columns.items()}
    try:
        return on_grid(moments, metrics)
    except UsageError as error:
        return error


def _joined(metric: str, days: Sequence[Day]) -> tuple[Values, Values]:
    """Times and values of one metric over all days."""
    np = numpy()
    pairs = [day[metric] for day in days if metric in day]
    times, values = (np.array([one for pair in pairs for one in pair[side]]) for side in (0, 1))
    return times, values


def _at(every: Values, times: Values, values: Values) -> Values:
    """The value at each of the times, or a gap if there is none."""
    np = numpy()
    found: Values = np.full(len(every), np.nan)
    kept = times >= every[0]
    found[np.searchsorted(every, times[kept])] = values[kept]
    return found


def _midnights(start: datetime, end: datetime) -> Iterator[datetime]:
    day = _midnight(start)
    while day < end:
        yield day
        day += _DAY


def _midnight(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _file(of: Instance, asked: Asked, day: datetime) -> Path:
    """The cache file for one day of an instance; its resource id is never reused."""
    return asked.cache / of.resource_id / str(asked.period) / f"{day:%Y-%m-%d}.json.gz"


def _load(file: Path, asked: Asked) -> Day | None:
    """Load a day from the cache; None if the file is broken or lacks a metric."""
    try:
        found: Day = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return found if set(asked.metrics) <= set(found) else None


def _save_all(of: Instance, days: Mapping[datetime, Day], asked: Asked) -> None:
    """Cache the days that are over; a failure to write is ignored."""
    for day, found in days.items():
        file = _file(of, asked, day)
        if day + _DAY + _LATE <= asked.end and not _load(file, asked):
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                packed = gzip.compress(json.dumps(found).encode(), compresslevel=1)
                files.replace(file, packed, durable=False)
