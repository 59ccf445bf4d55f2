"""An instance's class, storage and metrics, looked up; whole days are kept and not asked again.

The cache holds one file for each day that is over, below MRTUNER_CACHE_DIR or the user's cache
directory, by the instance's resource id, which no other instance ever has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from mrtuner.aws import cloudwatch, rds
from mrtuner.aws.rows import Instance
from mrtuner.aws.session import Account, client, region_of
from mrtuner.catalog.volumes import Volume, volume_of
from mrtuner.errors import BadValue, UsageError
from mrtuner.limits.read import on_grid
from mrtuner.limits.series import UNITS, Series

#: (points so far, about how many there will be)
Tell = Callable[[int, int], None]
#: Points of a day may still come in so long after its end.
_LATE: Final = timedelta(hours=3)
_DAY: Final = timedelta(days=1)

#: One day: times in seconds since 1970 and values, by metric.
Day = dict[str, list[list[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What AWS says of one instance."""

    class_name: str
    volume: Volume | None  # None for a kind that is not known
    series: Series


def fetch(
    name: str,
    start: datetime,
    end: datetime,
    account: Account,
    *,
    tell: Tell | None = None,
    cache: Path | None = None,
) -> Fetched:
    """Look an instance up, and its metrics from `start` to `end` (UTC).

    One call of DescribeDBInstances and one of GetMetricData with its pages, less what the cache
    has. AwsError for what AWS refuses; UsageError for Aurora and where there are too few points.
    """
    instance = rds.instance(client("rds", account), name)
    if instance.engine.startswith("aurora"):
        raise UsageError(
            f"{name} is of Aurora, whose storage is no EBS volume",
            "Its limits are not published as numbers, so there is nothing to compare with.",
        )
    watch = client("cloudwatch", account)
    period = cloudwatch.period_for(_midnight(start), end)
    where = (cache or cache_directory()) / region_of(watch) / instance.resource_id / str(period)
    days = _days(watch, name, start, end, period=period, where=where, tell=tell)
    return Fetched(
        class_name=instance.class_name,
        volume=volume_below(instance),
        series=_series(days, start, name),
    )


def cache_directory() -> Path:
    """MRTUNER_CACHE_DIR, or the user's cache directory."""
    if from_environment := os.environ.get("MRTUNER_CACHE_DIR"):
        return Path(from_environment)
    import platformdirs

    return Path(platformdirs.user_cache_dir("mrtuner")) / "cloudwatch"


def volume_below(instance: Instance) -> Volume | None:
    """The instance's volume; None where it has none or one that is not known."""
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
    except BadValue:  # newer or other than the table: ceilings of the instance still hold
        return None


def _days(
    watch: Any,
    name: str,
    start: datetime,
    end: datetime,
    *,
    period: int,
    where: Path,
    tell: Tell | None,
) -> list[Day]:
    midnights = list(_midnights(start, end))
    kept = {day: found for day in midnights if (found := _load(where, day)) is not None}
    missing = [day for day in midnights if day not in kept]
    if missing:
        since, until = missing[0], min(missing[-1] + _DAY, end)
        for day, found in _asked(watch, name, since, until, period, tell).items():
            kept[day] = found
            if day + _DAY + _LATE <= end:
                _save(where, day, found)
    return [kept[day] for day in midnights if day in kept]


def _asked(
    watch: Any, name: str, since: datetime, until: datetime, period: int, tell: Tell | None
) -> dict[datetime, Day]:
    wanted = [cloudwatch.Wanted(instance=name, metric=metric) for metric in UNITS]
    about = int((until - since).total_seconds() / period) * len(wanted)
    came = 0

    def heard(points: int) -> None:
        nonlocal came
        came += points
        if tell is not None:
            tell(came, max(about, came))

    found = cloudwatch.metric_data(watch, wanted, since, until, period=period, tell=heard)
    if tell is not None:
        tell(came, came)
    return _by_day(found)


def _by_day(found: Mapping[cloudwatch.Wanted, cloudwatch.Points]) -> dict[datetime, Day]:
    days: dict[datetime, Day] = {}
    for wanted, points in found.items():
        for time, value in zip(points.times, points.values, strict=True):
            day = days.setdefault(_midnight(time), {})
            times, values = day.setdefault(wanted.metric, [[], []])
            times.append(time.timestamp())
            values.append(value)
    return days


def _series(days: Sequence[Day], start: datetime, name: str) -> Series:
    merged: dict[float, dict[str, float]] = {}
    since = start.timestamp()
    for day in days:
        for metric, (times, values) in day.items():
            for time, value in zip(times, values, strict=True):
                if time >= since:
                    merged.setdefault(time, {})[metric] = value
    if not merged:
        raise UsageError(
            f"CloudWatch has no points of {name} in that time",
            "Ask for a longer time with --since, or another region with --region.",
        )
    names = sorted({metric for row in merged.values() for metric in row}, key=list(UNITS).index)
    moments = [datetime.fromtimestamp(time, UTC) for time in merged]
    columns = {
        metric: [row.get(metric, float("nan")) for row in merged.values()] for metric in names
    }
    return on_grid(moments, columns)


def _midnights(start: datetime, end: datetime) -> Iterator[datetime]:
    day = _midnight(start)
    while day < end:
        yield day
        day += _DAY


def _midnight(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _load(where: Path, day: datetime) -> Day | None:
    """A day from the cache; a file that is broken counts as none."""
    try:
        found: Day = json.loads((where / f"{day:%Y-%m-%d}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _save(where: Path, day: datetime, found: Day) -> None:
    """Keep a day; a cache that cannot be written is no error."""
    with suppress(OSError):
        where.mkdir(parents=True, exist_ok=True)
        unfinished = where / f".{day:%Y-%m-%d}.{os.getpid()}"
        unfinished.write_text(json.dumps(found), encoding="utf-8")
        unfinished.replace(where / f"{day:%Y-%m-%d}.json")
